"""Whether the second reader's text of a garbled page is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge.ingestion.parsers.pdf.fallback import SecondReader
from knowledge.ingestion.parsers.pdf.glyphs import Canvas
from tests.support.pdf_files import lines, pdf

PAGE = Canvas(0, 0, 595, 842, 0)


def second(tmp_path: Path, rows: list[str], rubbish: str = "qx zw") -> str:
    path = tmp_path / "given.pdf"
    path.write_bytes(pdf([lines(72, 700, rows)]))
    with SecondReader(path) as reader:
        return " ".join(draft.text for draft in reader.page(1, PAGE, rubbish))


def test_plain_text_is_taken(tmp_path: Path) -> None:
    assert "The pump is opened" in second(tmp_path, ["The pump is opened and cleaned", "by two people."])


def test_text_that_repeats_the_rejected_text_is_not_taken(tmp_path: Path) -> None:
    rows = ["Xqwp zzkf mmno vvyt", "ggha eeuw"]
    assert second(tmp_path, rows, " ".join(rows)) == ""


@pytest.mark.parametrize("row", ["{T~ 16{| `gz ^^ {{ q|~ {z", "~|{}"])
def test_text_of_stray_codes_is_not_taken(tmp_path: Path, row: str) -> None:
    assert second(tmp_path, [row]) == ""


def test_a_file_it_can_not_open_gives_nothing() -> None:
    with SecondReader(b"no pdf at all") as reader:
        assert reader.page(1, PAGE, "") == []
