"""What holds for every parsed document, whichever parser made it: storable text, a size limit, and some text at all."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace

from knowledge.ingestion.blocks import Block, ParseContext, ParsedDocument, assemble
from knowledge.ingestion.parsers.characters import storable
from knowledge.ingestion.parsers.drawing import NO_ALT
from portal.kernel.errors import ParseError

_UNSTORABLE = re.compile("[\x00\u202d\u202e\ud800-\udfff]")


def finished(document: ParsedDocument, context: ParseContext) -> ParsedDocument:
    """`document` with only storable characters. Raises `ParseError` (`no_text`, `too_much_text`)."""
    if len(document.text) > context.max_text:
        raise ParseError(
            "The document holds more than %(limit)s characters.", code="too_much_text", limit=context.max_text
        )
    if not has_text(document) and not document.unread and not (context.ocr and document.images):
        raise ParseError("No text was found in this file.", code="no_text")
    strings = (document.text, document.title, *document.warnings, *document.metadata.values())
    if any(map(_UNSTORABLE.search, strings)) or any(map(_is_unstorable, document.blocks)):
        return _cleaned(document)
    return document


def has_text(document: ParsedDocument) -> bool:
    """Whether any letter, digit or symbol stands in the document; a picture without description is no text."""
    return any(_says_something(block.text) for block in document.blocks if block.text != NO_ALT)


def _says_something(text: str) -> bool:
    return any(
        unicodedata.category(character)[0] in "LN" or unicodedata.category(character) == "So" for character in text
    )


def _is_unstorable(block: Block) -> bool:
    return any(map(_UNSTORABLE.search, (*block.heading_path, block.sheet or "")))


def _cleaned(document: ParsedDocument) -> ParsedDocument:
    blocks = [
        replace(
            block,
            text=storable(block.text),
            heading_path=tuple(map(storable, block.heading_path)),
            sheet=storable(block.sheet) if block.sheet else block.sheet,
        )
        for block in document.blocks
    ]
    return assemble(
        document.mime,
        blocks,
        warnings=[*map(storable, document.warnings), "unstorable_characters: NUL or broken characters were taken out."],
        images=document.images,
        page_count=document.page_count,
        title=storable(document.title),
        metadata={storable(key): storable(value) for key, value in document.metadata.items()},
        unread=document.unread,
    )
