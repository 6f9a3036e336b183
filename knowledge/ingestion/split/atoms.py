"""Atoms: the pieces of a document that splitting never cuts again, each with what it costs.

Decides alone what is kept whole: a heading, a sentence, a list item, a table row, a code block, as
long as it fits under the hard cap. What does not is cut at the best place there is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from knowledge.ingestion.blocks import Block
from knowledge.ingestion.split.sentences import Span, lines, list_items, sentences, windows
from knowledge.ingestion.split.shapes import SplitSettings
from portal.gateway.protocols import TokenCounter

AtomKind = Literal["heading", "text", "row", "code"]

_RULE = re.compile(r"\s*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?\s*")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")


@dataclass(frozen=True, slots=True)
class Atom:
    """text[start:end] of one block. `tokens` is its own cost, `frame` that of `prefix` and `suffix`.

    `prefix` is needed when a part begins with this atom, `suffix` when it ends with it. `row` counts
    the body rows of its table from 0, `rows` are its first and last row in the sheet, from 1. An atom
    that `opens` (a heading, the head of a table) belongs to what follows and ends no part.
    """

    start: int
    end: int
    kind: AtomKind
    block: int
    prefix: str = ""
    suffix: str = ""
    row: int | None = None
    rows: Span | None = None
    opens: bool = False
    section: int = 0
    tokens: int = 0
    frame: int = 0


class Measure:
    """Token counts in batches, each text counted once. `room` is what a text may cost beside the model's own tokens.

    `tell` is told how far in the text a round of splitting is.
    """

    def __init__(self, counter: TokenCounter, tell: Callable[[int], None] = lambda end: None) -> None:
        self.tell = tell
        self._counter = counter
        self._known: dict[str, int] = {}
        self.base = counter.count([""])[0]
        self.cap = counter.max_tokens
        self.room = max(1, counter.max_tokens - self.base)

    def full(self, texts: Sequence[str]) -> list[int]:
        """The counter's own numbers, its prefix and special tokens included."""
        missing = list(dict.fromkeys(text for text in texts if text not in self._known))
        if missing:
            self._known.update(zip(missing, self._counter.count(missing), strict=True))
        return [self._known[text] for text in texts]

    def net(self, texts: Sequence[str]) -> list[int]:
        """Without the model's own tokens; at least 1 for any text that is not empty."""
        return [max(1, count - self.base) if text else 0 for text, count in zip(texts, self.full(texts), strict=True)]


@dataclass(frozen=True, slots=True)
class Limits:
    """Tokens above which an atom is cut: `room` for rows and code, `sentence` for text, into pieces of `piece`."""

    room: int
    sentence: int
    piece: int

    @classmethod
    def of(cls, settings: SplitSettings, measure: Measure) -> Limits:
        sentence = max(1, min(measure.room, settings.passage_tokens, 2 * settings.leaf_tokens))
        return cls(measure.room, sentence, max(1, min(sentence, settings.leaf_tokens)))


def atoms_of(text: str, blocks: Sequence[Block], limits: Limits, measure: Measure) -> list[Atom]:
    """The atoms of all blocks in reading order, none above the limits; together they hold all text."""
    drafts = [atom for index, block in enumerate(blocks) for atom in _draft(text, index, block)]
    return fitted(text, drafts, limits, measure)


def fitted(text: str, drafts: Sequence[Atom], limits: Limits, measure: Measure) -> list[Atom]:
    """The atoms measured; those above the limits are cut, code and rows by their lines first."""
    bodies = measure.net([text[atom.start : atom.end] for atom in drafts])
    frames = measure.net([atom.prefix + atom.suffix for atom in drafts])
    done: list[Atom] = []
    for atom, tokens, frame in zip(drafts, bodies, frames, strict=True):
        if tokens + frame > limits.room and frame > limits.room // 3:
            atom, frame = replace(atom, prefix="", suffix=""), 0  # this head leaves no room for this row
        if tokens + frame <= (limits.sentence if atom.kind == "text" else limits.room):
            done.append(replace(atom, tokens=tokens, frame=frame))
        elif atom.kind == "code":
            done.extend(_code_parts(text, atom, limits, measure))
        else:
            done.extend(_sized(text, atom, limits, measure))
    return done


