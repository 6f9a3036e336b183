"""What people did to the passages of a revision by hand, and where it belongs in another split.

Alone decides when a change goes along: when every passage that it was made of stands in the new split with
exactly the text that splitting gave it before. Of equal texts the first stays the first while there are as
many as before; otherwise the place in the file decides. Pure functions over frozen values but for `collect`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from django.db.models import Exists, OuterRef, Q

from knowledge.chunks import history
from knowledge.chunks.history import PassageState
from knowledge.models import Chunk, ChunkVersion, Revision

Kind = Literal["edited", "merged", "cut", "added", "removed", "excluded"]
Verb = ChunkVersion.Verb


@dataclass(frozen=True, slots=True)
class Made:
    """A passage as splitting made it: digest of its text, place in the file, the `rank`-th of `alike` equal ones."""

    sha256: str
    start: int
    end: int
    heading_path: tuple[str, ...] = ()
    page: int | None = None
    sheet: str | None = None
    row_first: int | None = None
    row_last: int | None = None
    slide: int | None = None
    rank: int = 0
    alike: int = 1


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a passage (`made`), or one that a person made (None), which stands behind `behind` (None: on top).

    `kind` is None where another result of the same act tells it. `by` and `at` are those of the last change.
    """

    chunk: int
    kind: Kind | None
    state: PassageState
    made: Made | None
    behind: Made | None
    by: int | None
    at: str


# Passages that were changed together, by a merge or a cut; most acts have one.
Act = tuple[Result, ...]


@dataclass(frozen=True, slots=True)
class Handwork:
    """All acts on a revision in reading order; `parsed_key` names the text that their places point into."""

    parsed_key: str
    acts: tuple[Act, ...] = ()


@dataclass(frozen=True, slots=True)
class Fitted:
    """Where an act belongs: passages of the new split, counted from 0, by the chunk that each result is of.

    A result that a person made goes behind its passage; -1 is the top of the document.
    """

    at: Mapping[int, int]


# -- collecting ------------------------------------------------------------------------------------


def collect(revision: Revision) -> Handwork:
    """Everything that was done by hand to a revision's passages and still shows."""
    rows = Chunk.objects.filter(revision=revision).exclude(level=Chunk.Level.LEAF).defer("lexemes")
    off = Exists(Chunk.objects.filter(parent=OuterRef("pk"), enabled=False))
    told = Exists(ChunkVersion.objects.filter(chunk=OuterRef("pk")))
    changed = list(rows.filter(Q(enabled=False) | Q(off) | Q(told)).order_by("level", "ordinal"))
    if not changed:
        return Handwork(revision.parsed_key)
    versions: dict[int, list[ChunkVersion]] = defaultdict(list)
    for version in ChunkVersion.objects.filter(chunk__in=[row.pk for row in changed]).order_by("chunk_id", "number"):
        versions[version.chunk_id].append(version)
    everything = list(rows.order_by("ordinal"))
    made = _made(everything, versions)
    behind = _behind(everything, made)
    by_pk = {row.pk: row for row in changed}
    acts = [_act([by_pk[pk] for pk in group], versions, made, behind) for group in _groups(changed, versions)]
    told_acts = [act for act in acts if any(result.kind or _leaf_is_off(result) for result in act)]
    told_acts.sort(key=lambda act: min((one.state.gone, one.state.ordinal) for one in act))
    return Handwork(revision.parsed_key, tuple(told_acts))


def made_of(row: Chunk) -> Made:
    """A passage of a split that nobody has changed."""
    place = (tuple(row.heading_path), row.page, row.sheet, row.row_first, row.row_last, row.slide)
    return Made(row.sha256, row.start, row.end, *place)


def ranked(passages: Sequence[Made]) -> list[Made]:
    """The passages, each with its rank among equal texts by place; the order of the list stays."""
    places: dict[str, list[int]] = defaultdict(list)
    for number in sorted(range(len(passages)), key=lambda n: (passages[n].start, passages[n].end, n)):
        places[passages[number].sha256].append(number)
    ranks = {number: rank for alike in places.values() for rank, number in enumerate(alike)}
    return [replace(one, rank=ranks[number], alike=len(places[one.sha256])) for number, one in enumerate(passages)]


def _made(rows: Sequence[Chunk], versions: Mapping[int, list[ChunkVersion]]) -> dict[int, Made]:
    """What splitting made of the file, by chunk: untouched passages, and the first versions of the others."""
    found: dict[int, Made] = {}
    for row in rows:
        first = versions[row.pk][0] if versions.get(row.pk) else None
        if first is None:
            found[row.pk] = made_of(row)
        elif first.verb == Verb.MADE:
            state = history.state_at(first)
            place = (state.heading_path, state.page, state.sheet, state.row_first, state.row_last, state.slide)
            found[row.pk] = Made(first.sha256, state.start, state.end, *place)
    return dict(zip(found, ranked(list(found.values())), strict=True))


def _behind(rows: Sequence[Chunk], made: Mapping[int, Made]) -> dict[int, Made | None]:
    """For each passage that a person made: the nearest one before it that splitting made."""
    found: dict[int, Made | None] = {}
    last: Made | None = None
    for row in rows:
        if row.level == Chunk.Level.PASSAGE:
            if row.pk not in made:
                found[row.pk] = last
            last = made.get(row.pk, last)
    return found


