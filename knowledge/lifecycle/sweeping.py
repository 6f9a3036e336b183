"""What workers left behind: claims without a sign of life, and work that nobody was woken for."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone

from knowledge.lifecycle.announcing import wake
from knowledge.lifecycle.states import OPEN, RUNNING, WorkerTimeout
from knowledge.lifecycle.work import cancel_row, fail_row
from knowledge.models import Attempt, Revision

_SWEEP_LOCK = 0x5EEE


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
                cancel_row(row)
            else:
                retry = row.tries < settings.ARCHWAY["MAX_ATTEMPTS"]
                fail_row(row, error, Attempt.Outcome.LOST, retry=retry)
            count += 1
        if somebody_waits():
            wake()
    return count


def somebody_waits() -> bool:
    """Whether there is open work that no worker holds and that may start now."""
    due = Q(not_before__isnull=True) | Q(not_before__lte=timezone.now())
    return Revision.objects.filter(due, status__in=OPEN, claimed_by="").exists()
