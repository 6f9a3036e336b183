"""Where a synchronisation is and how it moves: queued, claimed, set aside, ended. Nobody else moves it.

As in `knowledge/lifecycle`: messages are wake-ups, a worker holds a claim whose number only grows, and each write asks
for that number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, OuterRef, Q, Subquery
from django.utils import timezone

from knowledge.models import Grant, Role, Source, SourcePage, SourceRun
from knowledge.sources.addresses import key_of
from knowledge.sources.keeping import OUTCOMES
from portal.kernel import audit, events, notify
from portal.kernel.errors import ArchwayError, Conflict, Unavailable
from portal.kernel.models import User, json_safe
from portal.kernel.principal import Principal

Status = SourceRun.Status
_DUE_LOCK = 0x50C5
MOST_PROBLEMS = 50
PERIODS = {
    Source.Schedule.HOURLY: timedelta(hours=1),
    Source.Schedule.DAILY: timedelta(days=1),
    Source.Schedule.WEEKLY: timedelta(days=7),
}


@dataclass(frozen=True, slots=True)
class RunClaim:
    """A worker's right to write a run, good while (`run_id`, `number`) stands in the row."""

    run_id: int
    number: int


class RunCancelled(ArchwayError):
    """Somebody asked for the run to stop; raised at its next step."""

    default_code = "cancelled"


def next_time(schedule: str, after: datetime | None = None) -> datetime | None:
    """When a source with this schedule is due again; None for one that is only run by hand."""
    period = PERIODS.get(Source.Schedule(schedule))
    return (after or timezone.now()) + period if period else None


@transaction.atomic
def start(principal: Principal | None, source: Source, trigger: SourceRun.Trigger) -> SourceRun:
    """Queue a synchronisation: the source's address, and every page that it knows. Raises `Conflict` (run_open)."""
    locked = Source.objects.select_for_update().select_related("base").get(pk=source.pk)
    if locked.runs.filter(status__in=SourceRun.OPEN).exists():
        raise Conflict("This source is being synchronised already.", code="run_open")
    last = locked.runs.order_by("-number").values_list("number", flat=True).first() or 0
    run = SourceRun.objects.create(
        source=locked,
        number=last + 1,
        trigger=trigger,
        asked_by_id=principal.user_id if principal else None,
        counts=dict.fromkeys(OUTCOMES, 0),
    )
    is_map = locked.kind == Source.Kind.SITEMAP
    SourcePage.objects.get_or_create(
        source=locked, url_key=key_of(locked.url), defaults={"url": locked.url, "is_map": is_map}
    )
    known = locked.pages.filter(
        Q(url_key=key_of(locked.url)) | Q(document__isnull=False) | Q(is_map=False, state="kept")
    )
    known.update(queued_run=run.number, tries=0, not_before=None)
    Source.objects.filter(pk=locked.pk).update(next_run_at=next_time(locked.schedule))
    audit.record(
        principal,
        "source.sync",
        locked,
        workspace_id=locked.base.workspace_id,
        base_ids=[locked.base_id],
        run=run.number,
        trigger=str(trigger),
    )
    _announce(run)
    wake()
    return run


def wake() -> None:
    """Send a wake-up on commit; a lost one does no harm: the sweeper sends another."""
    from knowledge.tasks import send_source_wake_up

    transaction.on_commit(send_source_wake_up, robust=True)


@transaction.atomic
def claim(worker: str, run_id: int | None = None) -> RunClaim | None:
    """Take the run that has waited longest and may go on (or the named one); None when there is nothing to do."""
    now = timezone.now()
    free = SourceRun.objects.filter(status__in=SourceRun.OPEN, claimed_by="")
    if run_id is not None:
        free = free.filter(pk=run_id)
    else:
        free = free.filter(Q(not_before__isnull=True) | Q(not_before__lte=now))
    row = free.select_for_update(skip_locked=True).order_by(F("not_before").asc(nulls_first=True), "queued_at").first()
    if row is None:
        return None
    row.claim_no += 1
    row.claimed_by, row.heartbeat_at, row.not_before = worker, now, None
    row.started_at = row.started_at or now
    row.status = Status.RUNNING
    row.save(update_fields=["claim_no", "claimed_by", "heartbeat_at", "not_before", "started_at", "status"])
    return RunClaim(row.pk, row.claim_no)


