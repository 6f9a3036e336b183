"""Where a revision is and how it moves: claims, attempts, progress, failures, stale workers. Nobody else moves it.

Every move is a compare-and-set on (state, `claim_no`), and `claim_no` only grows: a worker that lost
its claim can write nothing. Verbs of people take a principal and a row that `knowledge/access.py`
handed out; verbs of workers take a `Claim`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q
from django.utils import timezone

from knowledge import schedule, statistics
from knowledge.models import Attempt, Document, KnowledgeBase, Revision
from portal.kernel import audit, events, notify
from portal.kernel.errors import ArchwayError, Conflict, Invalid
from portal.kernel.models import User, json_safe
from portal.kernel.principal import Principal

Status = Revision.Status
RUNNING = (Status.PARSING, Status.SEGMENTING, Status.VECTORIZING)
OPEN = (Status.PENDING, *RUNNING)
RETRYABLE = (Status.FAILED, Status.CANCELLED, Status.NO_TEXT)
STEPS = {Status.PENDING: 1, Status.PARSING: 2, Status.SEGMENTING: 3, Status.VECTORIZING: 4, Status.INDEXED: 5}


@dataclass(frozen=True, slots=True)
class Claim:
    """A worker's right to write a revision, good while (`revision_id`, `number`) stands in the row."""

    revision_id: int
    number: int
    worker: str


class Cancelled(ArchwayError):
    """Somebody asked for the work to stop; raised inside the worker at its next step."""

    default_code = "cancelled"


# -- waking workers -------------------------------------------------------------------------------


def wake() -> None:
    """Send a wake-up on commit. A lost one does no harm: the sweeper sends another."""
    from knowledge.tasks import send_wake_up

    transaction.on_commit(send_wake_up, robust=True)


def announce(revision: Revision) -> None:
    """Tell open pages, on commit, where the revision is now."""
    document = revision.document
    _publish(
        document.base.uid,
        document.uid,
        revision.number,
        revision.attempts,
        revision.status,
        revision.done,
        revision.total,
        revision.unit,
        revision.error_code or None,
    )


def _publish(
    base: str,
    document: str,
    number: int,
    attempt: int,
    status: str,
    done: int,
    total: int | None,
    unit: str,
    reason: str | None = None,
) -> None:
    events.publish(
        f"base:{base}",
        {
            "type": "document.progress",
            "doc": document,
            "rev": number,
            "attempt": attempt,
            "state": status,
            "step": STEPS.get(Status(status), 0),
            "steps": 5,
            "done": done,
            "total": total,
            "unit": unit,
            "reason": reason,
            "at": timezone.now().isoformat(timespec="milliseconds"),
        },
    )


def _announce_id(revision_id: int) -> None:
    announce(Revision.objects.select_related("document", "document__base").get(pk=revision_id))


# -- workers: claim, progress, end ----------------------------------------------------------------


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
        _announce_id(row.pk)
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
    _publish(base, document, number, attempts, status, done, total, unit)
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
    _announce_id(claim.revision_id)


@transaction.atomic
def set_aside(claim: Claim, *, not_before_seconds: float = 0) -> None:
    """End a slice: the revision stays in its state and waits for its next turn. Counts as no attempt."""
    row = lock(claim)
    now = timezone.now()
    row.claimed_by, row.served_at = "", now
    row.not_before = now + timedelta(seconds=not_before_seconds) if not_before_seconds else None
    row.save(update_fields=["claimed_by", "served_at", "not_before"])
    _end_attempt(row, Attempt.Outcome.YIELDED, final=False)
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
    _end_attempt(row, Attempt.Outcome.DONE)
    audit.record(None, f"revision.{status}", row, workspace_id=row.base.workspace_id, base_ids=[row.base_id])
    if status == Status.REVIEW:
        _tell_people(row, "revision.review")
    announce(row)


@transaction.atomic
def publish(claim: Claim) -> None:
    """Make a completely written revision the one that searches find. One small transaction; no chunk row is touched."""
    row = lock(claim)
    document = Document.objects.select_for_update().get(pk=row.document_id)
    row.status, row.claimed_by, row.finished_at = Status.INDEXED, "", timezone.now()
    row.served_at, row.total = row.finished_at, row.done
    row.error_code = row.error_message = row.error_stage = ""
    row.save()
    _activate(document, row)
    _end_attempt(row, Attempt.Outcome.DONE)
    audit.record(
        None,
        "revision.indexed",
        row,
        workspace_id=row.base.workspace_id,
        base_ids=[row.base_id],
        chunks=row.chunk_count,
    )
    announce(row)


