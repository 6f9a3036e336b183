"""Which changes made by hand a new split of a document does not keep. They are listed before it is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from knowledge.models import Chunk, ChunkVersion, Revision
from portal.kernel.errors import Conflict

Kind = Literal["edited", "merged", "cut", "added", "removed", "excluded"]
_KINDS: dict[str, Kind] = {"merge": "merged", "cut": "cut"}
_WORDS = 160


@dataclass(frozen=True, slots=True)
class Loss:
    """One change that a new split undoes. `ordinal` counts from 0, `text` is the beginning of what it reads now."""

    kind: Kind
    chunk: int
    ordinal: int | None
    text: str


def losses(revision: Revision | None, kept_texts: Iterable[str] | None = None) -> list[Loss]:
    """The hand-made changes of a revision that a new split does not keep, in reading order.

    Exclusions stay where the text stays the same; with the passages of the new split at hand
    (`kept_texts`) those that can not stay are listed too. The revision itself is not touched by a
    re-index and can be made current again.
    """
    if revision is None:
        return []
    changed = Chunk.objects.filter(revision=revision, versions__isnull=False).exclude(level=Chunk.Level.LEAF)
    rows = list(changed.distinct().defer("lexemes").order_by("level", "ordinal"))
    versions: dict[int, list[ChunkVersion]] = {}
    for version in ChunkVersion.objects.filter(chunk__in=[row.pk for row in rows]).order_by("chunk_id", "number"):
        versions.setdefault(version.chunk_id, []).append(version)
    found = [_loss(row, versions[row.pk]) for row in rows]
    lost = sorted((loss for loss in found if loss), key=lambda loss: (loss.ordinal is None, loss.ordinal or 0))
    if kept_texts is not None:
        lost += _exclusions(revision, kept_texts, {loss.chunk for loss in lost})
    return lost


def refuse_losses(revision: Revision) -> None:
    """Raise `Conflict` (edits_lost) when a new split would undo changes made by hand."""
    lost = losses(revision)
    if lost:
        raise Conflict(
            "%(name)s has %(n)s changes made by hand that splitting it again does not keep; look at them first.",
            code="edits_lost",
            name=revision.document.name,
            n=len(lost),
        )


def _loss(row: Chunk, versions: list[ChunkVersion]) -> Loss | None:
    first = versions[0]
    gone = row.level == Chunk.Level.GONE
    ordinal = None if gone else row.ordinal
    if first.verb != ChunkVersion.Verb.MADE:
        # Made by hand: the second half of a cut, or a passage that somebody wrote.
        kind: Kind = "cut" if first.verb == ChunkVersion.Verb.CUT else "added"
        return None if gone else Loss(kind, row.pk, ordinal, row.text[:_WORDS])
    if gone:
        # One that was merged away is told by the passage that took it in.
        merged = versions[-1].verb == ChunkVersion.Verb.MERGE
        return None if merged else Loss("removed", row.pk, None, row.text[:_WORDS])
    if row.text == first.text and _leaf_texts(versions[-1]) == _leaf_texts(first):
        return None
    verbs = [version.verb for version in versions if version.verb in _KINDS]
    return Loss(_KINDS[verbs[-1]] if verbs else "edited", row.pk, ordinal, row.text[:_WORDS])


def _leaf_texts(version: ChunkVersion) -> list[str]:
    return [leaf["text"] for leaf in version.place.get("leaves", [])]


def _exclusions(revision: Revision, kept_texts: Iterable[str], told: set[int]) -> list[Loss]:
    there = Counter(kept_texts)
    off = Chunk.objects.filter(revision=revision, level=Chunk.Level.PASSAGE, enabled=False).defer("lexemes")
    lost = []
    for row in off.order_by("ordinal"):
        there[row.text] -= 1
        if there[row.text] < 0 and row.pk not in told:
            lost.append(Loss("excluded", row.pk, row.ordinal, row.text[:_WORDS]))
    return lost
