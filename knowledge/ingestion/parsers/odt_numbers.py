"""Automatic numbers of OpenDocument: outline numbers of headings and labels of list items.

Source: OASIS OpenDocument 1.3 part 3, 5.3 (lists), 16.30–16.34 (list and outline styles).
"""

from __future__ import annotations

from dataclasses import dataclass

from knowledge.ingestion.parsers.word_numbering import number_text
from knowledge.ingestion.parsers.xml import Element, integer

TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_KINDS = {"1": "decimal", "a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}


@dataclass(frozen=True, slots=True)
class Level:
    """How one level is numbered; `kind` is a Word number format, "bullet", or "" for no label."""

    kind: str = ""
    prefix: str = ""
    suffix: str = ""
    shown: int = 1
    start: int = 1


Levels = dict[int, Level]


class Labels:
    """The list and outline styles of a document and its heading counters."""

    def __init__(self, *roots: Element | None) -> None:
        self._lists: dict[str, Levels] = {}
        self._outline: Levels = {}
        self._counters: list[int] = []
        for root in roots:
            for style in root.iter(f"{TEXT}list-style") if root is not None else ():
                self._lists[style.get(f"{STYLE}name", "")] = _levels(style)
            for style in root.iter(f"{TEXT}outline-style") if root is not None else ():
                self._outline = _levels(style)

    def levels(self, style: str) -> Levels:
        """The levels of a list style; bullets all the way down if it is unknown."""
        return self._lists.get(style, {})

    def heading(self, depth: int) -> str:
        """Count a heading of that outline level and give its number, followed by a space, or ""."""
        level = self._outline.get(depth, Level())
        while len(self._counters) < depth:
            self._counters.append(self._outline.get(len(self._counters) + 1, level).start - 1)
        del self._counters[depth:]
        self._counters[depth - 1] += 1
        for place in range(depth - 1):  # a skipped level counts as its first
            self._counters[place] = max(self._counters[place], 1)
        return label(self._outline, self._counters) if self._outline else ""


def label(levels: Levels, counters: list[int]) -> str:
    """The label of the deepest counter, followed by a space; "" for a level that shows none."""
    level = levels.get(len(counters), Level("bullet") if not levels else Level())
    if level.kind == "bullet":
        return "- "
    if not level.kind:
        return ""
    first = max(0, len(counters) - level.shown)
    numbers = [
        number_text(value, levels.get(place + 1, level).kind)
        for place, value in enumerate(counters)
        if place >= first and levels.get(place + 1, level).kind not in ("", "bullet")
    ]
    return f"{level.prefix}{'.'.join(numbers)}{level.suffix}".strip() + " "


def _levels(style: Element) -> Levels:
    found: Levels = {}
    for element in style:
        depth = integer(element.get(f"{TEXT}level"))
        if element.tag in (f"{TEXT}list-level-style-bullet", f"{TEXT}list-level-style-image"):
            found[depth] = Level("bullet")
        elif element.tag in (f"{TEXT}list-level-style-number", f"{TEXT}outline-level-style"):
            form = element.get(f"{STYLE}num-format", "")
            found[depth] = Level(
                kind=_KINDS.get(form, _east_asian(form)),
                prefix=element.get(f"{STYLE}num-prefix", ""),
                suffix=element.get(f"{STYLE}num-suffix", ""),
                shown=max(1, integer(element.get(f"{TEXT}display-levels"), 1)),
                start=integer(element.get(f"{TEXT}start-value"), 1),
            )
    return found


def _east_asian(form: str) -> str:
    first = form.split(",")[0].strip()
    known = {
        "一": "chineseCounting",
        "壹": "chineseLegalSimplified",
        "甲": "ideographTraditional",
        "子": "ideographZodiac",
    }
    known |= {"①": "decimalEnclosedCircle", "１": "decimalFullWidth", "ア": "aiueoFullWidth"}
    return known.get(first, "decimal" if first else "")
