"""Moves of workers: claim, progress, set aside, finish, publish, fail. Each is fenced by the claim."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q
from django.utils import timezone

from knowledge import metadata, schedule, statistics
from knowledge.lifecycle.announcing import (
    announce,
    announce_id,
    announce_state,
    tell_people,
    tell_reviewers,
    wake,
    wake_questions,
)
from knowledge.lifecycle.states import OPEN, RUNNING, Cancelled, Claim, Status
from knowledge.models import Attempt, ChunkQuestion, Document, KnowledgeBase, Revision
from knowledge.questions import carrying
from portal.gateway.models import ModelEndpoint
from portal.kernel import audit
from portal.kernel.errors import ArchwayError, Conflict
from portal.kernel.models import json_safe


@transaction.atomic
def claim(worker: str, revision_id: int | None = None) -> Claim | None:
    """Take the fairest open revision (or the named one, if it is free); None when there is nothing to do.

    A claim of a pending revision is a new attempt; going on with one that was set aside is not.
    """
    if revision_id is None:
        revision_id = schedule.next_revision()
    else:
        free = Revision.objects.select_for_update().filter(pk=revision_id, claimed_by="", status__in=OPEN)
        revision_id = free.values_list("pk", flat=True).first()
    if revision_id is None:
        return None
    row = Revision.objects.get(pk=revision_id)
    fresh = row.status == Status.PENDING
    now = timezone.now()
    row.claim_no += 1
    row.claimed_by, row.heartbeat_at, row.not_before = worker, now, None
    row.started_at = row.started_at or now
    if fresh:
        row.attempts += 1
        row.status = Status.VECTORIZING if row.stage == "embed" else Status.PARSING
        row.error_code = row.error_message = row.error_stage = ""
        row.done, row.total, row.unit = 0, None, ""
        Attempt.objects.create(revision=row, number=row.attempts, worker=worker)
    else:
        Attempt.objects.filter(revision=row, outcome=Attempt.Outcome.YIELDED).update(
            outcome=Attempt.Outcome.RUNNING, worker=worker, slices=F("slices") + 1
        )
    row.save(
        update_fields=[
            "claim_no", "claimed_by", "heartbeat_at", "not_before", "started_at", "attempts", "status",
            "error_code", "error_message", "error_stage", "done", "total", "unit",
        ]
    )  # fmt: skip
    if fresh:
        announce_id(row.pk)
    return Claim(revision_id=row.pk, number=row.claim_no, worker=worker)


def _held(claim: Claim) -> Q:
    return Q(pk=claim.revision_id, claim_no=claim.number, status__in=RUNNING) & ~Q(claimed_by="")


def lock(claim: Claim) -> Revision:
    """The claimed row, locked until the transaction ends; `Conflict` (claim_lost) when it is no longer ours."""
    row = Revision.objects.select_for_update().filter(_held(claim)).first()
    if row is None:
        raise Conflict("Another worker took this over.", code="claim_lost")
    return row


_PROGRESS = """
UPDATE knowledge_revision r
   SET heartbeat_at = clock_timestamp(), done = %(done)s, total = %(total)s, unit = %(unit)s
  FROM knowledge_document d JOIN knowledge_knowledgebase b ON b.id = d.base_id
 WHERE r.id = %(id)s AND r.claim_no = %(number)s AND r.claimed_by <> '' AND r.status = ANY(%(running)s)
   AND d.id = r.document_id
