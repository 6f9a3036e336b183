"""What differs between the texts of two revisions, paragraph by paragraph, and words within changed ones."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Literal

from knowledge.ingestion.blocks import ParsedDocument

# Paragraphs compared at most, lines shown at most, characters of one line.
MOST_PARAGRAPHS = 20_000
MOST_LINES = 400
LINE = 600
CONTEXT = 1

Kind = Literal["same", "gone", "new", "gap"]


@dataclass(frozen=True, slots=True)
class Line:
    """A paragraph that stays, goes or comes; a `gap` stands for `count` unchanged ones that are not shown."""

    kind: Kind
    text: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """The lines to show, how many paragraphs go and come, and whether more changed than is shown."""

    lines: tuple[Line, ...]
    gone: int
    new: int
    cut: bool


def compare(before: ParsedDocument, after: ParsedDocument) -> Comparison:
    """What changes when `after` takes the place of `before`."""
    old = [block.text for block in before.blocks[:MOST_PARAGRAPHS]]
    new = [block.text for block in after.blocks[:MOST_PARAGRAPHS]]
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=len(old) + len(new) > 4_000)
    lines: list[Line] = []
    gone = come = 0
    for operation, a, b, c, d in matcher.get_opcodes():
        if operation == "equal":
            lines.extend(_context(old[a:b], first=a == 0, last=b == len(old)))
            continue
        lines.extend(Line("gone", text[:LINE]) for text in old[a:b])
        lines.extend(Line("new", text[:LINE]) for text in new[c:d])
        gone, come = gone + b - a, come + d - c
    truncated = len(before.blocks) > MOST_PARAGRAPHS or len(after.blocks) > MOST_PARAGRAPHS
    return Comparison(tuple(lines[:MOST_LINES]), gone, come, cut=len(lines) > MOST_LINES or truncated)


def _context(same: list[str], *, first: bool, last: bool) -> list[Line]:
    """Unchanged paragraphs: those next to a change, and one line for the others."""
    head = [] if first else same[:CONTEXT]
    rest = same[len(head) :]
    tail = [] if last else rest[-CONTEXT:]
    hidden = len(rest) - len(tail)
    shown = [Line("same", text[:LINE]) for text in head]
    if hidden:
        shown.append(Line("gap", count=hidden))
    return shown + [Line("same", text[:LINE]) for text in tail]
