"""The light markup of sample/source/*.md: the one text behind a Word or PDF file.

Key-value lines up to the first empty line; then `#` and `##` headings, paragraphs, `-` and `1.` lists,
`|` tables (first row is the head), `>` notes, `[^1]: text` footnotes. Inside text only `[^1]` is special.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

FOOTNOTE = re.compile(r"\[\^(\d+)\]")
_DEFINITION = re.compile(r"\[\^(\d+)\]: (.*)")
_ORDERED = re.compile(r"\d+\. ")


@dataclass(frozen=True, slots=True)
class Heading:
    """`level` counts from 1; `number` is "2" or "2.1", empty where the document numbers nothing."""

    level: int
    text: str
    number: str = ""


@dataclass(frozen=True, slots=True)
class Paragraph:
    """`note` marks a paragraph that stands in a coloured box."""

    text: str
    note: bool = False


@dataclass(frozen=True, slots=True)
class Items:
    """A flat list."""

    items: tuple[str, ...]
    ordered: bool


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; the first row is the head."""

    rows: tuple[tuple[str, ...], ...]


Part = Heading | Paragraph | Items | Table


@dataclass(frozen=True, slots=True)
class Source:
    """A whole document: `meta` holds title, subtitle, company, number, version, date, owner."""

    meta: dict[str, str]
    parts: tuple[Part, ...]
    footnotes: dict[int, str] = field(default_factory=dict)

    @property
    def numbered(self) -> bool:
        return self.meta.get("numbering") == "yes"


def read_source(path: Path) -> Source:
    """Parse one source file. Raises ValueError on a table whose rows differ in length."""
    head, _, body = path.read_text(encoding="utf-8").partition("\n\n")
    meta = {key: value.strip() for key, _, value in (line.partition(":") for line in head.splitlines())}
    lines = body.splitlines()
    footnotes = {int(found[1]): found[2] for line in lines if (found := _DEFINITION.fullmatch(line))}
    kept = [line for line in lines if not _DEFINITION.fullmatch(line)]
    parts = tuple(_parts(kept))
    return Source(meta, _with_numbers(parts) if meta.get("numbering") == "yes" else parts, footnotes)


def _kind(line: str) -> str:
    if not line.strip():
        return "gap"
    if _ORDERED.match(line):
        return "ordered"
    return {"#": "heading", "|": "table", ">": "note", "-": "bullet"}.get(line[0], "paragraph")


def _parts(lines: list[str]) -> Iterator[Part]:
    for kind, group in groupby(lines, key=_kind):
        block = list(group)
        if kind == "heading":
            yield from (Heading(len(line.split(" ", 1)[0]), line.split(" ", 1)[1]) for line in block)
        elif kind == "table":
            rows = tuple(tuple(cell.strip() for cell in line.strip("| ").split("|")) for line in block)
            if len({len(row) for row in rows}) != 1:
                raise ValueError(f"Rows of different length: {rows[0]}")
            yield Table(rows)
        elif kind in ("bullet", "ordered"):
            yield Items(tuple(line.split(" ", 1)[1] for line in block), ordered=kind == "ordered")
        elif kind != "gap":
            yield from (Paragraph(line.removeprefix("> "), note=kind == "note") for line in block)


def _with_numbers(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    chapter = section = 0
    numbered: list[Part] = []
    for part in parts:
        if isinstance(part, Heading):
            chapter, section = (chapter + 1, 0) if part.level == 1 else (chapter, section + 1)
            number = str(chapter) if part.level == 1 else f"{chapter}.{section}"
            numbered.append(Heading(part.level, part.text, number))
        else:
            numbered.append(part)
    return tuple(numbered)
