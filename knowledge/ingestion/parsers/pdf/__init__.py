"""PDF to blocks: PDFium's characters, our own layout.

This module alone decides what of a PDF is kept: every page that can be read, in reading order, with
page and place of each block; and when a PDF is refused instead of coming out empty.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

import pypdfium2 as pypdfium

from knowledge.ingestion.blocks import NO_TEXT, ParseContext, ParsedDocument, Source, assemble
from portal.kernel.errors import ParseError

from .breaks import over_page_breaks
from .fallback import SecondReader
from .furniture import without_furniture
from .glyphs import Faces
from .headings import blocks_with_paths, read_outline
from .opening import has_page_objects, open_document
from .page import PageError, PageResult, loaded, read_page
from .paragraphs import Draft
from .pictures import PagePictures
from .recognised import Recognised, ranges
from .strings import attachments_of, metadata_of
from .strip import WORTH_IT, Strip

MIME = "application/pdf"
_METADATA = ("Author", "Subject", "Keywords", "Creator", "CreationDate", "ModDate")


@dataclass(slots=True)
class _Reading:
    """What reading all pages gave: drafts and heights a page, pictures, and the pages that need a word."""

    pictures: PagePictures
    recognised: Recognised
    pages: list[list[Draft]] = field(default_factory=list)
    heights: list[float] = field(default_factory=list)
    without_text: list[int] = field(default_factory=list)
    garbled: list[int] = field(default_factory=list)
    second: list[int] = field(default_factory=list)
    unreadable: list[int] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)  # for text recognition
    removed: int = 0
    objects: int = 0
    characters: int = 0

    def add(self, drafts: list[Draft], height: float) -> None:
        self.pages.append(drafts)
        self.heights.append(height)


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
            reading = _read_pages(document, second, Recognised.of(source), context)
        unread = reading.unread if context.ocr else []
        if not any(reading.pages) and not unread:
            raise _nothing_read(source, reading)
        drafts, warnings = _flowing(reading)
        warnings += [f"embedded_document: The attached file {name} was left out." for name in attachments_of(document)]
        blocks = blocks_with_paths(drafts, read_outline(document, reading.heights))
        parsed = assemble(
            MIME,
            blocks,
            warnings=[*warnings, *reading.pictures.warnings],
            images=reading.pictures.images,
            page_count=len(reading.pages),
            title=metadata_of(document, "Title"),
            metadata={key.lower(): value for key in _METADATA if (value := metadata_of(document, key))},
            unread=unread,
        )
        if not parsed.text and not unread:
            raise _nothing_read(source, reading)
        return parsed
    finally:
        document.close()


def _read_pages(
    document: pypdfium.PdfDocument, second: SecondReader, recognised: Recognised, context: ParseContext
) -> _Reading:
    reading = _Reading(PagePictures(context), recognised)
    fonts: Faces = {}
    total = len(document)
    strip = Strip(fonts)

    def read(number: int) -> None:
        """Page by page, but plain ones wait in the strip until another kind comes, or enough of them."""
        try:
            with loaded(document, number) as page:
                if strip.full:
                    finish_strip()
                if total >= WORTH_IT and strip.take(page, number):
                    return
                finish_strip()
                _take(reading, read_page(document, page, number, fonts, reading.pictures), number, second)
        except PageError:
            finish_strip()
            reading.add([], 0.0)
            reading.unreadable.append(number)

    def finish_strip() -> None:
        for number, result in strip.results():
            if result is None:
                with loaded(document, number) as page:
                    result = read_page(document, page, number, fonts, reading.pictures)
            _take(reading, result, number, second)

    for number in range(1, total + 1):
        read(number)
        if reading.characters > context.max_text:
            raise ParseError(
                "This PDF has more than %(limit)s characters of text.", code="too_much_text", limit=context.max_text
            )
        context.progress(number, total)
    finish_strip()
    return reading


def _take(reading: _Reading, page: PageResult, number: int, second: SecondReader) -> None:
    drafts = page.drafts
    if page.garbled:
        drafts = second.page(number, page.canvas, " ".join(draft.text for draft in drafts))
        if drafts:
            reading.second.append(number)
        else:
            drafts = _recognised(reading, reading.garbled, number)
    elif page.drawn and all(draft.kind == "note" for draft in drafts):
        places = reading.without_text if page.pictures else []
        drafts = [*_recognised(reading, places, number), *drafts]
    elif page.is_scan and (found := _recognised(reading, [], number)):
        # A stamp or a page number on a scan is on the picture too.
        drafts = [*found, *(draft for draft in drafts if draft.kind == "note")]
    reading.add(drafts, page.canvas.height)
    reading.removed += page.removed
    reading.objects += page.objects
    reading.characters += sum(len(draft.text) for draft in drafts)


def _recognised(reading: _Reading, without: list[int], number: int) -> list[Draft]:
    """What was recognised on a page; one that nobody looked at yet is named as unread, an empty one in `without`."""
    found = reading.recognised.drafts(number)
    if not reading.recognised.has(number):
        reading.unread.append(number)
    if not found:
        without.append(number)
    return found


def _nothing_read(source: Source, reading: _Reading) -> ParseError:
    if len(reading.unreadable) == len(reading.pages) or (not reading.objects and not has_page_objects(source)):
        return ParseError("This PDF is damaged: none of its pages can be read.", code="damaged_file")
    if reading.recognised.pages:
        return ParseError("No text was recognised on the pages of this PDF.", code="no_text")
    if reading.garbled:
        return ParseError(
            "The text layer of this PDF can not be decoded; run text recognition (OCR) on it.", code="no_text"
        )
    if not reading.unread:
        return ParseError(NO_TEXT, code="no_text")
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
    warnings = reading.recognised.warnings()
    warnings += [sentence % ranges(numbers) for numbers, sentence in named if numbers]
    if reading.removed:
        warnings.append(
            f"characters_removed: {reading.removed} control characters or broken surrogates were taken out."
        )
    if dropped:
        warnings.append(f"repeated_lines_dropped: {dropped} repeated headers, footers or page numbers were left out.")
    return over_page_breaks(pages, reading.heights), warnings