def _groups(rows: Sequence[Chunk], versions: Mapping[int, list[ChunkVersion]]) -> list[list[int]]:
    """The passages that belong together: one that was merged away with its taker, a part with what it was cut from."""
    sharing: dict[str, list[int]] = defaultdict(list)
    for pk, kept in versions.items():
        for version in kept:
            if version.change:
                sharing[version.change].append(pk)
    group = {row.pk: {row.pk} for row in rows}
    for row in rows:
        kept = versions.get(row.pk, [])
        link = kept[-1].change if kept and row.level == Chunk.Level.GONE else ""
        if kept and kept[0].verb != Verb.MADE:
            link = kept[0].change
        whole = set[int]().union(*(group[pk] for pk in [row.pk, *(sharing[link] if link else ())]))
        for pk in whole:
            group[pk] = whole
    unique = {id(one): one for one in group.values()}
    order = {row.pk: number for number, row in enumerate(rows)}
    return [sorted(one, key=order.__getitem__) for one in unique.values()]


def _act(
    rows: Sequence[Chunk],
    versions: Mapping[int, list[ChunkVersion]],
    made: Mapping[int, Made],
    behind: Mapping[int, Made | None],
) -> Act:
    # A part that a person made and that is gone again leaves nothing.
    rows = [row for row in rows if row.pk in made or row.level != Chunk.Level.GONE]
    reads_otherwise = [row for row in rows if row.level != Chunk.Level.GONE and _text_changed(row, made)]
    return tuple(
        Result(
            chunk=row.pk,
            kind=_kind(row, rows, made, told=bool(reads_otherwise)),
            state=history.state_of(row),
            made=made.get(row.pk),
            behind=behind.get(row.pk),
            by=versions[row.pk][-1].edited_by_id if versions.get(row.pk) else None,
            at=versions[row.pk][-1].at.isoformat() if versions.get(row.pk) else "",
        )
        for row in sorted(rows, key=lambda row: (row.pk not in made, row.ordinal))
    )


def _text_changed(row: Chunk, made: Mapping[int, Made]) -> bool:
    return row.pk not in made or row.sha256 != made[row.pk].sha256


def _kind(row: Chunk, rows: Sequence[Chunk], made: Mapping[int, Made], *, told: bool) -> Kind | None:
    if row.level == Chunk.Level.GONE:
        return None if told else "removed"
    of_file = sum(one.pk in made for one in rows)
    if row.pk not in made:
        return "cut" if of_file else "added"
    if _text_changed(row, made):
        return "merged" if of_file > 1 else "cut" if of_file < len(rows) else "edited"
    return None if row.enabled else "excluded"


def _leaf_is_off(result: Result) -> bool:
    return any(not leaf.enabled for leaf in result.state.leaves)


# -- fitting into another split ----------------------------------------------------------------------


def fitted(work: Handwork, fresh: Sequence[Made], *, same_text: bool) -> list[Fitted | None]:
    """For each act its place in a split, or None where there is none that is certain.

    `same_text`: offsets of both splits point into the same text.
    """
    fresh = ranked(fresh)
    alike: dict[str, list[int]] = defaultdict(list)
    for number in sorted(range(len(fresh)), key=lambda n: fresh[n].rank):
        alike[fresh[number].sha256].append(number)

    def find(made: Made) -> int | None:
        found = alike.get(made.sha256, [])
        if len(found) == made.alike:
            return found[made.rank]
        here = [n for n in found if same_text and (fresh[n].start, fresh[n].end) == (made.start, made.end)]
        return here[0] if here else None

    removed = {
        find(act[0].made) for act in work.acts if len(act) == 1 and act[0].state.gone and act[0].made is not None
    }

    def anchor(result: Result) -> int | None:
        if result.behind is None:
            return -1
        found = find(result.behind)
        if found is None and same_text:
            found = max((n for n, one in enumerate(fresh) if one.end <= result.state.start), default=-1)
        return found

    return [_fit(act, find, anchor, removed) for act in work.acts]


def _fit(
    act: Act,
    find: Callable[[Made], int | None],
    anchor: Callable[[Result], int | None],
    removed: set[int | None],
) -> Fitted | None:
    at: dict[int, int] = {}
    for result in act:
        place = find(result.made) if result.made is not None else anchor(result)
        if place is None:
            return None
        at[result.chunk] = place
    of_file = [at[one.chunk] for one in sorted(act, key=_place_in_file) if one.made is not None]
    for before, after in pairwise(of_file):
        # What was merged must still be neighbours, but for what a person removed between them.
        if after <= before or any(number not in removed for number in range(before + 1, after)):
            return None
    return Fitted(at)


def _place_in_file(result: Result) -> tuple[int, int]:
    return (result.made.start, result.made.end) if result.made else (0, 0)


def moved(state: PassageState, pairs: Sequence[tuple[Made, Made]]) -> PassageState:
    """The state with the places of another split; `pairs` are the passages it was made of: (before, now)."""
    if not pairs:
        return state
    (first, now), (last, last_now) = pairs[0], pairs[-1]

    def at(offset: int) -> int:
        for before, after in reversed(pairs):
            if before.start <= offset:
                return min(offset - before.start + after.start, after.end)
        return now.start

    return replace(
        state,
        heading_path=now.heading_path if state.heading_path == first.heading_path else state.heading_path,
        page=now.page if state.page == first.page else state.page,
        sheet=now.sheet if state.sheet == first.sheet else state.sheet,
        slide=now.slide if state.slide == first.slide else state.slide,
        row_first=now.row_first if state.row_first == first.row_first else state.row_first,
        row_last=last_now.row_last if state.row_last == last.row_last else state.row_last,
        start=at(state.start),
        end=at(state.end),
        leaves=tuple(replace(leaf, start=at(leaf.start), end=at(leaf.end)) for leaf in state.leaves),
    )
