"""Picture files (PNG, JPEG, TIFF, WebP, BMP, GIF): each frame a page, its text by text recognition only.

Decoded here with Pillow, in the sandbox; the size is looked at before a pixel is decoded.
"""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from PIL import Image as Raster
from PIL import ImageOps

from knowledge.ingestion.blocks import Block, Image, ParseContext, ParsedDocument, Source, assemble
from knowledge.ingestion.parsers.images import image_header
from knowledge.ingestion.parsers.pdf.recognised import Recognised
from portal.kernel.errors import ParseError

FORMATS = ("PNG", "JPEG", "TIFF", "WEBP", "BMP", "GIF")
MAX_FRAMES = 500
SHOWN_SIDE = 2_000  # pixels of a frame that is kept as a picture of its own because browsers can not show the file
NOT_READ = "This is a picture; its text can be read only by text recognition (OCR)."


def parse(source: Source, context: ParseContext) -> ParsedDocument:
    """The picture and, where it was recognised, its text page by page.

    Raises `ParseError`: `empty_file`, `damaged_file`, `too_many_pixels`, `too_many_pages`, and `no_text`
    when nothing recognises text.
    """
    with opened(source.path, context) as picture:
        count = frames_of(picture)
        if count > min(MAX_FRAMES, context.max_pages):
            raise ParseError(
                "This picture has %(pages)s pages, more than the limit of %(limit)s.",
                code="too_many_pages", pages=count, limit=min(MAX_FRAMES, context.max_pages),
            )  # fmt: skip
        recognised = Recognised.of(source)
        if not recognised.pages and not context.ocr:
            raise ParseError(NOT_READ, code="no_text")
        shown = list(_shown(source, picture, count, context))
    blocks: list[Block] = []
    for number, image in enumerate(shown, start=1):
        page = recognised.pages.get(number)
        box = (0.0, 0.0, page.width, page.height) if page else None
        blocks.append(Block("image", image.alt, page=number, image=image.key, bbox=box))
        blocks += recognised.blocks(number)
        context.progress(number, count)
    if recognised.pages and not any(block.ocr for block in blocks):
        raise ParseError("No text was recognised on this picture.", code="no_text")
    unread = [number for number in range(1, count + 1) if not recognised.has(number)] if context.ocr else []
    return assemble(
        source.mime, blocks, images=list({image.key: image for image in shown}.values()), page_count=count,
        unread=unread, warnings=recognised.warnings(),
    )  # fmt: skip


@contextmanager
def opened(source: Path | io.BytesIO, context: ParseContext) -> Iterator[Raster.Image]:
    """The picture, opened but not decoded. Raises `ParseError` (`damaged_file`, `too_many_pixels`)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Raster.MAX_IMAGE_PIXELS = context.max_image_pixels
        try:
            with Raster.open(source, formats=FORMATS) as picture:
                refuse_large(picture, context)
                yield picture
        except Raster.DecompressionBombError as error:
            raise ParseError(_TOO_LARGE, code="too_many_pixels", limit=context.max_image_pixels) from error
        except (
            OSError,
            ValueError,
            SyntaxError,
            EOFError,
            TypeError,
            KeyError,
            IndexError,
            ZeroDivisionError,
        ) as error:
            raise ParseError("The file is damaged or incomplete.", code="damaged_file") from error


_TOO_LARGE = "This picture has more than %(limit)s pixels."


def refuse_large(picture: Raster.Image, context: ParseContext) -> None:
    """Raises `ParseError` (`too_many_pixels`) by the size that the header states."""
    if picture.width * picture.height > context.max_image_pixels:
        raise ParseError(_TOO_LARGE, code="too_many_pixels", limit=context.max_image_pixels)


def frames_of(picture: Raster.Image) -> int:
    """Pages of a TIFF; an animation counts as its first picture."""
    return int(getattr(picture, "n_frames", 1)) if picture.format == "TIFF" else 1


def frame(picture: Raster.Image, number: int) -> Raster.Image:
    """Frame `number` (from 1) decoded, upright, as RGB on white."""
    if number > 1:
        picture.seek(number - 1)
    upright = ImageOps.exif_transpose(picture)
    if upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info:
        layered = upright.convert("RGBA")
        paper = Raster.new("RGBA", layered.size, "white")
        return Raster.alpha_composite(paper, layered).convert("RGB")
    if upright.mode.startswith(("I", "F")):  # 16 or 32 bits a pixel: stretched to 8
        low, high = upright.getextrema()
        span = max(float(high) - float(low), 1.0)  # type: ignore[arg-type]
        return upright.point(lambda value: (value - float(low)) * 255 / span).convert("L").convert("RGB")  # type: ignore[arg-type]
    return upright.convert("RGB")


def _shown(source: Source, picture: Raster.Image, count: int, context: ParseContext) -> Iterator[Image]:
    """Each frame as a picture that browsers show: the file itself where they can, else a PNG of it."""
    alt = Path(source.name).stem or "picture"
    data = source.read()
    header = image_header(data)
    if header is not None and count == 1 and len(data) <= context.max_image_bytes:
        frame(picture, 1)  # decoded once, so that a damaged file is refused here
        yield Image(hashlib.sha256(data).hexdigest(), header.mime, data, alt)
        return
    for number in range(1, count + 1):
        if number > 1:
            picture.seek(number - 1)
            refuse_large(picture, context)
        small = frame(picture, number)
        small.thumbnail((SHOWN_SIDE, SHOWN_SIDE))
        packed = io.BytesIO()
        small.save(packed, "PNG")
        kept = Image(hashlib.sha256(packed.getvalue()).hexdigest(), "image/png", packed.getvalue(), alt)
        yield replace(kept, alt=f"{alt} ({number})") if count > 1 else kept
