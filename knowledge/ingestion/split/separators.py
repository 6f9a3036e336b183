"""Advanced splitting: at the separators, patterns and headings that a person chose, and only there.

A segment above the passage size is cut further; two segments are never joined, but a title or the head of a
table goes with what follows it. No separator cuts a table row or a code block in two. What a separator
says stays in the text: it opens the following segment when it starts a line, else it closes the one before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from knowledge.ingestion.blocks import Block
from knowledge.ingestion.split.atoms import Atom, Limits, Measure, fitted
from knowledge.ingestion.split.packing import Part
from knowledge.ingestion.split.patterns import Clock, compiled, matches
from knowledge.ingestion.split.shapes import SplitSettings


def separator_runs(
    text: str, blocks: Sequence[Block], atoms: Sequence[Atom], settings: SplitSettings, measure: Measure
) -> list[Part]:
    """The atoms of each segment. Raises `Invalid` (`bad_pattern`, `pattern_too_slow`) for an unusable pattern."""
    cuts = sorted(set(_cuts(text, settings)) | _heading_cuts(blocks, settings.heading_level))
    groups: list[list[Atom]] = []
    last = -1
    for atom in fitted(text, list(_cut_atoms(text, atoms, cuts)), Limits.of(settings, measure), measure):
        segment = bisect_right(cuts, atom.start)
        if segment != last:
            groups.append(_opening(groups, atom, blocks))
        last = segment
        groups[-1].append(replace(atom, section=segment))
    return [group for group in groups if group]


def _opening(groups: Sequence[list[Atom]], atom: Atom, blocks: Sequence[Block]) -> list[Atom]:
    """What the segment before ends with and what belongs to `atom`, taken from it: titles, or a table's head."""
    before = groups[-1] if groups else []
    place = len(before)
    while place and before[place - 1].opens:
        place -= 1
    if place == len(before) or not _stands_above(before[-1], atom, blocks):
        return []
    taken = before[place:]
    del before[place:]
    return taken


def _stands_above(last: Atom, atom: Atom, blocks: Sequence[Block]) -> bool:
    """Whether a title or a table's head is that of `atom`."""
    if last.kind == "row":
        return atom.block == last.block
    same_place = (blocks[atom.block].sheet, blocks[atom.block].slide) == (
        blocks[last.block].sheet,
        blocks[last.block].slide,
    )
    return same_place and blocks[atom.block].kind != "heading"


def _cuts(text: str, settings: SplitSettings) -> Iterator[int]:
    clock = Clock(settings.pattern_seconds)
    for pattern in compiled(settings.patterns, settings.separators):
        for start, end in matches(pattern, text, clock):
            opens = text[start:end].strip() and (start == 0 or "\n" in (text[start - 1], text[start]))
            yield start if opens or start == end else end


def _heading_cuts(blocks: Sequence[Block], level: int) -> set[int]:
    return {block.start for block in blocks if block.kind == "heading" and (block.level or 1) <= level}


def _cut_atoms(text: str, atoms: Sequence[Atom], cuts: Sequence[int]) -> Iterator[Atom]:
    """The atoms, cut where a separator stands inside one."""
    for atom in atoms:
        inner = cuts[bisect_right(cuts, atom.start) : bisect_right(cuts, atom.end - 1)]
        if atom.kind in ("row", "code"):
            inner = ()
        bounds = [atom.start, *inner, atom.end]
        for low, high in pairwise(bounds):
            piece = text[low:high]
            if not piece.strip():
                continue
            start = low + len(piece) - len(piece.lstrip())
            whole = not inner
            yield replace(
                atom,
                start=start if not whole else low,
                end=low + len(piece.rstrip()) if not whole else high,
                prefix=atom.prefix if whole else "",
                suffix=atom.suffix if whole else "",
            )
