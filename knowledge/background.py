"""How long work that a person started moves: claimed, reported, cancelled, ended, found again when a worker was lost.

Batches, archives and changes of model or terms share these moves. Each asks for the claim number, which only grows, so
a worker that was paused past its claim can write nothing. Messages are wake-ups; what to do stands in the rows.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Generic, TypeVar

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from kombu.exceptions import OperationalError

from knowledge.models import Archive, Batch, EvaluationRun, Generation, KnowledgeBase, ModelChange, TermChange
from knowledge.models.background import BackgroundWork
from portal.kernel import audit, events
from portal.kernel.errors import ArchwayError, Conflict, Unauthenticated
from portal.kernel.models import ApiKey, json_safe
from portal.kernel.principal import Principal, for_key, for_worker

logger = logging.getLogger(__name__)

Status = BackgroundWork.Status
Work = TypeVar("Work", Batch, Archive, ModelChange, TermChange, EvaluationRun, Generation)
AnyWork = Batch | Archive | ModelChange | TermChange | EvaluationRun | Generation
# A wake-up that leads nowhere is sent again after this many seconds.
_LOST_MESSAGE = 30
_TELL_EVERY = 0.5
MAX_LOST = 3


class Stopped(ArchwayError):
    """Somebody asked for the work to stop; raised inside the worker at its next step."""

    default_code = "cancelled"


def as_asked_by(principal: Principal) -> dict[str, Any]:
    """The fields that say who asked for the work and with which rights."""
    return {
        "workspace_id": principal.workspace_id,
        "created_by_id": principal.user_id,
        "key_id": principal.key_id,
    }


def asker_of(work: BackgroundWork) -> Principal:
    """The principal on whose behalf a worker acts, built anew. Raises `Denied` or `Unauthenticated` when it is gone."""
    if work.key_id is not None:
        key = ApiKey.objects.select_related("owner", "workspace").filter(pk=work.key_id, revoked_at=None).first()
        if key is None or (key.expires_at is not None and key.expires_at < timezone.now()):
            raise Unauthenticated("The key is unknown, expired or revoked.", code="key_invalid")
        return for_key(key)
    return for_worker(work.created_by_id or 0, work.workspace_id)


@dataclass(slots=True)
class Turn(Generic[Work]):
    """One worker's turn at claimed work."""

    work: Work
    deadline: float = field(default_factory=lambda: time.monotonic() + settings.ARCHWAY["SLICE_SECONDS"])
    _told: float = 0.0

    @property
    def over(self) -> bool:
        """Whether the slice's time is up."""
        return time.monotonic() >= self.deadline

    def at(self, done: int, *, always: bool = False) -> None:
        """Say how far the work is; the heartbeat. Raises `Stopped`, and `Conflict` (claim_lost)."""
        now = time.monotonic()
        if now - self._told < _TELL_EVERY and not always:
            return
        self._told = now
        self.work.done = done
        self._write(done=done, heartbeat_at=timezone.now())
        announce(self.work)
        if type(self.work).objects.filter(pk=self.work.pk, cancel_requested=True).exists():
            raise Stopped("Cancelled.")

    def note(self, **changes: Any) -> None:
        """Change other fields of the row, fenced by the claim. Raises `Conflict` (claim_lost)."""
        self._write(**changes)
        for name, value in changes.items():
            setattr(self.work, name, value)

    def release(self) -> None:
        """End the slice: somebody else goes on."""
        self._write(heartbeat_at=None, done=self.work.done)
        announce(self.work)

    def _write(self, **changes: Any) -> None:
        held = type(self.work).objects.filter(pk=self.work.pk, claim_no=self.work.claim_no, status=Status.RUNNING)
        if held.update(**changes) != 1:
            raise Conflict("Another worker took this over.", code="claim_lost")


def claim(work: Work) -> Turn[Work] | None:
    """Take work that nobody is at, or whose worker gave no sign of life; None when there is nothing to take."""
    stale = timezone.now() - timedelta(seconds=settings.ARCHWAY["CLAIM_TTL"])
    model = type(work)
    free = model.objects.filter(Q(heartbeat_at=None) | Q(heartbeat_at__lt=stale), pk=work.pk, status__in=work.OPEN)
    with transaction.atomic():
        row = free.select_for_update(skip_locked=True).first()
        if row is None:
            return None
        if row.heartbeat_at is not None:
            row.lost += 1
        row.claim_no += 1
        row.status, row.heartbeat_at = Status.RUNNING, timezone.now()
        row.save(update_fields=["lost", "claim_no", "status", "heartbeat_at"])
    if row.lost >= MAX_LOST:
        fail(row, ArchwayError("The worker gave no sign of life.", code="worker_timeout"))
        return None
    return Turn(row)