def lock(claim: RunClaim) -> SourceRun:
    """The claimed row, locked until the transaction ends. Raises `Conflict` (claim_lost) and `RunCancelled`."""
    row = (
        SourceRun.objects.select_for_update(of=("self",))
        .select_related("source", "source__base")
        .filter(pk=claim.run_id, claim_no=claim.number, status=Status.RUNNING)
        .exclude(claimed_by="")
        .first()
    )
    if row is None:
        raise Conflict("Another worker took this over.", code="claim_lost")
    if row.cancel_requested:
        raise RunCancelled("Cancelled.")
    return row


def count(run: SourceRun, page: SourcePage, outcome: str, error: ArchwayError | None, size: int = 0) -> None:
    """Add the end of one visit to a locked run; this is the heartbeat."""
    run.counts = {**run.counts, outcome: run.counts.get(outcome, 0) + 1}
    if error is not None and len(run.problems) < MOST_PROBLEMS:
        run.problems = [*run.problems, problem(page.url, error)]
    run.size += size
    run.heartbeat_at = timezone.now()
    run.save(update_fields=["counts", "problems", "size", "heartbeat_at"])
    _announce(run)


def problem(url: str, error: ArchwayError) -> dict[str, Any]:
    """A page and why it came to nothing, as it is stored."""
    params = {key: str(value) for key, value in error.params.items()}
    return dict(json_safe({"url": url, "code": error.code, "message": error.message, "params": params}))


@transaction.atomic
def set_aside(claim: RunClaim, seconds: float = 0.0) -> None:
    """End a slice; the run goes on after `seconds`."""
    row = lock(claim)
    row.claimed_by = ""
    row.not_before = timezone.now() + timedelta(seconds=seconds) if seconds else None
    row.save(update_fields=["claimed_by", "not_before"])


@transaction.atomic
def end(claim: RunClaim, status: SourceRun.Status, error: ArchwayError | None = None) -> None:
    """End a run; a failed one is told to whoever made the source."""
    row = SourceRun.objects.select_for_update().filter(pk=claim.run_id, claim_no=claim.number).first()
    if row is None or row.status not in SourceRun.OPEN:
        raise Conflict("Another worker took this over.", code="claim_lost")
    _end_row(row, status, error)


def _end_row(row: SourceRun, status: SourceRun.Status, error: ArchwayError | None) -> None:
    source = Source.objects.select_related("base").get(pk=row.source_id)
    row.status, row.claimed_by, row.cancel_requested, row.ended_at = status, "", False, timezone.now()
    if error is not None:
        row.error_code, row.error_message = error.code[:40], error.message
        row.error_params = json_safe({key: str(value) for key, value in error.params.items()})
    row.save()
    audit.record(
        None,
        f"source.{status}",
        source,
        workspace_id=source.base.workspace_id,
        base_ids=[source.base_id],
        run=row.number,
        counts=row.counts,
        code=row.error_code,
    )
    if status == Status.FAILED:
        notify.tell(
            _people_of(source),
            "source.failed",
            workspace_id=source.base.workspace_id,
            base_ids=[source.base_id],
            link=f"/bases/{source.base.uid}/sources/{source.uid}/",
            source=source.name,
            reason=row.error_message,
            reason_params=row.error_params,
        )
    _announce(row)


def _people_of(source: Source) -> Iterable[User]:
    """Who made it; when they are gone, the people who manage the base."""
    maker = User.objects.filter(pk=source.created_by_id or 0, is_active=True)
    if maker.exists():
        return maker
    owners = Grant.objects.filter(base_id=source.base_id, role=Role.OWNER, user__isnull=False).values("user_id")
    return User.objects.filter(pk__in=owners, is_active=True)


