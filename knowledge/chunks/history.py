"""Every version of a passage: what it said, what it was cut into, who changed it, when and in which act.

Alone decides what a version holds. The first row of a passage is written at its first change, so
that passages nobody touches cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from knowledge.models import Chunk, ChunkVersion, Revision


@dataclass(frozen=True, slots=True)
class LeafState:
    """One leaf of a passage: its text (with `prefix`), its place in the parsed text, whether searches match it."""

    text: str
    prefix: str
    start: int
    end: int
    token_count: int
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class PassageState:
    """Everything that a change of a passage may change, and that a restore brings back."""

    text: str
    prefix: str
    heading_path: tuple[str, ...]
    page: int | None
    sheet: str | None
    row_first: int | None
    row_last: int | None
    slide: int | None
    start: int
    end: int
    ordinal: int
    leaves: tuple[LeafState, ...]
    enabled: bool = True
    gone: bool = False


_PLACE = [
    field.name for field in fields(PassageState) if field.name not in ("text", "leaves", "enabled", "gone", "ordinal")
]


def leaves_of(passage: Chunk) -> list[Chunk]:
    """The leaves of a passage in reading order."""
    return list(passage.leaves.defer("lexemes").order_by("ordinal"))


def state_of(passage: Chunk) -> PassageState:
    """The passage as it stands in the table; a removed one as it was when it was removed."""
    if passage.level == Chunk.Level.GONE:
        return state_at(versions_of(passage).latest("number"))
    leaves = tuple(
        LeafState(leaf.text, leaf.prefix, leaf.start, leaf.end, leaf.token_count, leaf.enabled)
        for leaf in leaves_of(passage)
    )
    place: dict[str, Any] = {name: getattr(passage, name) for name in _PLACE}
    place["heading_path"] = tuple(passage.heading_path)
    return PassageState(
        text=passage.text, ordinal=passage.ordinal, leaves=leaves, enabled=passage.enabled, gone=False, **place
    )


def state_at(version: ChunkVersion) -> PassageState:
    """The passage as a kept version says."""
    place = dict(version.place)
    leaves = tuple(LeafState(**leaf) for leaf in place.pop("leaves"))
    place["heading_path"] = tuple(place["heading_path"])
    return PassageState(text=version.text, leaves=leaves, enabled=version.enabled, gone=version.gone, **place)


def versions_of(passage: Chunk) -> QuerySet[ChunkVersion]:
    """All kept versions, oldest first; empty for a passage that nobody changed."""
    return passage.versions.select_related("edited_by").order_by("number")


def keep_first(passage: Chunk, revision: Revision) -> None:
    """Before the first change: keep what splitting made."""
    if passage.version == 1 and not passage.versions.exists():
        row = _row(passage, state_of(passage), ChunkVersion.Verb.MADE)
        row.at = revision.finished_at or revision.created_at
        row.save()


def record(
    passage: Chunk, state: PassageState, verb: str, change: str, by: int | None, at: datetime | None = None
) -> None:
    """Keep the version that `passage.version` counts now, as `state` says; `by` whom, `at` now unless told."""
    row = _row(passage, state, verb)
    row.change, row.edited_by_id, row.at = change, by, at or row.at
    row.save()


def _row(passage: Chunk, state: PassageState, verb: str) -> ChunkVersion:
    place = {name: getattr(state, name) for name in (*_PLACE, "ordinal")}
    place["heading_path"] = list(state.heading_path)
    return ChunkVersion(
        chunk=passage,
        number=passage.version,
        verb=verb,
        text=state.text,
        sha256=passage.sha256,
        enabled=state.enabled,
        gone=state.gone,
        place={**place, "leaves": [asdict(leaf) for leaf in state.leaves]},
    )


def of_change(revision: Revision, change: str) -> Sequence[ChunkVersion]:
    """All versions that one act made in a revision; empty for a change that is not there."""
    rows = ChunkVersion.objects.filter(chunk__revision=revision, change=change).exclude(change="")
    return list(rows.select_related("chunk").order_by("chunk_id"))


def cited(passage: Chunk, number: int) -> ChunkVersion | None:
    """The version that a citation names, when it is not the current one (or the passage is gone); None otherwise."""
    if number == passage.version and passage.level != Chunk.Level.GONE:
        return None
    return passage.versions.filter(number=number).first()
