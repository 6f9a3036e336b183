"""Splitting texts that a person wrote: one passage into leaves, and one passage into two.

Decides alone what structure a passage's text has when there is no parser to ask: fences, pipe tables,
lists and paragraphs, by their lines. Offsets of the results point into the given text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from knowledge.ingestion.blocks import Block, BlockKind
from knowledge.ingestion.split.atoms import Limits, Measure, atoms_of
from knowledge.ingestion.split.packing import below_cap, pack, written
from knowledge.ingestion.split.sentences import lines
from knowledge.ingestion.split.shapes import Leaf, SplitSettings
from portal.gateway.protocols import TokenCounter

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_ITEM = re.compile(r"[ \t]{0,3}(?:[-*+•·▪◦●○■□◆]|[(（]?[0-9a-zA-Z一二三四五六七八九十]{1,4}[.)、）．])[ \t]")
_RULE = re.compile(r"\s*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?\s*")


def leaves_of(text: str, counter: TokenCounter, settings: SplitSettings, *, whole: bool = False) -> tuple[Leaf, ...]:
    """The leaves of one passage's text, none above the model's cap; `whole` keeps it one leaf while it fits.

    They hold all of the text that is not white space, as those of a document do.
    """
    measure = Measure(counter)
    if whole and measure.full([text])[0] <= measure.cap:
        start, end = len(text) - len(text.lstrip()), len(text.rstrip())
        return (Leaf(0, text[start:end], start, end, measure.full([text[start:end]])[0]),)
    atoms = atoms_of(text, blocks_of(text), Limits.of(settings, measure), measure)
    if not atoms:
        return ()
    parts = [
        leaf
        for packed in pack(atoms, min(settings.leaf_tokens, measure.room), measure.room)
        for leaf in below_cap(text, packed, measure)
    ]
    made = []
    for number, part in enumerate(parts):
        prefix, own, suffix = written(text, part)
        made.append(Leaf(number, own, part[0].start, part[-1].end, measure.full([own])[0], prefix, suffix))
    return tuple(made)


def halves(text: str, position: int) -> tuple[tuple[str, int, int], tuple[str, int, int]] | None:
    """The text in two: ((first, 0, end), (second, start, length)); None when one half would be empty.

    Inside a table the cut moves to the start of the row and the second half repeats the head; inside a
    fence the first half closes it and the second opens it again. The offsets say which part of `text`
    each half holds.
    """
    inside = next((block for block in blocks_of(text) if block.start < position < block.end), None)
    before, after = "", ""
    if inside is not None and inside.kind == "table":
        rows = lines(text, inside.start, inside.end)
        heads = _heads(text, inside.start, inside.end)
        position = max((low for low, _ in rows if low <= position), default=inside.start)
        if heads and position < rows[heads][0] if len(rows) > heads else False:
            position = inside.start
        after = text[rows[0][0] : rows[heads - 1][1]] + "\n" if heads and position > inside.start else ""
    elif inside is not None and inside.kind == "code":
        opening, position = _inside_fence(text, inside, position)
        if opening:
            fence = _FENCE.match(opening)
            before, after = "\n" + (fence[1] if fence else ""), opening + "\n"
    first, second = text[:position].rstrip(), text[position:].lstrip("\n")
    start = len(text) - len(second)
    if not first.strip() or not second.strip():
        return None
    return (first + before, 0, len(first)), (after + second.rstrip(), start, start + len(second.rstrip()))


def _inside_fence(text: str, block: Block, position: int) -> tuple[str, int]:
    """(opening line to repeat, place of the cut): beside the fences there is nothing to close or to open."""
    rows = lines(text, block.start, block.end)
    low = max((start for start, _ in rows if start <= position), default=block.start)
    if low <= rows[0][0] or len(rows) < 3:
        return "", block.start
    if low == rows[1][0]:
        return "", block.start
    if low >= rows[-1][0]:
        return "", block.end
    return text[rows[0][0] : rows[0][1]], low


def places_to_cut(text: str, counter: TokenCounter, settings: SplitSettings) -> list[int]:
    """Where a person may want to cut: before each block, sentence, list item and row but the first."""
    measure = Measure(counter)
    atoms = atoms_of(text, blocks_of(text), Limits.of(settings, measure), measure)
    starts = dict.fromkeys(atom.start for atom in atoms)
    return [start for start in starts if (found := halves(text, start)) is not None and found[1][1] >= start]


def blocks_of(text: str) -> list[Block]:
    """The text's blocks, with exact offsets and no gaps but white space."""
    return [
        Block(kind, text[start:end], start=start, end=end)
        for kind, start, end in _ranges(text)
        if text[start:end].strip()
    ]


def _ranges(text: str) -> Iterator[tuple[BlockKind, int, int]]:
    kind: BlockKind | None = None
    start = end = 0
    fence = ""
    for low, high in _all_lines(text):
        line = text[low:high]
        if fence:
            end = high
            if line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                yield "code", start, end
                kind, fence = None, ""
            continue
        opened = _FENCE.match(line)
        wanted = _kind_of(line, kind)
        if kind is not None and (wanted != kind or opened):
            yield kind, start, end
            kind = None
        if opened:
            kind, fence, start = "code", opened[1], low
        elif wanted is not None and kind is None:
            kind, start = wanted, low
        end = high
    if kind is not None:
        yield kind, start, end


def _kind_of(line: str, current: BlockKind | None) -> BlockKind | None:
    """What a line belongs to; None for a blank one, which ends everything but a fence."""
    if not line.strip():
        return None
    if line.lstrip().startswith("|"):
        return "table"
    if _ITEM.match(line) or (current == "list" and line[0] in " \t"):
        return "list"
    return "paragraph"


def _all_lines(text: str) -> Iterator[tuple[int, int]]:
    position = 0
    for line in text.split("\n"):
        yield position, position + len(line)
        position += len(line) + 1


def _heads(text: str, start: int, end: int) -> int:
    rows = lines(text, start, end)
    return 2 if len(rows) > 1 and _RULE.fullmatch(text[slice(*rows[1])]) else 0
