"""What a Word paragraph style means: heading, list, code, quotation, hidden.

Styles inherit through `basedOn`; a chain that bites its own tail is cut.
Source: ECMA-376 part 1, 17.7 (styles).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from knowledge.ingestion.parsers.ooxml import on
from knowledge.ingestion.parsers.word_numbering import VAL, W
from knowledge.ingestion.parsers.xml import Element, integer

_HEADING = re.compile(r"(?:heading|标题|標題|見出し|überschrift|titre|título)\s*([1-9])?", re.IGNORECASE)
_TOC = re.compile(r"(?:toc|目录|目次)\s*\d", re.IGNORECASE)
_CODE = {"source code", "html preformatted", "code", "code block", "preformatted text", "verbatim"}
_QUOTE = {"quote", "intense quote", "block text", "quotations"}
_TITLE = {"title", "标题", "標題", "表題"}


@dataclass(frozen=True, slots=True)
class Style:
    """A style with what it inherits. `level` 1–9 for headings; `list_id` and `list_level` for numbered styles."""

    level: int | None = None
    list_id: str = ""
    list_level: int | None = None
    hidden: bool = False
    kind: str = "paragraph"
    name: str = ""


PLAIN = Style()


class Styles:
    """The styles of a document by id."""

    def __init__(self, root: Element | None) -> None:
        self._elements: dict[str, Element] = {}
        self._known: dict[str, Style] = {}
        self.default = ""
        for element in root.iterchildren(f"{W}style") if root is not None else ():
            identifier = element.get(f"{W}styleId", "")
            self._elements[identifier] = element
            if element.get(f"{W}type") == "paragraph" and element.get(f"{W}default") in ("1", "true"):
                self.default = identifier

    def get(self, identifier: str) -> Style:
        """The style of that id; a plain one if it is not defined, unless the id itself says heading."""
        known = self._known.get(identifier)
        if known is None:
            known = self._known[identifier] = self._resolve(identifier)
        return known

    def _resolve(self, identifier: str) -> Style:
        chain: list[Element] = []
        seen: set[str] = set()
        current = identifier
        while current and current not in seen and current in self._elements:
            seen.add(current)
            chain.append(self._elements[current])
            based = self._elements[current].find(f"{W}basedOn")
            current = based.get(VAL, "") if based is not None else ""
        style = PLAIN if chain else _named(identifier, PLAIN)
        for element in reversed(chain):
            style = _extended(style, element)
        return style


def _extended(base: Style, element: Element) -> Style:
    name_element = element.find(f"{W}name")
    name = name_element.get(VAL, "") if name_element is not None else element.get(f"{W}styleId", "")
    level, hidden = base.level, base.hidden
    outline = element.find(f"{W}pPr/{W}outlineLvl")
    if outline is not None:
        depth = integer(outline.get(VAL), 9)
        level = depth + 1 if 0 <= depth < 9 else None
    vanish = element.find(f"{W}rPr/{W}vanish")
    if vanish is not None:
        hidden = on(vanish.get(VAL))
    list_id, list_level = base.list_id, base.list_level
    numbers = element.find(f"{W}pPr/{W}numPr")
    if numbers is not None:
        list_element, depth_element = numbers.find(f"{W}numId"), numbers.find(f"{W}ilvl")
        list_id = list_element.get(VAL, "") if list_element is not None else list_id
        list_level = integer(depth_element.get(VAL)) if depth_element is not None else list_level
    kind = "paragraph" if base.kind == "toc" else base.kind
    return _named(name, Style(level, list_id, list_level, hidden, kind, name))


def _named(name: str, style: Style) -> Style:
    """What the name of a style adds to what its properties say."""
    plain = name.strip().lower()
    level, kind = style.level, style.kind
    heading = _HEADING.fullmatch(plain)
    if plain in _TITLE:
        level, kind = 1, "title"
    elif heading:
        level = int(heading[1]) if heading[1] else level or 1
    elif _TOC.fullmatch(plain):
        level, kind = None, "toc"
    elif plain in _CODE:
        kind = "code"
    elif plain in _QUOTE:
        kind = "quote"
    return Style(level, style.list_id, style.list_level, style.hidden, kind, name)
