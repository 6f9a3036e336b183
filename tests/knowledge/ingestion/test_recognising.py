"""Text recognition: pages, pictures and their places; skipped where the extra `ocr` is not installed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image as Raster
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from knowledge.ingestion.blocks import ParseContext, ParsedDocument, Source
from knowledge.ingestion.ocr import recognising
from knowledge.ingestion.ocr.availability import is_installed
from knowledge.ingestion.ocr.lines import Line, RecognisedPage, page_from_json, page_from_text
from knowledge.ingestion.ocr.recognising import Course, InMemory, OcrLimits, recognised_pages
from knowledge.ingestion.parsers import parser_for
from knowledge.ingestion.read_file import ReadOptions, read_file
from knowledge.ingestion.sniff import sniff
from portal.kernel.errors import ParseError
from tests.support.drawings import in_markdown, packed, page, words

ocr = pytest.mark.skipif(not is_installed(), reason="text recognition (the extra `ocr`) is not installed")


def source(tmp_path: Path, name: str, data: bytes) -> Source:
    path = tmp_path / "stored"
    path.write_bytes(data)
    return Source(path, name, sniff(path, name))


def read(tmp_path: Path, name: str, data: bytes, options: ReadOptions | None = None) -> ParsedDocument:
    return read_file(source(tmp_path, name, data), options or ReadOptions())


def a_scan(tmp_path: Path, pages: Sequence[bytes | str]) -> bytes:
    """A PDF: a picture that fills its page for bytes, a line of text for a string."""
    path = tmp_path / "scan.pdf"
    canvas = Canvas(str(path), pagesize=(450, 150))
    for number, what in enumerate(pages):
        if isinstance(what, bytes):
            stored = tmp_path / f"scan{number}.png"
            stored.write_bytes(what)
            canvas.drawImage(ImageReader(str(stored)), 0, 0, 450, 150)
        else:
            canvas.drawString(40, 100, what)
        canvas.showPage()
    canvas.save()
    return path.read_bytes()


SCAN = ["Pressure of the pump: 7 bar", "Checked in March by Bob", "Next check in September"]


@ocr
def test_a_scanned_page_between_text_pages_is_read_at_its_place(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    scan = words(SCAN, width=900)
    given = source(tmp_path, "a.pdf", a_scan(tmp_path, ["First page of text.", scan, "Last page of text."]))
    document = read_file(given, ReadOptions(), progress=lambda done, total: told.append((done, total)))
    (block,) = [block for block in document.blocks if block.ocr]
    assert block.page == 2 and block.bbox is not None and "Pressure of the pump: 7 bar" in block.text
    left, top, right, bottom = block.bbox
    assert 0 < left < 60 and 0 < top < 60 and 200 < right < 450 and bottom <= 150
    assert [block.page for block in document.blocks] == [1, 2, 3]
    assert "pages_recognised: the text of page 2 was read from pictures." in document.warnings
    assert (1, 1) in told


@ocr
def test_lines_that_stand_askew_are_put_in_order(tmp_path: Path) -> None:
    document = read(tmp_path, "a.png", words(SCAN, turned=2))
    text = " ".join(block.text for block in document.blocks if block.ocr)
    assert re.search(r"7 bar.*March by Bob.*in September", text, re.DOTALL)


@ocr
def test_every_page_of_a_tiff_is_a_page_with_its_picture(tmp_path: Path) -> None:
    frames = [page([f"Sheet number {number}"]) for number in (1, 2)]
    document = read(tmp_path, "fax.tif", packed(frames[0], "TIFF", frames[1:]))
    assert document.page_count == 2 and [image.mime for image in document.images] == ["image/png"] * 2
    found = [(block.page, block.text) for block in document.blocks if block.ocr]
    assert found == [(1, "Sheet number 1"), (2, "Sheet number 2")]


@ocr
@pytest.mark.parametrize(("form", "name"), [("JPEG", "a.jpg"), ("WEBP", "a.webp"), ("BMP", "a.bmp"), ("PNG", "a.jpg")])
def test_picture_files_are_read_whatever_they_are_called(tmp_path: Path, form: str, name: str) -> None:
    document = read(tmp_path, name, words(["Serial number 4711"], form))
    assert [block.text for block in document.blocks if block.ocr] == ["Serial number 4711"]
    (image,) = document.images
    assert document.blocks[0].image == image.key and document.page_count == 1


@ocr
def test_a_long_screenshot_is_read_in_tiles_with_no_line_twice(tmp_path: Path) -> None:
    lines = [f"Message number {number}" for number in range(1, 41)]
    document = read(tmp_path, "chat.png", words(lines, width=700, size=40))
    text = "\n".join(block.text for block in document.blocks if block.ocr)
    assert [int(found) for found in re.findall(r"number (\d+)", text)] == list(range(1, 41))


@ocr
def test_the_text_of_a_picture_follows_the_picture_in_the_document(tmp_path: Path) -> None:
    text = f"Before.\n\n{in_markdown('The plate', words(['Serial number 4711']))}\n\nAfter."
    document = read(tmp_path, "a.md", text.encode())
    assert [(block.kind, block.text, block.ocr) for block in document.blocks] == [
        ("paragraph", "Before.", False),
        ("image", "The plate", False),
        ("paragraph", "Serial number 4711", True),
        ("paragraph", "After.", False),
    ]
    pages_only = read(tmp_path, "a.md", text.encode(), ReadOptions(recognition="pages"))
    assert not any(block.ocr for block in pages_only.blocks)


@ocr
def test_a_picture_without_words_has_no_text_and_says_so(tmp_path: Path) -> None:
    with pytest.raises(ParseError) as caught:
        read(tmp_path, "a.png", packed(Raster.new("RGB", (300, 200), "white"), "PNG"))
    assert caught.value.code == "no_text" and "recognised" in caught.value.message


@ocr
def test_pages_beyond_the_limit_are_named_and_the_others_are_read(tmp_path: Path) -> None:
    given = a_scan(tmp_path, [words(["Page one", "", ""]), words(["Page two", "", ""])])
    document = read(tmp_path, "a.pdf", given, ReadOptions(ocr=OcrLimits(max_pages=1)))
    assert {block.page for block in document.blocks} == {1}
    assert "pages_beyond_recognition: page 2 was not searched for text." in document.warnings


@ocr
def test_a_page_that_takes_too_long_is_named_and_does_not_stop_the_others(tmp_path: Path) -> None:
    given = source(tmp_path, "a.pdf", a_scan(tmp_path, [words(["Page one", "", ""])]))
    kept = InMemory()
    limits = OcrLimits(memory_mb=60)  # the recogniser can not even be loaded
    with recognised_pages(given, [1], kept, limits, ParseContext(ocr=True), Course()) as known:
        assert known.recognised is not None
        assert json.loads(known.recognised.read_text())["failed"] == [1]
    assert set(kept.get("p1") or {}) == {"failed"}


@ocr
def test_work_ends_between_batches_and_goes_on_with_what_is_kept(tmp_path: Path) -> None:
    class Enough(Exception):
        pass

    given = source(tmp_path, "a.pdf", a_scan(tmp_path, [words([f"Page {number}", "", ""]) for number in range(1, 6)]))
    kept = InMemory()
    turns: list[int] = []

    def pause() -> None:
        turns.append(1)
        if len(turns) == 2:
            raise Enough

    with pytest.raises(Enough):
        read_file(given, ReadOptions(), pause=pause, kept=kept)
    assert [number for number in range(1, 6) if kept.get(f"p{number}")] == [1, 2, 3, 4]
    told: list[tuple[int, int]] = []
    document = read_file(given, ReadOptions(), kept=kept, progress=lambda done, total: told.append((done, total)))
    assert [block.page for block in document.blocks] == [1, 2, 3, 4, 5]
    assert (4, 5) in told and (1, 5) not in told[told.index((4, 5)) :]


def test_a_picture_without_recognition_has_no_text_and_the_sentence_says_how_to_get_it(tmp_path: Path) -> None:
    for data, name in ((words(SCAN), "a.png"), (a_scan(tmp_path, [words(SCAN)]), "a.pdf")):
        with pytest.raises(ParseError) as caught:
            read(tmp_path, name, data, ReadOptions(recognition="off"))
        assert caught.value.code == "no_text"
        assert ("switch on" in caught.value.message) if is_installed() else ("extra" in caught.value.message)


def test_a_blank_pdf_is_not_said_to_hold_pictures(tmp_path: Path) -> None:
    with pytest.raises(ParseError) as caught:
        read(tmp_path, "a.pdf", a_scan(tmp_path, [""]), ReadOptions(recognition="off"))
    assert caught.value.code == "no_text" and "pictures" not in caught.value.message


def test_a_picture_with_too_many_pixels_is_refused_by_its_header(tmp_path: Path) -> None:
    given = source(tmp_path, "a.bmp", packed(Raster.new("L", (64, 64)), "BMP"))
    with pytest.raises(ParseError) as caught:
        parser_for(given.mime)(given, ParseContext(ocr=True, max_image_pixels=4_000))
    assert caught.value.code == "too_many_pixels"


def test_recognised_lines_come_back_as_they_were_and_rubbish_is_refused() -> None:
    known = RecognisedPage(595.0, 842.0, 0.02, (Line("a line", (1.0, 2.0, 30.0, 14.0), 0.987),))
    assert page_from_json(known.as_json()) == known
    for rubbish in ("", "[]", "{}", '{"width": 1, "height": 1, "skew": 0, "lines": [[1, 2]]}', "[" * 100_000):
        with pytest.raises(ValueError, match=r"recognised|JSON|value"):
            page_from_text(rubbish)


def test_small_pictures_share_a_process_and_pages_come_four_at_a_time() -> None:
    pages = [f"p{number}" for number in range(9)]
    assert [len(batch) for batch in recognising._batches(pages, lambda place: 1.0)] == [4, 4, 1]
    assert [len(batch) for batch in recognising._batches(pages, lambda place: 0.125)] == [9]
    assert recognising._batches([], lambda place: 1.0) == []
