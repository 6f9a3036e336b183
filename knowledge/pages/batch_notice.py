"""What the document list says of batches: one that is under way, and the one that this person has just started."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from knowledge import batches
from knowledge.access import visible_batches
from knowledge.batches import Outcomes
from knowledge.models import Batch, KnowledgeBase
from portal.kernel.principal import Principal

_JUST = "batch_just_started"


@dataclass(frozen=True, slots=True)
class BatchNotice:
    """A batch in words for people."""

    batch: Batch
    outcomes: Outcomes
    label: Any
    may_undo: bool = False

    @property
    def is_undo(self) -> bool:
        return self.batch.undoes_id is not None

    @property
    def settled(self) -> int:
        return self.outcomes.settled


def described(batch: Batch) -> BatchNotice:
    """A batch with its figures."""
    return all_described([batch])[0]


def all_described(listed: Iterable[Batch]) -> list[BatchNotice]:
    """The same for a list."""
    rows = list(listed)
    found = batches.standings(rows)
    return [
        BatchNotice(row, found[row.pk].outcomes, batches.VERBS[row.verb].label, may_undo=found[row.pk].may_undo)
        for row in rows
    ]


def keep_notice(request: HttpRequest, batch: Batch) -> None:
    """Show the batch on the next list of its base."""
    request.session[_JUST] = batch.uid


def batch_notice(principal: Principal, request: HttpRequest, base: KnowledgeBase) -> BatchNotice | None:
    """The batch that was just started, once; otherwise the newest one that is still under way."""
    rows = visible_batches(principal).filter(base=base).select_related("created_by")
    just = request.session.get(_JUST)
    found = rows.filter(uid=just).first() if just else None
    if found is not None:
        if not found.is_open:
            del request.session[_JUST]
        return described(found)
    running = rows.filter(status__in=Batch.OPEN).order_by("-id").first()
    return described(running) if running else None
