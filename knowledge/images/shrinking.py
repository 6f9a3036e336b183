"""Decodes pictures and makes thumbnails, in the sandbox's child process. Knows no Django, no database, no settings."""

from __future__ import annotations

import io
import json
import zipfile

from PIL import Image as Raster

from knowledge.ingestion.blocks import Block, Image, ParseContext, ParsedDocument, Source, assemble
from knowledge.ingestion.parsers.pictures import frame, opened
from portal.kernel.errors import ParseError

SIDE = 480  # pixels
SMALL_ENOUGH = 60_000  # bytes: a picture of so few is its own thumbnail


def shrink(source: Source, context: ParseContext) -> ParsedDocument:
    """A zip of pictures by key to one block a picture: JSON `[width, height, thumbnail's index or null]` in
    pixels, `null` for a picture that can not be decoded; the thumbnails are the document's images, in order.
    """
    blocks: list[Block] = []
    thumbnails: list[Image] = []
    with zipfile.ZipFile(source.path) as archive:
        names = archive.namelist()
        for done, key in enumerate(names, start=1):
            value = _look_at(archive.read(key), thumbnails, context)
            blocks.append(Block("code", json.dumps(value), image=key))
            context.progress(done, len(names))
    return assemble("application/zip", blocks, images=thumbnails)


def _look_at(data: bytes, thumbnails: list[Image], context: ParseContext) -> list[int | None] | None:
    try:
        with opened(io.BytesIO(data), context) as picture:
            width, height = picture.size
            if len(data) <= SMALL_ENOUGH and max(width, height) <= 2 * SIDE:
                picture.load()
                return [width, height, None]
            if picture.format == "JPEG":
                picture.draft("RGB", (2 * SIDE, 2 * SIDE))  # a large photo need not be decoded in full
            small = frame(picture, 1)
    except (ParseError, Raster.DecompressionBombError):
        return None
    small.thumbnail((SIDE, SIDE))
    packed = io.BytesIO()
    small.save(packed, "JPEG", quality=82, optimize=True)
    thumbnails.append(Image("", "image/jpeg", packed.getvalue()))
    return [width, height, len(thumbnails) - 1]