RETURNING r.cancel_requested, b.uid, d.uid, r.number, r.attempts, r.status
"""


def progress(claim: Claim, done: int, total: int | None, unit: str) -> None:
    """Say how far the work is, in one statement; this is the heartbeat. Raises `Conflict` or `Cancelled`."""
    with connection.cursor() as cursor:
        cursor.execute(
            _PROGRESS,
            {
                "done": done,
                "total": total,
                "unit": unit,
                "id": claim.revision_id,
                "number": claim.number,
                "running": [str(status) for status in RUNNING],
            },
        )
        row = cursor.fetchone()
    if row is None:
        raise Conflict("Another worker took this over.", code="claim_lost")
    cancelled, base, document, number, attempts, status = row
    announce_state(base, document, number, attempts, status, done, total, unit)
    if cancelled:
        raise Cancelled("Cancelled.")


@transaction.atomic
def advance(claim: Claim, status: Revision.Status, **changes: Any) -> None:
    """Move a claimed revision on to another running state, with more fields of the row."""
    moved = Revision.objects.filter(_held(claim)).update(
        status=status, heartbeat_at=timezone.now(), done=0, total=None, unit="", **changes
    )
    if moved != 1:
        raise Conflict("Another worker took this over.", code="claim_lost")
    announce_id(claim.revision_id)


@transaction.atomic
def set_aside(claim: Claim, *, not_before_seconds: float = 0) -> None:
    """End a slice: the revision stays in its state and waits for its next turn. Counts as no attempt."""
    row = lock(claim)
    now = timezone.now()
    row.claimed_by, row.served_at = "", now
    row.not_before = now + timedelta(seconds=not_before_seconds) if not_before_seconds else None
    row.save(update_fields=["claimed_by", "served_at", "not_before"])
    end_attempt(row, Attempt.Outcome.YIELDED, final=False)
    if not not_before_seconds:
        wake()


@transaction.atomic
def finish(claim: Claim, status: Revision.Status, **changes: Any) -> None:
    """End the work in `review` or `no_text`."""
    row = lock(claim)
    for name, value in changes.items():
        setattr(row, name, value)
    row.status, row.claimed_by, row.finished_at = status, "", timezone.now()
    row.served_at = row.finished_at
    row.save()
    end_attempt(row, Attempt.Outcome.DONE)
    audit.record(None, f"revision.{status}", row, workspace_id=row.base.workspace_id, base_ids=[row.base_id])
    if status == Status.REVIEW:
        tell_reviewers(row)
    announce(row)


@transaction.atomic
def publish(claim: Claim) -> None:
    """Make a completely written revision the one that searches find. One small transaction; no chunk row is touched.

    A revision whose vectors are of another model than the base has by now is set aside instead: its next slice
    embeds it with the new one.
    """
    row = lock(claim)
    document = Document.objects.select_for_update().get(pk=row.document_id)
    if _has_other_model(row):
        row.claimed_by, row.served_at, row.stage = "", timezone.now(), "embed"
        row.save(update_fields=["claimed_by", "served_at", "stage"])
        end_attempt(row, Attempt.Outcome.YIELDED, final=False)
        wake()
        return
    row.status, row.claimed_by, row.finished_at = Status.INDEXED, "", timezone.now()
    row.served_at, row.total = row.finished_at, row.done
    row.error_code = row.error_message = row.error_stage = ""
    row.save()
    activate_row(document, row)
    end_attempt(row, Attempt.Outcome.DONE)
    audit.record(
        None,
        "revision.indexed",
        row,
        workspace_id=row.base.workspace_id,
        base_ids=[row.base_id],
        chunks=row.chunk_count,
    )
    announce(row)


def _has_other_model(row: Revision) -> bool:
    """Whether the base went over to another embedding space while this was embedded; holds the base until the end."""
    base = KnowledgeBase.objects.select_for_update().get(pk=row.base_id)
    wanted = ModelEndpoint.objects.filter(pk=base.embedding_id).values_list("space_id", flat=True).get()
    return row.space_id is not None and wanted is not None and row.space_id != wanted


def activate_row(document: Document, revision: Revision) -> None:
    """Point the document at `revision`; term statistics and the base's stamp follow in the same transaction."""
    counted = document.enabled and document.deleted_at is None
    if counted and document.active_revision_id and document.active_revision_id != revision.pk:
        statistics.append(document.base_id, document.active_revision_id, sign=-1)
    if counted and document.active_revision_id != revision.pk:
        statistics.append(document.base_id, revision.pk, sign=1)
    if document.active_revision_id and document.active_revision_id != revision.pk:
        carrying.carry(document.active_revision_id, revision.pk)
    if ChunkQuestion.objects.filter(revision=revision).exists():
        wake_questions()
    document.active_revision = revision
    document.metadata = metadata.of_revision(document, revision)
    document.save(update_fields=["active_revision", "metadata", "updated_at"])
    touch(document.base_id)


def touch(base_id: int) -> None:
    """Say that what a search may find in this base has changed."""
    KnowledgeBase.objects.filter(pk=base_id).update(stamp=F("stamp") + 1)


@transaction.atomic
def fail(claim: Claim, error: ArchwayError) -> None:
    """End the attempt with an error. What helps by trying again is queued again, at most three times."""
    row = lock(claim)
    retry = error.retryable and row.tries < settings.ARCHWAY["MAX_ATTEMPTS"]
    fail_row(row, error, Attempt.Outcome.FAILED, retry=retry)


def fail_row(row: Revision, error: ArchwayError, outcome: Attempt.Outcome, *, retry: bool) -> None:
    row.error_stage = row.status
    row.error_code, row.error_message = error.code[:40], str(json_safe(error.message))
    row.error_params = json_safe({key: str(value) for key, value in error.params.items()})
    row.claimed_by, row.served_at = "", timezone.now()
    end_attempt(row, outcome, error)
    if retry:
        row.status = Status.PENDING
        row.not_before = timezone.now() + timedelta(seconds=5 * 2**row.tries)
    else:
        row.status, row.finished_at = Status.FAILED, timezone.now()
    row.save()
    if not retry:
        audit.record(
            None,
            "revision.failed",
            row,
            workspace_id=row.base.workspace_id,
            base_ids=[row.base_id],
            code=error.code,
            stage=row.error_stage,
        )
        tell_people(row, "revision.failed", reason=row.error_message, reason_params=row.error_params)
    announce(row)


@transaction.atomic
def stop(claim: Claim) -> None:
    """End the attempt because somebody cancelled it."""
    row = lock(claim)
    cancel_row(row)


def cancel_row(row: Revision) -> None:
    row.status, row.claimed_by, row.cancel_requested = Status.CANCELLED, "", False
    row.finished_at = timezone.now()
    row.save(update_fields=["status", "claimed_by", "cancel_requested", "finished_at"])
    end_attempt(row, Attempt.Outcome.CANCELLED)
    announce(row)


def end_attempt(
    row: Revision, outcome: Attempt.Outcome, error: ArchwayError | None = None, *, final: bool = True
) -> None:
    live = Attempt.objects.filter(revision=row, outcome__in=[Attempt.Outcome.RUNNING, Attempt.Outcome.YIELDED])
    changes: dict[str, Any] = {"outcome": outcome}
    if final:
        changes["ended_at"] = timezone.now()
    if error is not None:
        params = json_safe({key: str(value) for key, value in error.params.items()})
        changes |= {"code": error.code[:40], "message": str(json_safe(error.message)), "params": params}
    live.update(**changes)


def note_seconds(claim: Claim, stage: str, seconds: float) -> None:
    """Add to the time that the running attempt spent in a stage."""
    attempt = Attempt.objects.filter(revision_id=claim.revision_id, outcome=Attempt.Outcome.RUNNING).first()
    if attempt is not None:
        attempt.seconds = {**attempt.seconds, stage: round(attempt.seconds.get(stage, 0.0) + seconds, 3)}
        attempt.save(update_fields=["seconds"])
