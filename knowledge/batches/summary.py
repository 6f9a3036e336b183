"""How a batch stands: how many documents came to which outcome, and whether it can be undone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Count

from knowledge.batches.verbs import VERBS
from knowledge.models import Batch, BatchItem


@dataclass(frozen=True, slots=True)
class Outcomes:
    """How many documents of a batch; the four add up to its total."""

    waiting: int = 0
    done: int = 0
    skipped: int = 0
    failed: int = 0

    @property
    def settled(self) -> int:
        return self.done + self.skipped + self.failed


@dataclass(frozen=True, slots=True)
class Standing:
    """What a list tells of a batch."""

    outcomes: Outcomes
    may_undo: bool


def outcomes(batch: Batch) -> Outcomes:
    """Counted from the items, so that they always agree with the list."""
    return _counted([batch])[batch.pk][0]


def may_undo(batch: Batch) -> bool:
    """Ended, undoable, not an undo itself, not undone yet, and something was done to documents that still exist."""
    return standings([batch])[batch.pk].may_undo


def standings(batches: Iterable[Batch]) -> dict[int, Standing]:
    """How each of many batches stands, in two statements."""
    rows = list(batches)
    undone = set(Batch.objects.filter(undoes__in=rows).values_list("undoes_id", flat=True))
    return {
        row.pk: Standing(
            found,
            may_undo=not row.is_open
            and row.undoes_id is None
            and VERBS[row.verb].undo is not None
            and row.pk not in undone
            and left > 0,
        )
        for row, (found, left) in zip(rows, _counted(rows).values(), strict=True)
    }


def _counted(batches: list[Batch]) -> dict[int, tuple[Outcomes, int]]:
    """By batch: its outcomes, and how many of the documents it changed still exist."""
    counts: dict[int, dict[str, int]] = {batch.pk: {} for batch in batches}
    left = dict.fromkeys(counts, 0)
    rows = BatchItem.objects.filter(batch__in=counts).order_by().values_list("batch_id", "outcome")
    for pk, outcome, number, there in rows.annotate(number=Count("pk"), there=Count("document")):
        counts[pk][outcome] = number
        if outcome == BatchItem.Outcome.DONE:
            left[pk] = there
    return {pk: (Outcomes(**found), left[pk]) for pk, found in counts.items()}
