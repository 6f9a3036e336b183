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


def outcomes(batch: Batch) -> Outcomes:
    """Counted from the items, so that they always agree with the list."""
    return outcomes_of([batch])[batch.pk]


def outcomes_of(batches: Iterable[Batch]) -> dict[int, Outcomes]:
    """The same for many, in one statement."""
    wanted = [batch.pk for batch in batches]
    counts: dict[int, dict[str, int]] = {pk: {} for pk in wanted}
    rows = BatchItem.objects.filter(batch__in=wanted).order_by().values_list("batch_id", "outcome")
    for pk, outcome, number in rows.annotate(number=Count("pk")):
        counts[pk][outcome] = number
    return {pk: Outcomes(**found) for pk, found in counts.items()}


def may_undo(batch: Batch) -> bool:
    """Ended, undoable, not an undo itself, not undone yet, and something was done."""
    return (
        not batch.is_open
        and batch.undoes_id is None
        and VERBS[batch.verb].undo is not None
        and not Batch.objects.filter(undoes=batch).exists()
        and batch.items.filter(outcome=BatchItem.Outcome.DONE, document__isnull=False).exists()
    )
