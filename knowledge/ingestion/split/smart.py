"""Smart splitting: sections first, so that a passage has one subject and one path of titles.

Decides alone which sections share a passage: neighbours of one parent, or a parent and those below it,
that are each no larger than a leaf, so that each is one leaf under its own heading. Otherwise a
passage holds one section; it never goes on past a heading above its own, nor past a sheet or slide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from knowledge.ingestion.blocks import Block
from knowledge.ingestion.split.atoms import Atom
from knowledge.ingestion.split.packing import Part, path_of
from knowledge.ingestion.split.shapes import SplitSettings


@dataclass(frozen=True, slots=True)
class Section:
    """Headings that follow each other, and the text up to the next heading."""

    atoms: tuple[Atom, ...]
    path: tuple[str, ...]
    level: int
    sheet: str | None
    slide: int | None

    @property
    def tokens(self) -> int:
        return sum(atom.tokens for atom in self.atoms)


def smart_runs(blocks: Sequence[Block], atoms: Sequence[Atom], settings: SplitSettings, room: int) -> list[Part]:
    """The runs of atoms that passages are cut from."""
    groups: list[list[Section]] = []
    size = min(settings.passage_tokens, room)
    for section in sections_of(blocks, atoms):
        if groups and _may_join(groups[-1], section, size, settings.leaf_tokens):
            groups[-1].append(section)
        else:
            groups.append([section])
    return [tuple(atom for section in group for atom in section.atoms) for group in groups]


def sections_of(blocks: Sequence[Block], atoms: Sequence[Atom]) -> list[Section]:
    """The document cut at its headings, and where sheet, slide or path change without one."""
    sections: list[Section] = []
    current: list[Atom] = []
    for atom in atoms:
        if current and _opens_section(blocks, current, atom):
            sections.append(_section(blocks, current))
            current = []
        current.append(replace(atom, section=len(sections)))
    if current:
        sections.append(_section(blocks, current))
    return sections


def _opens_section(blocks: Sequence[Block], current: Sequence[Atom], atom: Atom) -> bool:
    block, before = blocks[atom.block], blocks[current[-1].block]
    if (block.sheet, block.slide) != (before.sheet, before.slide):
        return True
    if block.kind == "heading":
        return before.kind != "heading"
    return before.kind != "heading" and block.heading_path != before.heading_path


def _section(blocks: Sequence[Block], atoms: Sequence[Atom]) -> Section:
    first = blocks[atoms[0].block]
    path = path_of(blocks, atoms)
    levels = [blocks[atom.block].level or 1 for atom in atoms if blocks[atom.block].kind == "heading"]
    return Section(tuple(atoms), path, min(levels, default=len(path)), first.sheet, first.slide)


def _may_join(group: Sequence[Section], section: Section, size: int, leaf: int) -> bool:
    first = group[0]
    if (first.sheet, first.slide) != (section.sheet, section.slide):
        return False
    if any(one.tokens > leaf or one.atoms[-1].opens for one in (*group, section)):
        return False
    if sum(one.tokens for one in group) + section.tokens > size:
        return False
    if section.level > first.level:
        return section.path[: len(first.path)] == first.path
    return section.level == first.level and section.path[:-1] == first.path[:-1]