def _activate(document: Document, revision: Revision) -> None:
    """Point the document at `revision`; term statistics and the base's stamp follow in the same transaction."""
    counted = document.enabled and document.deleted_at is None
    if counted and document.active_revision_id and document.active_revision_id != revision.pk:
        statistics.append(document.base_id, document.active_revision_id, sign=-1)
    if counted and document.active_revision_id != revision.pk:
        statistics.append(document.base_id, revision.pk, sign=1)
    document.active_revision = revision
    document.save(update_fields=["active_revision", "updated_at"])
    touch(document.base_id)


def touch(base_id: int) -> None:
    """Say that what a search may find in this base has changed."""
    KnowledgeBase.objects.filter(pk=base_id).update(stamp=F("stamp") + 1)


@transaction.atomic
def fail(claim: Claim, error: ArchwayError) -> None:
    """End the attempt with an error. What helps by trying again is queued again, at most three times."""
    row = lock(claim)
    retry = error.retryable and row.attempts < settings.ARCHWAY["MAX_ATTEMPTS"]
    _fail_row(row, error, Attempt.Outcome.FAILED, retry=retry)


def _fail_row(row: Revision, error: ArchwayError, outcome: Attempt.Outcome, *, retry: bool) -> None:
    row.error_stage = row.status
    row.error_code, row.error_message = error.code[:40], str(json_safe(error.message))
    row.error_params = json_safe({key: str(value) for key, value in error.params.items()})
    row.claimed_by, row.served_at = "", timezone.now()
    _end_attempt(row, outcome, error)
    if retry:
        row.status = Status.PENDING
        row.not_before = timezone.now() + timedelta(seconds=5 * 2**row.attempts)
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
        _tell_people(row, "revision.failed", reason=str(error))
    announce(row)


@transaction.atomic
def stop(claim: Claim) -> None:
    """End the attempt because somebody cancelled it."""
    row = lock(claim)
    _cancel_row(row)


def _cancel_row(row: Revision) -> None:
    row.status, row.claimed_by, row.cancel_requested = Status.CANCELLED, "", False
    row.finished_at = timezone.now()
    row.save(update_fields=["status", "claimed_by", "cancel_requested", "finished_at"])
    _end_attempt(row, Attempt.Outcome.CANCELLED)
    announce(row)


