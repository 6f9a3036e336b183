"""What a change makes of a passage: pure functions from one state to the next.

A passage is the truth and its leaves are cut out of it. A change of one leaf is a change of the
stretch of the passage that it covers; the other leaves stay as they are and keep their vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from knowledge.chunks.history import LeafState, PassageState
from knowledge.ingestion.split import Leaf
from knowledge.ingestion.split.handmade import halves
from portal.kernel.errors import Conflict, Invalid

# (text, keep it one leaf while it fits) -> leaves, with offsets into the text.
Cutter = Callable[[str, bool], Sequence[Leaf]]
_FENCES = ("```", "~~~")


def edited(state: PassageState, text: str, cut: Cutter) -> PassageState:
    """The passage with another text, cut into leaves anew; leaves that stay the same keep place and exclusion."""
    known = {leaf.text: leaf for leaf in state.leaves}
    leaves = tuple(
        known.get(leaf.text, LeafState(leaf.text, leaf.prefix, state.start, state.end, leaf.token_count))
        for leaf in cut(text, len(state.leaves) == 1)
    )
    return replace(state, text=text, prefix=state.prefix if text.startswith(state.prefix) else "", leaves=leaves)


def leaf_edited(state: PassageState, index: int, text: str, cut: Cutter) -> PassageState:
    """The passage with another text in place of one of its leaves. Raises `Conflict` (leaf_not_found)."""
    spans = leaf_spans(state)
    span = spans[index] if index < len(spans) else None
    if span is None:
        raise Conflict("This chunk can not be told apart in its passage; edit the passage.", code="leaf_not_found")
    start, end = span
    whole = (state.text[:start] + text + state.text[end:]).strip("\n")
    prefix = state.leaves[index].prefix
    middle = tuple(
        LeafState(leaf.text, leaf.prefix, state.start, state.end, leaf.token_count)
        for leaf in cut(prefix + text if prefix and text.lstrip().startswith("|") else text, False)
    )
    leaves = (*state.leaves[:index], *middle, *state.leaves[index + 1 :])
    return replace(state, text=whole, prefix=state.prefix if whole.startswith(state.prefix) else "", leaves=leaves)


def leaf_spans(state: PassageState) -> list[tuple[int, int] | None]:
    """Where each leaf's own text (without what it repeats) stands in the passage; None where it can not be found."""
    found: list[tuple[int, int] | None] = []
    position = 0
    for leaf in state.leaves:
        own = leaf.text.removeprefix(leaf.prefix)
        start = state.text.find(own, position)
        if start < 0 and own.rstrip().endswith(_FENCES):
            own = own[: own.rstrip().rfind("\n")]
            start = state.text.find(own, position) if own.strip() else -1
        if start < 0 or not own.strip():
            found.append(None)
            continue
        found.append((start, start + len(own)))
        position = start + len(own)
    return found


def own_text(state: PassageState, leaf: int) -> str:
    """What of a leaf stands in its passage: what an editor of it changes."""
    span = leaf_spans(state)[leaf]
    return state.text[slice(*span)] if span else state.leaves[leaf].text


def merged(first: PassageState, second: PassageState, parsed: str | None, cut: Cutter) -> PassageState:
    """Both as one passage; what stands exactly so in the parsed text stays exactly so."""
    text = _joined(first, second, parsed)
    same_sheet = first.sheet == second.sheet
    rows = [row for row in (first.row_first, first.row_last, second.row_first, second.row_last) if row is not None]
    known = {leaf.text: leaf for leaf in (*first.leaves, *second.leaves)}
    start, end = min(first.start, second.start), max(first.end, second.end)
    leaves = tuple(
        known.get(leaf.text, LeafState(leaf.text, leaf.prefix, start, end, leaf.token_count))
        for leaf in cut(text, False)
    )
    return replace(
        first,
        text=text,
        heading_path=_common(first.heading_path, second.heading_path),
        row_first=min(rows) if rows and same_sheet else first.row_first,
        row_last=max(rows) if rows and same_sheet else first.row_last,
        start=start,
        end=end,
        leaves=leaves,
        enabled=first.enabled and second.enabled,
    )


def cut_in_two(
    state: PassageState, position: int, parsed: str | None, cut: Cutter
) -> tuple[PassageState, PassageState]:
    """The passage up to `position` (a count of characters) and from there on. Raises `Invalid` (cut_empty)."""
    found = halves(state.text, position) if 0 < position < len(state.text) else None
    if found is None:
        raise Invalid("Choose a place with text before and after it.", code="cut_empty")
    whole = parsed is not None and _exact(state, parsed)
    offset = state.start - len(state.prefix)
    made = []
    for text, low, high in found:
        start, end = (state.start, state.end)
        if whole:
            start, end = max(offset + low, state.start), min(offset + high, state.end)
        known = {leaf.text: leaf for leaf in state.leaves}
        leaves = tuple(
            known.get(leaf.text, LeafState(leaf.text, leaf.prefix, start, end, leaf.token_count))
            for leaf in cut(text, len(state.leaves) == 1)
        )
        own = state.text[low:high]
        prefix = text[: text.find(own)] if own and own in text else ""
        if low == 0 and text.startswith(state.prefix):
            prefix = state.prefix
        made.append(replace(state, text=text, prefix=prefix, start=start, end=end, leaves=leaves))
    return made[0], made[1]


def written(text: str, beside: PassageState | None, cut: Cutter) -> PassageState:
    """A passage that a person wrote, placed behind `beside`: under its titles, at no place of the file."""
    place = beside.end if beside else 0
    leaves = tuple(LeafState(leaf.text, leaf.prefix, place, place, leaf.token_count) for leaf in cut(text, False))
    return PassageState(
        text=text,
        prefix="",
        heading_path=beside.heading_path if beside else (),
        page=beside.page if beside else None,
        sheet=beside.sheet if beside else None,
        row_first=None,
        row_last=None,
        slide=beside.slide if beside else None,
        start=place,
        end=place,
        ordinal=beside.ordinal + 1 if beside else 0,
        leaves=leaves,
    )


def _joined(first: PassageState, second: PassageState, parsed: str | None) -> str:
    if parsed is not None and _exact(first, parsed) and _exact(second, parsed) and first.start <= second.start:
        between = parsed[min(first.end, second.start) : second.start]
        if not between.strip():
            tail = second.text[len(second.prefix) + second.end - second.start :]
            return first.prefix + parsed[first.start : second.end] + tail
    rest = second.text
    table = first.text.rstrip().rpartition("\n")[2].lstrip().startswith("|")
    if second.prefix and second.prefix.strip() in first.text:
        rest = rest.removeprefix(second.prefix)
    return first.text.rstrip() + ("\n" if table and rest.lstrip().startswith("|") else "\n\n") + rest.lstrip("\n")


def _exact(state: PassageState, parsed: str) -> bool:
    """Whether the passage still reads as the file does, apart from what it repeats before and after."""
    own = parsed[state.start : state.end]
    return bool(own.strip()) and state.text[len(state.prefix) :].startswith(own)


def _common(one: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return tuple(one[:length])