def end(work: AnyWork, status: Status, error: ArchwayError | None = None, **changes: Any) -> bool:
    """The work's end, fenced by its claim; returns whether it was still ours to end."""
    fields: dict[str, Any] = {"status": status, "heartbeat_at": None, "finished_at": timezone.now(), **changes}
    if error is not None:
        fields |= {
            "error_code": error.code[:40],
            "error_message": str(json_safe(error.message)),
            "error_params": json_safe({key: str(value) for key, value in error.params.items()}),
        }
    moved = type(work).objects.filter(pk=work.pk, claim_no=work.claim_no, status__in=work.OPEN).update(**fields)
    for name, value in fields.items():
        setattr(work, name, value)
    announce(work)
    return moved == 1


def fail(work: AnyWork, error: ArchwayError) -> bool:
    """End with an error, in one sentence."""
    return end(work, Status.FAILED, error)


@transaction.atomic
def cancel(principal: Principal, work: AnyWork) -> None:
    """Stop the work: at once when nobody is at it, otherwise at the worker's next step."""
    row = type(work).objects.select_for_update(of=("self",)).get(pk=work.pk)
    if not row.is_open:
        raise Conflict("There is nothing to cancel: the work has ended.", code="not_cancellable")
    bases = [] if row.base_id is None else [row.base_id]
    audit.record(principal, f"{type(work).__name__.lower()}.cancel", row, base_ids=bases)
    if row.heartbeat_at is not None:
        type(work).objects.filter(pk=row.pk).update(cancel_requested=True)
        announce(row)
        return
    end(row, Status.CANCELLED)


def announce(work: AnyWork) -> None:
    """Tell open pages of the base, and those of whoever started it, how far the work is."""
    event = {
        "type": "work.progress",
        "work": work.uid,
        "state": str(work.status),
        "done": work.done,
        "total": work.total,
        "at": timezone.now().isoformat(timespec="milliseconds"),
    }
    if work.base_id is not None:
        uid = KnowledgeBase.objects.filter(pk=work.base_id).values_list("uid", flat=True).first()
        events.publish(f"base:{uid}", event)
    if work.created_by is not None:
        events.publish(f"user:{work.created_by.uid}", event)


def wake(work: AnyWork) -> None:
    """Send a worker to the work, on commit. A lost message does no harm: the sweeper sends another."""
    transaction.on_commit(lambda: _send(type(work), work.pk), robust=True)


def _send(model: type[AnyWork], pk: int) -> None:
    from knowledge import tasks

    task = {
        Batch: tasks.work_on_batch,
        Archive: tasks.work_on_archive,
        ModelChange: tasks.work_on_model_change,
        EvaluationRun: tasks.work_on_evaluation,
        Generation: tasks.work_on_generation,
        TermChange: tasks.work_on_term_change,
    }[model]
    try:
        task.apply_async([pk], retry=False)
    except (OperationalError, OSError) as error:
        logger.warning("wake-up not sent: %s", type(error).__name__)


def forget_ended(limit: int = 50) -> int:
    """Take batches, exports and imports that ended long ago out of their lists; returns how many.

    What they did stays, in the documents and in the audit log. An export whose file is still kept keeps its row.
    """
    before = timezone.now() - timedelta(days=settings.ARCHWAY["HISTORY_DAYS"])
    over = Q(finished_at__lt=before) & ~Q(status__in=BackgroundWork.OPEN)
    batches = list(Batch.objects.filter(over).values_list("pk", flat=True)[:limit])
    archives = list(Archive.objects.filter(over, file="").values_list("pk", flat=True)[:limit])
    Batch.objects.filter(pk__in=batches).delete()
    Archive.objects.filter(pk__in=archives).delete()
    return len(batches) + len(archives)


def sweep() -> int:
    """Send workers to work that nobody is at, or whose worker was lost; returns how many were sent."""
    now = timezone.now()
    stale = Q(heartbeat_at__lt=now - timedelta(seconds=settings.ARCHWAY["CLAIM_TTL"]))
    waiting = Q(heartbeat_at=None, created_at__lt=now - timedelta(seconds=_LOST_MESSAGE))
    sent = 0
    for model in (Batch, Archive, ModelChange, TermChange, EvaluationRun, Generation):
        for pk in model.objects.filter(stale | waiting, status__in=BackgroundWork.OPEN).values_list("pk", flat=True):
            _send(model, pk)
            sent += 1
    return sent


def count_of_running(model: type[Archive]) -> int:
    """How many are being worked on right now."""
    stale = timezone.now() - timedelta(seconds=settings.ARCHWAY["CLAIM_TTL"])
    return model.objects.filter(status=Status.RUNNING, heartbeat_at__gte=stale).count()
