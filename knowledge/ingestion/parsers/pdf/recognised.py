"""Recognised lines to blocks: the same layout as for text in a PDF, so columns, tables and headings come out alike."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from knowledge.ingestion.blocks import Block, Source
from knowledge.ingestion.ocr.lines import Line, RecognisedPage, page_from_json
from portal.kernel.errors import ParseError

from .columns import in_reading_order
from .glyphs import RIGHT
from .headings import blocks_with_paths
from .paragraphs import Draft, drafts_of_region
from .pieces import Piece, Reading

# The recogniser's boxes stand around the letters with some room.
EM_OF_HEIGHT = 0.72
BASE_OF_HEIGHT = 0.22
ALIKE = 1.3  # heights within this factor of the page's middling one count as one size


@dataclass(frozen=True, slots=True)
class Recognised:
    """What text recognition found in one file, by page from 1.

    On `failed` pages it gave up, those `beyond` its limit were not looked at.
    """

    pages: dict[int, RecognisedPage] = field(default_factory=dict)
    failed: tuple[int, ...] = ()
    beyond: tuple[int, ...] = ()

    @classmethod
    def of(cls, source: Source) -> Recognised:
        """What came along with the source; empty when nothing did."""
        if source.recognised is None:
            return cls()
        try:
            value = json.loads(source.recognised.read_bytes())
            pages = {int(number): page_from_json(page) for number, page in value["pages"].items()}
            failed, beyond = (tuple(int(number) for number in value[name]) for name in ("failed", "beyond"))
            return cls(pages, failed, beyond)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ParseError("What was recognised can not be read again.", code="damaged_file") from error

    def has(self, number: int) -> bool:
        """Whether recognition was tried on the page, whatever came out."""
        return number in self.pages or number in self.failed or number in self.beyond

    def drafts(self, number: int) -> list[Draft]:
        """The page's paragraphs, lists and tables in reading order."""
        page = self.pages.get(number)
        return drafts_of(page, number) if page is not None else []

    def blocks(self, number: int) -> list[Block]:
        """As `drafts`, with headings recognised by size."""
        return blocks_with_paths(self.drafts(number), [])

    def warnings(self) -> list[str]:
        """How the text came about, and on which pages it did not."""
        found = [number for number, page in self.pages.items() if page.lines]
        sentences = []
        if found:
            sentences.append(f"pages_recognised: the text of page {ranges(sorted(found))} was read from pictures.")
        if self.failed:
            sentences.append(f"pages_not_recognised: text recognition failed on page {ranges(sorted(self.failed))}.")
        if self.beyond:
            sentences.append(f"pages_beyond_recognition: page {ranges(sorted(self.beyond))} was not searched for text.")
        return sentences


def drafts_of(page: RecognisedPage, number: int) -> list[Draft]:
    """Lines put in order by the layout of PDF pages; boxes as they stand on the page."""
    if not page.lines:
        return []
    pieces = _pieces(page.lines)
    reading = Reading(RIGHT, page.width, page.height)
    drafts = [draft for rows in in_reading_order(pieces) for draft in drafts_of_region(rows, [], number, reading)]
    return [replace(draft, box=page.on_page(draft.box), ocr=True) for draft in drafts]


def _pieces(lines: Sequence[Line]) -> list[Piece]:
    usual = median(line.box[3] - line.box[1] for line in lines)
    pieces = []
    for line in lines:
        left, top, right, bottom = line.box
        height = bottom - top
        # Letters with and without tails give boxes of other heights, which is no other size of type.
        size = usual if usual / ALIKE < height < usual * ALIKE else height
        em = max(EM_OF_HEIGHT * size, 1.0)
        pieces.append(Piece(line.text, left, top, right, bottom, bottom - BASE_OF_HEIGHT * height, em))
    return pieces


def ranges(numbers: Sequence[int]) -> str:
    """1, 2, 3, 7 as "1-3, 7"."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
