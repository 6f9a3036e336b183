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
        if segment != last and not (groups and _only_opens(groups[-1], atom, blocks)):
            groups.append([])
        last = segment
        groups[-1].append(replace(atom, section=segment))
    return list(groups)


def _only_opens(group: Sequence[Atom], atom: Atom, blocks: Sequence[Block]) -> bool:
    """Whether a segment is nothing but titles or a table's head so far, and `atom` is what they are above."""
    last = group[-1]
    if not all(one.opens for one in group):
        return False
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
