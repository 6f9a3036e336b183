"""Packing: which neighbouring atoms make a passage, and which a leaf.

Decides alone where between atoms a part ends: it is filled up to its size, ends with a block rather
than inside one where that costs at most half of it, never ends with a heading, and leaves no crumb
behind.
"""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.ingestion.blocks import Block
from knowledge.ingestion.split.atoms import Atom, Measure
from knowledge.ingestion.split.shapes import Leaf, Passage, SplitSettings

Part = Sequence[Atom]


def cost(part: Part) -> int:
    """Tokens of a part at most: its atoms and the frame that its ends need."""
    return part[0].frame + sum(atom.tokens for atom in part) + (part[-1].frame if part[-1].suffix else 0)


def pack(atoms: Part, size: int, cap: int, overlap: int = 0) -> list[Part]:
    """Parts of at most `size` tokens (more, up to `cap`, where an atom or a heading with its text needs it)."""
    parts: list[Part] = []
    first = 0
    while first < len(atoms):
        last = _fill(atoms, first, size, cap)
        parts.append(atoms[first:last])
        if last == len(atoms):
            break
        first = _overlapping(atoms, first, last, overlap)
    return _without_crumb(parts, size, cap) if not overlap else parts


def _fill(atoms: Part, first: int, size: int, cap: int) -> int:
    """Where the part that starts at `first` ends (exclusive)."""
    used = atoms[first].frame + atoms[first].tokens
    last = first + 1
    boundary, at_boundary = last, used
    while last < len(atoms):
        atom = atoms[last]
        tail = atom.frame if atom.suffix else 0
        limit = cap if atoms[last - 1].opens and all(before.opens for before in atoms[first:last]) else size
        if used + atom.tokens + tail > limit:
            break
        if atom.block != atoms[last - 1].block:
            boundary, at_boundary = last, used
        used += atom.tokens
        last += 1
    if last < len(atoms):
        if atoms[last].block == atoms[last - 1].block and boundary > first and at_boundary * 2 >= size:
            last = boundary
        back = last
        while back > first and atoms[back - 1].opens:
            back -= 1
        if back > first:
            last = back
    return last


def _overlapping(atoms: Part, first: int, last: int, overlap: int) -> int:
    """Where the next part starts: as many whole sentences back as `overlap` tokens hold, less than the part itself."""
    start, used = last, 0
    while (
        start - 1 > first
        and atoms[start - 1].kind == "text"
        and atoms[start - 1].section == atoms[last].section
        and atoms[last].kind == "text"
        and used + atoms[start - 1].tokens <= overlap
    ):
        start -= 1
        used += atoms[start].tokens
    return start


def _without_crumb(parts: list[Part], size: int, cap: int) -> list[Part]:
    """A last part below a fifth of the size joins the one before it."""
    if len(parts) > 1:
        joined = [*parts[-2], *parts[-1]]
        if cost(parts[-1]) * 5 < size and cost(joined) <= min(cap, size + size // 4):
            return [*parts[:-2], joined]
    return parts


def passages_of(
    text: str, blocks: Sequence[Block], runs: Sequence[Part], settings: SplitSettings, measure: Measure
) -> list[Passage]:
    """Passages and their leaves, each measured as a whole and below the cap."""
    size = min(settings.passage_tokens, measure.room)
    parts: list[Part] = []
    for run in runs:
        measure.tell(run[0].start)
        for packed in pack(run, size, measure.room, settings.overlap_tokens):
            parts.extend(below_cap(text, packed, measure))
    leaves = [_leaves_of(text, part, min(settings.leaf_tokens, size), measure) for part in parts]
    measure.full([written(text, leaf)[1] for group in leaves for leaf in group])
    return [
        _passage(text, blocks, ordinal, part, group, measure)
        for ordinal, (part, group) in enumerate(zip(parts, leaves, strict=True))
    ]


def _leaves_of(text: str, part: Part, size: int, measure: Measure) -> list[Part]:
    measure.tell(part[-1].end)
    return [
        leaf
        for section in _by_section(part)
        for packed in pack(section, size, measure.room)
        for leaf in below_cap(text, packed, measure)
    ]


def below_cap(text: str, part: Part, measure: Measure) -> list[Part]:
    """The part, or halves of it where the whole counts more tokens than the cap allows.

    The whole is counted only where the sum of its atoms comes near the cap.
    """
    if len(part) == 1 or cost(part) * 10 <= measure.room * 9:
        return [part]
    if measure.full([written(text, part)[1]])[0] <= measure.cap:
        return [part]
    middle = len(part) // 2
    return [*below_cap(text, part[:middle], measure), *below_cap(text, part[middle:], measure)]


def written(text: str, part: Part) -> tuple[str, str, str]:
    """(prefix, whole text, suffix) of a part."""
    prefix, suffix = part[0].prefix, part[-1].suffix
    return prefix, prefix + text[part[0].start : part[-1].end] + suffix, suffix


def _by_section(part: Part) -> list[Part]:
    groups: list[list[Atom]] = []
    for atom in part:
        if groups and groups[-1][-1].section == atom.section:
            groups[-1].append(atom)
        else:
            groups.append([atom])
    return list(groups)


def _passage(
    text: str,
    blocks: Sequence[Block],
    ordinal: int,
    part: Part,
    leaves: Sequence[Part],
    measure: Measure,
) -> Passage:
    measure.tell(part[-1].end)
    prefix, whole, suffix = written(text, part)
    counted = [_leaf(text, number, leaf, measure) for number, leaf in enumerate(leaves)]
    place = blocks[next((atom.block for atom in part if atom.kind != "heading"), part[0].block)]
    return Passage(
        ordinal=ordinal,
        text=whole,
        start=part[0].start,
        end=part[-1].end,
        token_count=min(measure.cap, measure.base + sum(leaf.token_count - measure.base for leaf in counted)),
        leaves=tuple(counted),
        heading_path=path_of(blocks, part),
        page=place.page,
        sheet=place.sheet,
        rows=rows_of(part),
        slide=place.slide,
        prefix=prefix,
        suffix=suffix,
    )


def _leaf(text: str, ordinal: int, part: Part, measure: Measure) -> Leaf:
    prefix, whole, suffix = written(text, part)
    return Leaf(ordinal, whole, part[0].start, part[-1].end, measure.full([whole])[0], prefix, suffix)


def path_of(blocks: Sequence[Block], part: Part) -> tuple[str, ...]:
    """The titles above all of a part's text. Titles with no text under them are their own text."""
    paths = {blocks[atom.block].heading_path: None for atom in part if atom.kind != "heading"}
    common, *others = paths or (blocks[part[-1].block].heading_path,)
    for path in others:
        same = 0
        while same < min(len(common), len(path)) and common[same] == path[same]:
            same += 1
        common = common[:same]
    return common


def rows_of(part: Part) -> tuple[int, int] | None:
    """First and last sheet row of a part."""
    found = [atom.rows for atom in part if atom.rows is not None]
    return (min(first for first, _ in found), max(last for _, last in found)) if found else None
