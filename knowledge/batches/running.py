"""Working through a batch, slice by slice. A document's change and its outcome are one transaction."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from django.db import transaction
from django.utils.translation import gettext_noop

from knowledge import background
from knowledge.access import visible_bases
from knowledge.batches.summary import outcomes
from knowledge.batches.verbs import find
from knowledge.models import Batch, BatchItem, Document, Role
from portal.kernel import audit
from portal.kernel.errors import ArchwayError, Conflict, Denied
from portal.kernel.models import json_safe
from portal.kernel.principal import Principal

logger = logging.getLogger(__name__)

Outcome = BatchItem.Outcome
_FETCH = 200
# A batch of at most so many documents is worked on by the process that starts it, so that small ones end at once.
HERE = 50


class Skip(Exception):
    """Nothing was to be done with a document, and that is no error; `reason` is for programs, `message` for people."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


def work(batch_id: int) -> bool:
    """One slice of a batch; returns whether there is more to do. Does nothing when somebody else is at it."""
    batch = Batch.objects.select_related("base", "created_by").filter(pk=batch_id).first()
    turn = background.claim(batch) if batch is not None else None
    return turn is not None and _slice(turn)


def begin(batch: Batch) -> Batch:
    """Do a small batch here and now, as far as one slice goes; send a worker to the rest, or to a large one.

    Returns the batch as it is then. Called outside of the transaction that started it.
    """
    if batch.total > HERE or work(batch.pk):
        background.wake(batch)
    return Batch.objects.select_related("base", "created_by").get(pk=batch.pk)


def _slice(turn: background.Turn[Batch]) -> bool:
    batch = Batch.objects.select_related("base", "created_by").get(pk=turn.work.pk)
    turn.work = batch
    try:
        principal = background.asker_of(batch)
        if _work_through(turn, principal):
            _end(batch, Batch.Status.DONE)
            return False
        turn.release()
        return True
    except background.Stopped:
        _end(batch, Batch.Status.CANCELLED)
    except ArchwayError as error:
        if error.code == "claim_lost":
            return False
        _end(batch, Batch.Status.FAILED, error)
    return False


def _work_through(turn: background.Turn[Batch], principal: Principal) -> bool:
    """Returns whether every document has its outcome; False when the slice is over."""
    batch = turn.work
    settled = outcomes(batch).settled
    turn.at(settled, always=True)
    while waiting := list(batch.items.filter(outcome=Outcome.WAITING).order_by("pk")[:_FETCH]):
        for item in waiting:
            _settle(batch, principal, item)
            settled += 1
            turn.at(settled)
            if turn.over:
                batch.done = settled
                return not batch.items.filter(outcome=Outcome.WAITING).exists()
    return True


def _settle(batch: Batch, principal: Principal, item: BatchItem) -> None:
    try:
        with transaction.atomic():
            locked = BatchItem.objects.select_for_update().filter(pk=item.pk, outcome=Outcome.WAITING).first()
            if locked is None:
                return
            before = _act(batch, principal, locked)
            locked.outcome, locked.before = Outcome.DONE, json_safe(before)
            locked.save(update_fields=["outcome", "before"])
    except Skip as skip:
        _note(item, Outcome.SKIPPED, skip.reason, skip.message)
    except ArchwayError as error:
        _note(item, Outcome.FAILED, error.code, error.message, error.params)
    except Exception:  # one document's surprise must not hide what became of the others
        logger.exception("batch %s: document %s", batch.uid, item.document_id)
        _note(item, Outcome.FAILED, "internal_error", gettext_noop("Something went wrong with this document."))


def _act(batch: Batch, principal: Principal, item: BatchItem) -> dict[str, object]:
    """Do the verb, or undo it; returns what an undo needs."""
    undoing = batch.undoes_id is not None
    verb = find(batch.verb)
    document = (
        Document.objects.select_related("base", "active_revision", "owner").filter(pk=item.document_id or 0).first()
    )
    if document is None:
        raise Skip("gone", gettext_noop("The document does not exist any more."))
    if not undoing and document.base_id != batch.base_id:
        raise Skip("moved", gettext_noop("The document lies in another base by now."))
    # Looked at for each document: a role that is taken away stops the rest.
    if not visible_bases(principal, Role.EDITOR).filter(pk=document.base_id).exists():
        raise Denied("You may not edit this document any more.", code="role_too_small")
    if (document.deleted_at is not None) != (verb.undone_binned if undoing else verb.binned):
        raise Skip("bin_changed", gettext_noop("The document is not where it was when you chose it."))
    if not undoing:
        before = verb.act(principal, document, batch.params)
        if before is None:
            raise Skip("unchanged", gettext_noop("There was nothing to change."))
        return before
    if verb.undo is None:
        raise Conflict("This can not be undone, or has been undone already.", code="not_undoable")
    kept = BatchItem.objects.get(batch_id=batch.undoes_id or 0, document_id=document.pk)
    if not verb.undo(principal, document, kept.before):
        raise Skip("unchanged", gettext_noop("There was nothing to change."))
    return {}


def _note(
    item: BatchItem, outcome: BatchItem.Outcome, reason: str, message: str, params: Mapping[str, object] | None = None
) -> None:
    safe = json_safe({key: str(value) for key, value in (params or {}).items()})
    BatchItem.objects.filter(pk=item.pk).update(
        outcome=outcome, code=reason[:40], message=str(json_safe(message)), params=safe
    )


def _end(batch: Batch, status: Batch.Status, error: ArchwayError | None = None) -> None:
    counts = outcomes(batch)
    with transaction.atomic():
        if not background.end(batch, status, error, done=counts.settled):
            return
        audit.record(
            None,
            f"batch.{status}",
            batch,
            workspace_id=batch.workspace_id,
            base_ids=[batch.base_id],
            verb=batch.verb,
            documents_done=counts.done,
            documents_skipped=counts.skipped,
            documents_failed=counts.failed,
            not_reached=counts.waiting,
        )