@transaction.atomic
def cancel(principal: Principal, source: Source) -> None:
    """Stop the open run of a source: at once when nobody is at it, else at its next page."""
    row = SourceRun.objects.select_for_update().filter(source=source, status__in=SourceRun.OPEN).first()
    if row is None:
        raise Conflict("There is nothing to cancel: the work has ended.", code="not_cancellable")
    audit.record(principal, "source.cancel", source, base_ids=[source.base_id], run=row.number)
    if row.claimed_by:
        row.cancel_requested = True
        row.save(update_fields=["cancel_requested"])
        _announce(row)
    else:
        _end_row(row, Status.CANCELLED, None)


def somebody_waits() -> bool:
    """Whether a run that no worker holds may go on now."""
    due = Q(not_before__isnull=True) | Q(not_before__lte=timezone.now())
    return SourceRun.objects.filter(due, status__in=SourceRun.OPEN, claimed_by="").exists()


def seconds_to_next() -> float | None:
    """How long until a run that waits may go on; None when none waits."""
    row = SourceRun.objects.filter(status__in=SourceRun.OPEN, claimed_by="").order_by("not_before").first()
    if row is None:
        return None
    return max(0.0, (row.not_before - timezone.now()).total_seconds()) if row.not_before else 0.0


def sweep() -> int:
    """Queue what is due, take claims back from workers without a sign of life, wake workers. One at a time."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_DUE_LOCK])
            if not cursor.fetchone()[0]:
                return 0
        changed = _take_back() + _start_due()
        if changed or somebody_waits():
            wake()
    return changed


def forget_ended(limit: int = 500) -> int:
    """Take synchronisations that ended long ago out of their lists, each source's last one never; returns how many."""
    before = timezone.now() - timedelta(days=settings.ARCHWAY["HISTORY_DAYS"])
    last = SourceRun.objects.filter(source=OuterRef("source")).order_by("-number").values("pk")[:1]
    old = SourceRun.objects.exclude(status__in=SourceRun.OPEN).filter(ended_at__lt=before).exclude(pk=Subquery(last))
    return SourceRun.objects.filter(pk__in=list(old.values_list("pk", flat=True)[:limit])).delete()[0]


def _take_back() -> int:
    limit = timezone.now() - timedelta(seconds=settings.ARCHWAY["CLAIM_TTL"])
    stale = SourceRun.objects.select_for_update(skip_locked=True).filter(status=Status.RUNNING, heartbeat_at__lt=limit)
    taken = 0
    for row in stale.exclude(claimed_by=""):
        row.claim_no += 1
        row.attempts += 1
        row.claimed_by = ""
        row.save(update_fields=["claim_no", "attempts", "claimed_by"])
        if row.cancel_requested:
            _end_row(row, Status.CANCELLED, None)
        elif row.attempts >= settings.ARCHWAY["MAX_ATTEMPTS"]:
            lost = Unavailable("The worker stopped answering while it was at work on this.", code="worker_timeout")
            _end_row(row, Status.FAILED, lost)
        taken += 1
    return taken


def _start_due() -> int:
    due = Source.objects.select_related("base").filter(next_run_at__lte=timezone.now(), base__deleted_at__isnull=True)
    started = 0
    for source in due[:100]:
        try:
            with transaction.atomic():
                start(None, source, SourceRun.Trigger.SCHEDULE)
            started += 1
        except Conflict:  # it is still at the last one: the next turn comes
            Source.objects.filter(pk=source.pk).update(next_run_at=next_time(source.schedule))
    return started


def _announce(run: SourceRun) -> None:
    source = run.source
    events.publish(
        f"base:{source.base.uid}",
        {"type": "source.progress", "source": source.uid, "run": run.number, "state": run.status, "counts": run.counts},
    )
