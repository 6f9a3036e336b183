"""Pictures inside PDFs: which are kept, in what form, and where they stand."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path

from PIL import Image as Raster
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from knowledge.ingestion.blocks import ParseContext, ParsedDocument, Source
from knowledge.ingestion.parsers.pdf import parse


def read(tmp_path: Path, draw: Callable[[Canvas], None], context: ParseContext | None = None) -> ParsedDocument:
    path = tmp_path / "given.pdf"
    canvas = Canvas(str(path), pagesize=(595, 842))
    draw(canvas)
    canvas.save()
    return parse(Source(path, "given.pdf", "application/pdf"), context or ParseContext())


def chart(form: str = "PNG") -> io.BytesIO:
    buffer = io.BytesIO()
    Raster.linear_gradient("L").resize((64, 48)).convert("RGB").save(buffer, form)
    buffer.seek(0)
    return buffer


def test_a_picture_stands_between_the_texts_around_it_and_takes_its_caption(tmp_path: Path) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.drawString(72, 760, "Above the picture.")
        canvas.drawImage(ImageReader(chart()), 72, 600, 128, 96)
        canvas.drawString(72, 580, "Figure 1: pressure over time")
        canvas.drawString(72, 540, "Below the picture.")

    parsed = read(tmp_path, draw)
    assert [block.kind for block in parsed.blocks] == ["paragraph", "image", "paragraph", "paragraph"]
    picture = parsed.blocks[1]
    assert picture.text == "Figure 1: pressure over time"
    assert picture.bbox == (72.0, 146.0, 200.0, 242.0)
    (image,) = parsed.images
    assert (image.key, image.mime, image.alt) == (picture.image, "image/png", "Figure 1: pressure over time")
    with Raster.open(io.BytesIO(image.data)) as shown:
        assert shown.size == (64, 48)
        rows = shown.convert("L").resize((1, 48)).tobytes()
        assert rows[0] < 20 and rows[47] > 235


def test_a_jpeg_is_kept_as_it_is_and_once_however_often_it_is_shown(tmp_path: Path) -> None:
    def draw(canvas: Canvas) -> None:
        for _ in range(3):
            canvas.drawString(72, 760, "Words on the page.")
            canvas.drawImage(str(stored), 400, 700, 64, 48)
            canvas.showPage()

    stored = tmp_path / "photo.jpg"
    stored.write_bytes(chart("JPEG").getvalue())
    parsed = read(tmp_path, draw)
    assert [image.mime for image in parsed.images] == ["image/jpeg"]
    assert parsed.images[0].data.endswith(b"\xff\xd9")
    assert parsed.images[0].key == hashlib.sha256(parsed.images[0].data).hexdigest()
    assert [block.page for block in parsed.blocks if block.kind == "image"] == [1]


def test_a_scan_behind_its_text_and_small_ornaments_are_left_out(tmp_path: Path) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.drawImage(ImageReader(chart()), 0, 0, 595, 842)
        canvas.drawImage(ImageReader(chart()), 72, 600, 12, 12)
        canvas.drawString(72, 760, "Recognised text over its scan.")

    parsed = read(tmp_path, draw)
    assert parsed.images == ()
    assert parsed.text == "Recognised text over its scan."


def test_a_picture_with_too_many_pixels_is_left_out_with_a_warning(tmp_path: Path) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.drawString(72, 760, "Words.")
        canvas.drawImage(ImageReader(chart()), 72, 600, 128, 96)

    parsed = read(tmp_path, draw, ParseContext(max_image_pixels=1000))
    assert parsed.images == ()
    assert parsed.warnings == ("pictures_left_out: 1 pictures were too large or too many.",)
