"""Which changes made by hand another split of a document keeps, and which it loses: told before it is done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from knowledge.chunks.handwork import Act, Handwork, Kind, collect, fitted
from knowledge.chunks.splitting import Trial, as_made, trial
from knowledge.models import Revision
from portal.kernel.errors import Conflict

_WORDS = 160


@dataclass(frozen=True, slots=True)
class ByHand:
    """One change. `ordinal` counts from 0 (None: removed), `text` is the beginning of what the passage reads now."""

    kind: Kind
    chunk: int
    ordinal: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of the changes, each list in reading order."""

    kept: tuple[ByHand, ...] = ()
    lost: tuple[ByHand, ...] = ()


def changes(revision: Revision | None) -> list[ByHand]:
    """What was changed by hand in a revision, in reading order; exclusions alone are not told."""
    acts = collect(revision).acts if revision is not None else ()
    return [one for one in _told(acts) if one.kind != "excluded"]


def fate(revision: Revision, found: Trial | None) -> Fate:
    """What the split would make of the changes in `revision`; without it, or with a part of it, all may be lost."""
    work = collect(revision)
    if not work.acts:
        return Fate()
    if found is None or not found.whole:
        return Fate(lost=tuple(one for one in _told(work.acts) if one.kind != "excluded"))
    places = fitted(work, as_made(found.passages), same_text=same_text(work, found.parsed_key))
    kept = [act for act, place in zip(work.acts, places, strict=True) if place is not None]
    lost = [act for act, place in zip(work.acts, places, strict=True) if place is None]
    return Fate(tuple(_told(kept)), tuple(_told(lost)))


def same_text(work: Handwork, parsed_key: str) -> bool:
    """Whether places in both point into one text."""
    return bool(parsed_key) and work.parsed_key == parsed_key


def refuse_losses(changed: Revision, newest: Revision, config: dict[str, Any]) -> None:
    """Raise `Conflict` (edits_lost) when splitting `newest` by `config` would lose changes made in `changed`."""
    if not changes(changed):
        return
    try:
        found = trial(newest, config)
    except Conflict:  # its text is not at hand: nobody knows
        found = None
    lost = [one for one in fate(changed, found).lost if one.kind != "excluded"]
    if lost:
        raise Conflict(
            "%(name)s has %(n)s changes made by hand that splitting it again does not keep; look at them first.",
            code="edits_lost",
            name=changed.document.name,
            n=len(lost),
        )


def _told(acts: Iterable[Act]) -> list[ByHand]:
    found = [
        ByHand(one.kind, one.chunk, None if one.state.gone else one.state.ordinal, one.state.text[:_WORDS])
        for act in acts
        for one in act
        if one.kind is not None
    ]
    return sorted(found, key=lambda one: (one.ordinal is None, one.ordinal or 0))
