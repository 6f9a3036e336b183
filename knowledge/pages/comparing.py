"""What differs between two revisions, paragraph by paragraph, and between two texts of a passage, word by word."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Literal

from knowledge.ingestion.blocks import ParsedDocument

# Paragraphs compared at most, lines shown at most, characters of one line.
MOST_PARAGRAPHS = 20_000
MOST_LINES = 400
LINE = 600
CONTEXT = 1

Kind = Literal["same", "gone", "new", "gap"]
# Words, runs of blanks, and single characters of everything else: Chinese is compared character by character.
_WORD = re.compile(r"[A-Za-z0-9_À-ɏ]+|\s+|.", re.DOTALL)
MOST_WORDS = 3_000
_AROUND = 60


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


@dataclass(frozen=True, slots=True)
class Change:
    """A stretch of text that stays, goes or comes."""

    kind: Literal["same", "gone", "new"]
    text: str


def word_changes(before: str, after: str) -> tuple[Change, ...]:
    """What was changed in a text, with some of what stands around it; of very long texts line by line."""
    old, new = _WORD.findall(before), _WORD.findall(after)
    if len(old) + len(new) > MOST_WORDS:
        old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    changes: list[Change] = []
    for operation, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if operation == "equal":
            changes.append(Change("same", _shortened("".join(old[a:b]), first=a == 0, last=b == len(old))))
            continue
        if b > a:
            changes.append(Change("gone", "".join(old[a:b])))
        if d > c:
            changes.append(Change("new", "".join(new[c:d])))
    return tuple(changes)


def _shortened(text: str, *, first: bool, last: bool) -> str:
    if len(text) <= 2 * _AROUND:
        return text
    head = "" if first else text[:_AROUND]
    tail = "" if last else text[-_AROUND:]
    return f"{head}…{tail}"
