"""PDF to blocks: PDFium's characters, our own layout.

This module alone decides what of a PDF is kept: every page that can be read, in reading order, with
page and place of each block; and when a PDF is refused instead of coming out empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pypdfium2 as pypdfium

from knowledge.ingestion.blocks import ParseContext, ParsedDocument, Source, assemble
from portal.kernel.errors import ParseError

from .breaks import over_page_breaks
from .fallback import SecondReader
from .furniture import without_furniture
from .glyphs import Faces
from .headings import blocks_with_paths, read_outline
from .opening import has_page_objects, open_document
from .page import PageError, PageResult, read_page
from .paragraphs import Draft
from .pictures import PagePictures
from .strings import metadata_of

MIME = "application/pdf"
_METADATA = ("Author", "Subject", "Keywords", "Creator", "CreationDate", "ModDate")


@dataclass(slots=True)
class _Reading:
    """What reading all pages gave: drafts and heights a page, pictures, and the pages that need a word."""

    pictures: PagePictures
    pages: list[list[Draft]] = field(default_factory=list)
    heights: list[float] = field(default_factory=list)
    without_text: list[int] = field(default_factory=list)
    garbled: list[int] = field(default_factory=list)
    second: list[int] = field(default_factory=list)
    unreadable: list[int] = field(default_factory=list)
    removed: int = 0
    objects: int = 0
    characters: int = 0


def parse(source: Source, context: ParseContext) -> ParsedDocument:
    """Parse a PDF page by page; `context.progress(done, total)` is called after each page.

    Raises ParseError with code `empty_file`, `not_a_pdf`, `damaged_file`, `password_protected`,
    `too_many_pages`, `too_much_text`, or `no_text` when no page has a usable text layer.
    """
    document, given = open_document(source, context)
    try:
        with suppress(pypdfium.PdfiumError):  # without it the fields stay empty, and the rest is read
            document.init_forms()
        with SecondReader(given) as second:
            reading = _read_pages(document, second, context)
        if not any(reading.pages):
            raise _nothing_read(source, reading)
        drafts, warnings = _flowing(reading)
        blocks = blocks_with_paths(drafts, read_outline(document, reading.heights))
        parsed = assemble(
            MIME,
            blocks,
            warnings=[*warnings, *reading.pictures.warnings],
            images=reading.pictures.images,
            page_count=len(reading.pages),
            title=metadata_of(document, "Title"),
            metadata={key.lower(): value for key in _METADATA if (value := metadata_of(document, key))},
        )
        if not parsed.text:
            raise _nothing_read(source, reading)
        return parsed
    finally:
        document.close()


def _read_pages(document: pypdfium.PdfDocument, second: SecondReader, context: ParseContext) -> _Reading:
    reading = _Reading(PagePictures(context))
    fonts: Faces = {}
    total = len(document)
    for number in range(1, total + 1):
        try:
            page = read_page(document, number, fonts, reading.pictures)
        except PageError:
            reading.unreadable.append(number)
            reading.pages.append([])
            reading.heights.append(0.0)
        else:
            _take(reading, page, number, second)
        if reading.characters > context.max_text:
            raise ParseError(
                "This PDF has more than %(limit)s characters of text.", code="too_much_text", limit=context.max_text
            )
        context.progress(number, total)
    return reading


def _take(reading: _Reading, page: PageResult, number: int, second: SecondReader) -> None:
    drafts = page.drafts
    if page.garbled:
        drafts = second.page(number, page.canvas, " ".join(draft.text for draft in drafts))
        (reading.second if drafts else reading.garbled).append(number)
    elif page.pictures and all(draft.kind == "note" for draft in drafts):
        reading.without_text.append(number)
    reading.pages.append(drafts)
    reading.heights.append(page.canvas.height)
    reading.removed += page.removed
    reading.objects += page.objects
    reading.characters += sum(len(draft.text) for draft in drafts)


def _nothing_read(source: Source, reading: _Reading) -> ParseError:
    if len(reading.unreadable) == len(reading.pages) or (not reading.objects and not has_page_objects(source)):
        return ParseError("This PDF is damaged: none of its pages can be read.", code="damaged_file")
    if reading.garbled:
        return ParseError(
            "The text layer of this PDF can not be decoded; run text recognition (OCR) on it.", code="no_text"
        )
    return ParseError("This PDF has no text layer; run text recognition (OCR) on it.", code="no_text")


def _flowing(reading: _Reading) -> tuple[list[Draft], list[str]]:
    """All drafts in order without page furniture, joined over page breaks; and the warnings."""
    pages, dropped = without_furniture(reading.pages, reading.heights)
    named = (
        (reading.without_text, "pages_without_text: no text layer on page %s (images only)."),
        (reading.garbled, "pages_garbled: the text of page %s can not be decoded and was left out."),
        (reading.second, "pages_by_second_reader: page %s was read by the second reader, without exact places."),
        (reading.unreadable, "pages_unreadable: page %s is damaged and was left out."),
    )
    warnings = [sentence % _ranges(numbers) for numbers, sentence in named if numbers]
    if reading.removed:
        warnings.append(
            f"characters_removed: {reading.removed} control characters or broken surrogates were taken out."
        )
    if dropped:
        warnings.append(f"repeated_lines_dropped: {dropped} repeated headers, footers or page numbers were left out.")
    return over_page_breaks(pages, reading.heights), warnings


def _ranges(numbers: Sequence[int]) -> str:
    """1, 2, 3, 7 as "1-3, 7"."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
