"""Pages of a few plain lines: laid out together they give what each gives alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pypdfium2 as pypdfium
import pytest

from knowledge.ingestion.blocks import ParseContext
from knowledge.ingestion.parsers.pdf.glyphs import Faces
from knowledge.ingestion.parsers.pdf.page import PageResult, loaded, read_page
from knowledge.ingestion.parsers.pdf.pictures import PagePictures
from knowledge.ingestion.parsers.pdf.strip import MAX_PAGES, Strip
from tests.support.pdf_files import Page, Placed, line, pdf, text

WORDS = ("valve", "pump", "-", "7.5", "bar", "(see", "note", "3)", "Fig.", "A-1", "well-", "end.", "1)", "item", "*")


def opened(tmp_path: Path, pages: list[Page | str]) -> pypdfium.PdfDocument:
    path = tmp_path / "pages.pdf"
    path.write_bytes(pdf(pages))
    return pypdfium.PdfDocument(path)


def alone(document: pypdfium.PdfDocument, number: int) -> PageResult:
    with loaded(document, number) as page:
        return read_page(document, page, number, {}, PagePictures(ParseContext()))


def together(document: pypdfium.PdfDocument) -> Iterator[tuple[int, PageResult | None]]:
    """What the strip says of each page: None also of those that it does not take."""
    fonts: Faces = {}
    strip = Strip(fonts)
    for number in range(1, len(document) + 1):
        with loaded(document, number) as page:
            taken = strip.take(page, number)
        if not taken:
            yield from strip.results()
            yield number, None
        elif strip.full:
            yield from strip.results()
    yield from strip.results()


def a_page(seed: int) -> str:
    """A line or four of words at odd places, in odd sizes and weights; some twice, some far apart or off the page."""
    dice = random.Random(seed)
    drawn = ""
    for row in range(dice.randint(1, 4)):
        words = " ".join(dice.choice(WORDS) for _ in range(dice.randint(1, 6)))
        x, y = dice.choice([72, 72, 80.5, 300, 400, 590]), 700 - row * dice.choice([5, 12, 14, 30])
        size, font = dice.choice([9, 11, 11, 16]), dice.choice(["F1", "F1", "F1", "F2", "F2"])
        drawn += text(x, y, words, size, font)
        if dice.random() < 0.3:
            drawn += text(x + dice.choice([0.3, 60, 200]), y, words, size, font)
        if dice.random() < 0.2:
            drawn += text(x + 40, y + 4, "2", 6, font)
    return drawn


def test_pages_laid_out_together_read_as_each_alone(tmp_path: Path) -> None:
    document = opened(tmp_path, [a_page(seed) for seed in range(300)])
    found = list(together(document))
    assert [number for number, _ in found] == list(range(1, 301))
    shared = {number: result for number, result in found if result is not None}
    assert len(shared) > 150
    for number, result in shared.items():
        own = alone(document, number)
        assert (result.drafts, result.canvas, result.objects) == (own.drafts, own.canvas, own.objects), number


@pytest.mark.parametrize(
    "odd",
    [
        Page(text(72, 700, "turned by a quarter"), rotate=90),
        Page(text(72, 700, "of another size"), box=(0, 0, 400, 842)),
        Page(text(72, 700, "with a picture"), image=True),
        Page(text(72, 700, "with a field"), fields=[Placed("filled in")]),
        Page(text(72, 700, "with a note"), notes=[Placed("remark")]),
        Page(text(72, 700, "with a line") + line(72, 690, 300, 690)),
        Page(text(72, 700, "第一章 总则")),
        Page(text(72, 700, "typed", font="F4")),
        Page("BT /F1 11 Tf 0.7 0.7 -0.7 0.7 200 400 Tm (at an angle) Tj ET\n"),
        Page(text(72, 700, "seen") + text(900, 700, "beside the page")),
        Page("".join(text(72, 800 - 10 * i, "one of many lines on a page") for i in range(40))),
        Page(text(72, 700, "   ")),
        Page(""),
    ],
)
def test_any_other_kind_of_page_is_left_to_the_ordinary_way_and_its_neighbours_are_not(
    tmp_path: Path, odd: Page
) -> None:
    plain = [text(72, 700, f"page {number}") for number in range(1, 5)]
    document = opened(tmp_path, [*plain[:2], odd, *plain[2:]])
    found = dict(together(document))
    texts = {number: result and [draft.text for draft in result.drafts] for number, result in found.items()}
    assert [texts[number] for number in (1, 2, 4, 5)] == [["page 1"], ["page 2"], ["page 3"], ["page 4"]]
    assert texts[3] is None


def test_a_long_document_is_laid_out_in_several_strips_with_nothing_lost(tmp_path: Path) -> None:
    count = 2 * MAX_PAGES + 3
    document = opened(tmp_path, [text(72, 700, f"entry {number}") for number in range(count)])
    found = list(together(document))
    assert [number for number, _ in found] == list(range(1, count + 1))
    assert [result.drafts[0].text for _, result in found if result] == [f"entry {number}" for number in range(count)]