def _end_attempt(
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


def _tell_people(row: Revision, kind: str, **params: Any) -> None:
    """Tell whoever started the work while they are still here, in words of the document."""
    if row.created_by_id is None:
        return
    document = row.document
    notify.tell(
        User.objects.filter(pk=row.created_by_id, is_active=True),
        kind,
        workspace_id=document.base.workspace_id,
        base_ids=[document.base_id],
        link=f"/bases/{document.base.uid}/documents/{document.uid}/",
        document=document.name,
        **params,
    )


# -- the sweeper ----------------------------------------------------------------------------------

_SWEEP_LOCK = 0x5EEE


class WorkerTimeout(ArchwayError):
    """The worker gave no sign of life for longer than the claim's time to live."""

    default_code = "worker_timeout"
    retryable = True


def sweep() -> int:
    """End the claims of workers that gave no sign of life, and wake workers for work that waits. One at a time."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_SWEEP_LOCK])
            if not cursor.fetchone()[0]:
                return 0
        limit = timezone.now() - timedelta(seconds=settings.ARCHWAY["CLAIM_TTL"])
        stale = (
            Revision.objects.select_for_update(skip_locked=True, of=("self",))
            .filter(status__in=RUNNING, heartbeat_at__lt=limit)
            .exclude(claimed_by="")
        )
        count = 0
        for row in stale:
            error = WorkerTimeout("The worker stopped answering while it was at work on this.")
            row.claim_no += 1
            if row.cancel_requested:
                row.save(update_fields=["claim_no"])
                _cancel_row(row)
            else:
                retry = row.attempts < settings.ARCHWAY["MAX_ATTEMPTS"]
                _fail_row(row, error, Attempt.Outcome.LOST, retry=retry)
            count += 1
        if somebody_waits():
            wake()
    return count


def somebody_waits() -> bool:
    """Whether there is open work that no worker holds and that may start now."""
    due = Q(not_before__isnull=True) | Q(not_before__lte=timezone.now())
    return Revision.objects.filter(due, status__in=OPEN, claimed_by="").exists()


# -- people: retry, cancel, confirm, roll back ------------------------------------------------------


@transaction.atomic
def retry(principal: Principal, revision: Revision) -> None:
    """Queue a failed, cancelled or empty revision again; it goes on where its last finished stage ended."""
    _no_open_sibling(revision)
    moved = Revision.objects.filter(pk=revision.pk, status__in=RETRYABLE).update(
        status=Status.PENDING,
        attempts=0,
        not_before=None,
        cancel_requested=False,
        claimed_by="",
        served_at=None,
        queued_at=timezone.now(),
        started_at=None,
        finished_at=None,
    )
    if moved != 1:
        raise Conflict("This is not in a state that can be retried.", code="not_retryable")
    audit.record(principal, "revision.retry", revision, base_ids=[revision.base_id])
    _announce_id(revision.pk)
    wake()


def _no_open_sibling(revision: Revision) -> None:
    siblings = Revision.objects.filter(document_id=revision.document_id, status__in=[*OPEN, Status.REVIEW])
    if siblings.exclude(pk=revision.pk).exists():
        raise Conflict("Another revision of this document is being processed.", code="revision_open")


@transaction.atomic
def cancel(principal: Principal, revision: Revision) -> None:
    """Stop the work: at once when nobody is at it, otherwise at the worker's next step."""
    row = Revision.objects.select_for_update().get(pk=revision.pk)
    if row.status == Status.CANCELLED or row.cancel_requested:
        return
    if row.status not in (*OPEN, Status.REVIEW):
        raise Conflict("There is nothing to cancel: the work has ended.", code="not_cancellable")
    audit.record(principal, "revision.cancel", row, base_ids=[row.base_id])
    if row.claimed_by:
        row.cancel_requested = True
        row.save(update_fields=["cancel_requested"])
        announce(row)
    else:
        _cancel_row(row)


@transaction.atomic
def confirm(principal: Principal, revision: Revision) -> None:
    """Let a reviewed revision go on to vectorizing."""
    moved = Revision.objects.filter(pk=revision.pk, status=Status.REVIEW).update(
        status=Status.PENDING, stage="embed", attempts=0, queued_at=timezone.now(), finished_at=None, served_at=None
    )
    if moved != 1:
        raise Conflict("This revision does not wait for a review.", code="not_in_review")
    audit.record(principal, "revision.confirm", revision, base_ids=[revision.base_id])
    _announce_id(revision.pk)
    wake()


@transaction.atomic
def reindex(principal: Principal, document: Document) -> Revision:
    """Read the newest bytes again with the base's settings of today: a new revision; the old one serves meanwhile."""
    newest = document.revisions.order_by("-number").first()
    if newest is None:
        raise Invalid("This document has no file.", code="no_file")
    revision = add_revision(
        document,
        created_by_id=principal.user_id,
        file=newest.file,
        file_name=newest.file_name,
        sha256=newest.sha256,
        mime=newest.mime,
        size=newest.size,
    )
    audit.record(principal, "document.reindex", document, base_ids=[document.base_id], revision=revision.number)
    return revision


def add_revision(document: Document, *, created_by_id: int | None, **fields: Any) -> Revision:
    """Queue a new revision of a document, the base's settings frozen into it. One open revision at a time.

    Must be called in a transaction.
    """
    Document.objects.select_for_update().get(pk=document.pk)
    if document.revisions.filter(status__in=[*OPEN, Status.REVIEW]).exists():
        raise Conflict(
            "%(name)s is still being processed; wait until it is done, or cancel it.",
            code="revision_open",
            name=document.name,
        )
    last = document.revisions.order_by("-number").values_list("number", flat=True).first() or 0
    revision = Revision.objects.create(
        document=document,
        base_id=document.base_id,
        number=last + 1,
        config=document.base.config,
        created_by_id=created_by_id,
        **fields,
    )
    _announce_id(revision.pk)
    wake()
    return revision


@transaction.atomic
def activate(principal: Principal, document: Document, revision: Revision) -> None:
    """Roll back (or forward) to another indexed revision of the document."""
    locked = Document.objects.select_for_update().get(pk=document.pk)
    row = Revision.objects.filter(pk=revision.pk, document=locked, status=Status.INDEXED).first()
    if row is None:
        raise Conflict("Only a searchable revision can be made the current one.", code="not_indexed")
    if locked.active_revision_id == row.pk:
        return
    if not row.vectors_kept:
        raise Conflict(
            "The vectors of this revision were cleaned up; upload its file again, or re-index it.", code="vectors_gone"
        )
    before = locked.active_revision.number if locked.active_revision else None
    _activate(locked, row)
    audit.record(principal, "document.activate", locked, base_ids=[locked.base_id], revision=row.number, before=before)
    announce(row)


def stuck_after() -> timedelta:
    """How long without a heartbeat until pages call work stuck."""
    return timedelta(minutes=5)
