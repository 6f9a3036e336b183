"""Slide decks: slides in the order they are shown, each with its title, shapes, notes and comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from knowledge.ingestion.blocks import Block, ParseContext, ParsedDocument, Source, assemble
from knowledge.ingestion.parsers.characters import storable
from knowledge.ingestion.parsers.drawing import NO_ALT, paragraph_text
from knowledge.ingestion.parsers.images import Pictures
from knowledge.ingestion.parsers.ooxml import A, Package, local
from knowledge.ingestion.parsers.outline import Outline
from knowledge.ingestion.parsers.slide_shapes import (
    FURNITURE,
    TITLES,
    P,
    SlideReader,
    placeholder,
    shapes,
    text_block,
)
from knowledge.ingestion.parsers.xml import Element
from portal.kernel.errors import ParseError

MIME = "application/vnd.openxmlformats-officedocument.presentationml.presentation"

# Titles that programs write into the properties of every new deck.
_GENERATED_TITLE = re.compile(
    r"powerpoint[- ]?(?:presentation|演示文稿|プレゼンテーション)?|presentation|演示文稿|slide 1", re.IGNORECASE
)


def parse(source: Source, context: ParseContext) -> ParsedDocument:
    """A deck as blocks, `Block.slide` counting from 1 in presentation order.

    Raises `ParseError`: `empty_file`, `password_protected`, `type_mismatch`, `damaged_file`,
    `archive_limit`, `unsafe_xml`, `too_large`, `no_text`.
    """
    with Package(source.path, context, root_name="presentation", usual_main="ppt/presentation.xml") as package:
        deck = _Deck(package, context)
        blocks, count = deck.blocks()
        properties = package.properties()
        warnings = [*package.warnings, *deck.warnings, *deck.pictures.warnings]
    readable = context.ocr and deck.pictures.images
    if not readable and all(block.text.strip() in ("", NO_ALT) for block in blocks):
        raise ParseError("No text was found in this file.", code="no_text")
    if sum(len(block.text) for block in blocks) > context.max_text:
        raise ParseError("The document holds more text than can be read.", code="too_large")
    given = properties.get("title", "")
    if _GENERATED_TITLE.fullmatch(given):
        given = ""
    title = given or next((block.text for block in blocks if block.kind == "heading"), "")
    return assemble(
        MIME,
        blocks,
        warnings=warnings,
        images=deck.pictures.images,
        page_count=count,
        title=title,
        metadata=properties,
    )


class _Deck:
    def __init__(self, package: Package, context: ParseContext) -> None:
        self._package = package
        self._context = context
        self._authors = self._comment_authors()
        self._furniture: set[str] = set()
        self.pictures = Pictures(context)
        self.warnings: list[str] = []

    def blocks(self) -> tuple[list[Block], int]:
        """All blocks, and the number of slides."""
        links = self._package.relations(self._package.main)
        parts = [links.get(_relation(slide)) for slide in self._package.root.iter(f"{P}sldId")]
        if len(parts) > self._context.max_pages:
            raise ParseError("The deck has more slides than can be read.", code="too_large")
        blocks: list[Block] = []
        for number, link in enumerate(parts, start=1):
            root = self._package.xml(link.target) if link is not None and not link.external else None
            if root is None or link is None:
                self.warnings.append(f"missing_part: Slide {number} is missing from the file or can not be read.")
            else:
                blocks.extend(self._slide(root, link.target, number))
            self._context.progress(number, len(parts))
        return blocks, len(parts)

    def _slide(self, root: Element, part: str, number: int) -> list[Block]:
        hidden = root.get("show") in ("0", "false")
        if hidden:
            self.warnings.append(f"hidden_slide: Slide {number} is hidden in the presentation.")
        reader = SlideReader(self._package, self._package.relations(part), self.pictures)
        outline = Outline()
        head: list[Block] = []
        body: list[Block] = []
        for tree in root.iter(f"{P}spTree"):
            for shape in shapes(tree):
                kind = placeholder(shape)
                if kind in TITLES and not head and shape.tag == f"{P}sp":
                    heading = outline.heading(1, _title(shape, hidden=hidden))
                    head = [heading] if heading else []
                elif kind not in FURNITURE:
                    body.extend(reader.blocks(shape))
                elif kind in ("ftr", "hdr"):
                    body.extend(block for block in reader.blocks(shape) if self._is_new(block.text))
        if hidden and not head:
            head = [heading for heading in [outline.heading(1, f"Slide {number} (hidden)")] if heading and body]
        body.extend(self._notes(part))
        body.extend(self._comments(part))
        path = outline.path
        return [replace(block, slide=number) for block in head] + [
            replace(block, slide=number, heading_path=path) for block in body
        ]

    def _is_new(self, text: str) -> bool:
        """A foot line that recurs on every slide is kept once."""
        new = text.strip() not in self._furniture
        self._furniture.add(text.strip())
        return new

    def _notes(self, part: str) -> list[Block]:
        """The speaker's notes of a slide."""
        found: list[Block] = []
        for target in self._package.related(part, "notesSlide"):
            root = self._package.xml(target)
            for tree in root.iter(f"{P}spTree") if root is not None else ():
                for shape in shapes(tree):
                    body = shape.find(f"{P}txBody")
                    if body is not None and placeholder(shape) not in (*FURNITURE, *TITLES, "sldImg"):
                        found.append(replace(text_block(body, bulleted=False), kind="note"))
        return found

    def _comments(self, part: str) -> list[Block]:
        """Reviewers' comments, old and threaded, each after its author's name."""
        found: list[Block] = []
        for target in self._package.related(part, "comments"):
            root = self._package.xml(target)
            for comment in _comment_elements(root) if root is not None else ():
                author = self._authors.get(comment.get("authorId", ""), "")
                text = _comment_text(comment)
                found.append(Block(kind="note", text=f"{author}: {text}" if author and text else text))
        return found

    def _comment_authors(self) -> dict[str, str]:
        links = self._package.relations(self._package.main).values()
        found: dict[str, str] = {}
        for link in links:
            root = self._package.xml(link.target) if link.kind in ("commentAuthors", "authors") else None
            for author in root if root is not None else ():
                found[author.get("id", "")] = storable(author.get("name", ""))
        return found


def _title(shape: Element, *, hidden: bool) -> str:
    text = " ".join(paragraph_text(paragraph) for paragraph in shape.iter(f"{A}p")).strip()
    return f"{text} (hidden)" if hidden and text else text


def _relation(element: Element) -> str:
    return next((str(value) for name, value in element.items() if name.endswith("}id")), "")


def _comment_elements(root: Element) -> Iterator[Element]:
    for element in root.iter():
        if isinstance(element.tag, str) and local(element) in ("cm", "reply"):
            yield element


def _comment_text(comment: Element) -> str:
    """The text of a comment without its replies."""
    for child in comment:
        if local(child) == "text":
            return storable(child.text or "").strip()
        if local(child) == "txBody":
            return "\n".join(paragraph_text(paragraph) for paragraph in child.iter(f"{A}p")).strip()
    return ""