def _sized(text: str, atom: Atom, limits: Limits, measure: Measure) -> list[Atom]:
    """The atom in pieces that fit with their frame; ends because the pieces get shorter each time."""
    frame = measure.net([atom.prefix + atom.suffix])[0]
    most = limits.sentence if atom.kind == "text" else max(1, limits.room - 2 * frame)
    wanted = limits.piece if atom.kind == "text" else most
    done: list[Atom] = []
    waiting: list[Span] = [(atom.start, atom.end)]
    while waiting:
        counts = measure.net([text[start:end] for start, end in waiting])
        following: list[Span] = []
        for (start, end), tokens in zip(waiting, counts, strict=True):
            if tokens <= most or end - start == 1:
                done.append(replace(atom, start=start, end=end, tokens=tokens, frame=frame))
            else:
                size = min(int((end - start) * wanted / tokens * 0.95), end - start - 1)
                following.extend(windows(text, start, end, size))
        waiting = following
    return sorted(done, key=lambda piece: piece.start)


def _draft(text: str, index: int, block: Block) -> Iterator[Atom]:
    start, end = block.start, block.end
    if block.kind == "heading":
        yield Atom(start, end, "heading", index, rows=block.rows, opens=True)
    elif block.kind == "table":
        yield from _table(text, index, block)
    elif block.kind == "code":
        yield Atom(start, end, "code", index, rows=block.rows)
    elif block.kind == "list":
        for low, high in list_items(text, start, end):
            yield Atom(low, high, "text", index, rows=block.rows)
    else:
        for low, high in sentences(text, start, end):
            yield Atom(low, high, "text", index, rows=block.rows)


def _table(text: str, index: int, block: Block) -> Iterator[Atom]:
    """The head, which goes with the first body row, and the rows, each of which can repeat it."""
    spans = lines(text, block.start, block.end)
    heads = 2 if len(spans) > 1 and _RULE.fullmatch(text[slice(*spans[1])]) else 0
    body = spans[heads:]
    if heads:
        rows = _sheet_rows(block.rows, len(body), -1) if body else block.rows
        yield Atom(spans[0][0], spans[1][1], "row", index, rows=rows, opens=bool(body))
    head = text[spans[0][0] : spans[1][1]] + "\n" if heads else ""
    for number, (low, high) in enumerate(body):
        rows = _sheet_rows(block.rows, len(body), number)
        yield Atom(low, high, "row", index, prefix=head, row=number, rows=rows)


def _sheet_rows(rows: Span | None, body: int, number: int) -> Span | None:
    """The sheet row of a body row (-1: of the head). A table that skips rows of its sheet keeps its whole range."""
    if rows is None:
        return None
    head = rows[1] - rows[0] + 1 - body  # 1 when the range counts the head, 0 when it does not
    if head not in (0, 1):
        return rows
    row = rows[0] + max(number + head, 0)
    return row, row


def _code_parts(text: str, atom: Atom, limits: Limits, measure: Measure) -> list[Atom]:
    """A code block too long to stay whole, by its lines: each part can open and close the fence again."""
    spans = lines(text, atom.start, atom.end)
    fence = _FENCE.match(text[slice(*spans[0])])
    opening, closing = (text[slice(*spans[0])] + "\n", "\n" + fence[1]) if fence else ("", "")
    frame = measure.net([opening + closing])[0]
    if fence is None or len(spans) == 1 or frame > limits.room // 3:
        whole = replace(atom, kind="text")
        return [
            part for low, high in spans for part in _sized(text, replace(whole, start=low, end=high), limits, measure)
        ]
    closed = len(spans) > 2 and text[slice(*spans[-1])].strip() == fence[1]
    part = replace(atom, prefix=opening, suffix=closing)
    body = spans[1:-1] if closed else spans[1:]
    parts = [piece for low, high in body for piece in _sized(text, replace(part, start=low, end=high), limits, measure)]
    # The fences that stand in the text take the place of repeated ones and cost the same.
    parts[0] = replace(parts[0], start=atom.start, prefix="", tokens=parts[0].tokens + frame)
    if closed:
        parts[-1] = replace(parts[-1], end=atom.end, suffix="", tokens=parts[-1].tokens + frame)
    return parts
