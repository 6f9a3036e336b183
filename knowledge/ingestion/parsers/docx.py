"""Word documents: headings with their automatic numbers, lists, tables, notes, text boxes, pictures in place.

A Word file has no pages until it is laid out, so a place in it is a heading path. Deleted text and
hidden text are left out, inserted text is in. Running heads and feet stand once, at the end.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from knowledge.ingestion.blocks import Block, ParseContext, ParsedDocument, Source, assemble
from knowledge.ingestion.parsers import message, rtf
from knowledge.ingestion.parsers.drawing import NO_ALT, chart_blocks, diagram_blocks, picture_blocks, shape_name
from knowledge.ingestion.parsers.encodings import decode
from knowledge.ingestion.parsers.html import decode_html, walk_html
from knowledge.ingestion.parsers.html_walk import Walker
from knowledge.ingestion.parsers.images import Pictures
from knowledge.ingestion.parsers.ooxml import Package, R
from knowledge.ingestion.parsers.text import paragraphs
from knowledge.ingestion.parsers.word_body import Body
from knowledge.ingestion.parsers.word_notes import Notes, margins
from knowledge.ingestion.parsers.word_numbering import Numbering, W
from knowledge.ingestion.parsers.word_runs import Graphic
from knowledge.ingestion.parsers.word_styles import Styles
from knowledge.ingestion.parsers.xml import Element
from portal.kernel.errors import ParseError

MIME = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_RUNNING = re.compile(r"[\W\d_]+|page|of|seite|von|第|页|頁|共", re.IGNORECASE)


def parse(source: Source, context: ParseContext) -> ParsedDocument:
    """A Word document as blocks.

    Raises `ParseError`: `empty_file`, `password_protected`, `type_mismatch`, `damaged_file`,
    `archive_limit`, `unsafe_xml`, `too_large`, `no_text`.
    """
    pictures = Pictures(context)
    with _opened(source.path, context) as package:
        document = _Document(package, context, pictures)
        blocks = document.blocks()
        properties = package.properties()
        warnings = [*package.warnings, *document.warnings, *pictures.warnings]
    if not (context.ocr and pictures.images) and all(block.text.strip() in ("", NO_ALT) for block in blocks):
        raise ParseError("No text was found in this file.", code="no_text")
    if sum(len(block.text) for block in blocks) > context.max_text:
        raise ParseError("The document holds more text than can be read.", code="too_large")
    context.progress(1, 1)
    title = properties.get("title") or next((block.text for block in blocks if block.kind == "heading"), "")
    return assemble(MIME, blocks, warnings=warnings, images=pictures.images, title=title, metadata=properties)


def _opened(file: Path | bytes, context: ParseContext) -> Package:
    return Package(file, context, root_name="document", usual_main="word/document.xml")


class _Document:
    """One Word package; documents embedded in it (`w:altChunk`) are read one level deep."""

    def __init__(self, package: Package, context: ParseContext, pictures: Pictures, *, inner: bool = False) -> None:
        self._package = package
        self._context = context
        self._pictures = pictures
        self._inner = inner
        self._links = package.relations(package.main)
        self._notes = Notes(package)
        self._body = Body(
            Styles(self._part("styles")),
            Numbering(self._part("numbering")),
            self._notes,
            self._graphic,
            self._alt_chunk,
        )
        self.warnings: list[str] = []

    def blocks(self) -> list[Block]:
        """The whole document in reading order; fills `warnings`."""
        body = next(self._package.root.iterchildren(f"{W}body"), self._package.root)
        total = max(len(body), 1)
        blocks = self._body.blocks(body, lambda done: self._context.progress(min(done, total), total))
        blocks.extend(self._body.note_block(key, element) for key, element in self._notes.rest())
        if not self._inner:
            blocks.extend(self._margins())
        if self._body.runs.hidden:
            self.warnings.append(f"hidden_text: {self._body.runs.hidden} pieces of hidden text were left out.")
        if self._body.left_out_contents:
            self.warnings.append(
                "table_of_contents: The table of contents was left out; its headings stand in the text."
            )
        return blocks

    def _part(self, kind: str) -> Element | None:
        for part in self._package.related(self._package.main, kind):
            return self._package.xml(part)
        return None

    def _margins(self) -> list[Block]:
        """Running heads and feet, each text once; page numbers alone are none."""
        texts = dict.fromkeys(self._body.inline(root) for root in margins(self._package))
        return [Block(kind="note", text=text) for text in texts if _RUNNING.sub("", text)]

    def _graphic(self, graphic: Graphic) -> list[Block]:
        element = graphic.element
        name = str(element.tag).rpartition("}")[2]
        if name == "chart":
            return chart_blocks(self._package, self._links.get(element.get(f"{R}id", "")))
        if name == "relIds":
            return diagram_blocks(self._package, self._links.get(element.get(f"{R}dm", "")))
        return picture_blocks(
            self._package, element, self._links, self._pictures, alt=graphic.alt or shape_name(element)
        )

    def _alt_chunk(self, element: Element) -> list[Block]:
        link = self._links.get(element.get(f"{R}id", ""))
        data = self._package.read(link.target) if link is not None and not link.external else None
        if data is None or link is None:
            return []
        ending = posixpath.splitext(link.target)[1].lower()
        try:
            found = self._embedded(data, ending)
        except ParseError as error:
            if error.code in ("archive_limit", "unsafe_xml"):
                raise
            self.warnings.append("embedded_document: A document inside the file could not be read.")
            return []
        if found is None:
            self.warnings.append(
                f"embedded_document: A part of the type {ending or 'unknown'} inside the file was left out."
            )
        return found or []

    def _embedded(self, data: bytes, ending: str) -> list[Block] | None:
        """What an embedded document says; its content tells the type, since programs name these parts as they like."""
        start = data[:512].lstrip(b"\xef\xbb\xbf \t\r\n")
        if start.startswith(b"{\\rtf"):
            return rtf.blocks_of(data.lstrip(), self._context)
        if start.startswith(b"PK"):
            return None if self._inner else self._inner_document(data)
        if ending in (".mht", ".mhtml", ".eml") or start[:13].lower() == b"mime-version:":
            return message.body_of(data, self._context)
        if ending in (".html", ".htm", ".xhtml", ".xml") or start.startswith(b"<"):
            walker = Walker(self._context, lambda address: None)
            walk_html(decode_html(data).text, walker)
            return walker.blocks
        if ending == ".txt":
            return [Block(kind="paragraph", text=text) for text in paragraphs(decode(data).text)]
        return None

    def _inner_document(self, data: bytes) -> list[Block]:
        with _opened(data, self._context) as package:
            inner = _Document(package, self._context, self._pictures, inner=True)
            blocks = inner.blocks()
            self.warnings.extend([*package.warnings, *inner.warnings])
            return blocks
