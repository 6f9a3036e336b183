"""The account book by day, what is too old in it, and the calls whose process was killed."""

from __future__ import annotations

import json
import logging
from datetime import date, datetime, time, timedelta

from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count, Q, Sum
from django.utils import timezone

from portal.gateway import accounting, quotas
from portal.gateway.models import UsageDay, UsageRecord
from portal.gateway.quotas import Need, Reservation

logger = logging.getLogger(__name__)

_LOCK = 0x0A5C_0B00
_GROUP = ("workspace", "user", "department", "key", "endpoint", "kind", "purpose")
DAYS_ANEW = 3
_NO_FAILURES = [UsageRecord.Outcome.OK, UsageRecord.Outcome.CACHED, UsageRecord.Outcome.CANCELLED]


def roll_up(days: int = DAYS_ANEW) -> int:
    """Sum up the last `days` days anew, today among them; returns how many rows. One at a time, others return 0."""
    today = timezone.localdate()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_LOCK])
        if not cursor.fetchone()[0]:
            return 0
        return sum(_sum_day(today - timedelta(days=back)) for back in range(days))


def _sum_day(day: date) -> int:
    start, end = _bounds(day)
    rows = (
        UsageRecord.objects.filter(at__gte=start, at__lt=end)
        .order_by()
        .values(*_GROUP)
        .annotate(
            calls=Count("id"),
            failures=Count("id", filter=~Q(outcome__in=_NO_FAILURES)),
            sum_in=Sum("tokens_in"),
            sum_out=Sum("tokens_out"),
            sum_cached=Sum("tokens_cached"),
            sum_cost=Sum("cost"),
            sum_ms=Sum("milliseconds"),
        )
    )
    UsageDay.objects.filter(day=day).delete()
    made = UsageDay.objects.bulk_create(
        [
            UsageDay(
                day=day,
                workspace_id=row["workspace"],
                user_id=row["user"],
                department_id=row["department"],
                key_id=row["key"],
                endpoint_id=row["endpoint"],
                kind=row["kind"],
                purpose=row["purpose"],
                calls=row["calls"],
                failures=row["failures"],
                tokens_in=row["sum_in"],
                tokens_out=row["sum_out"],
                tokens_cached=row["sum_cached"],
                cost=row["sum_cost"],
                milliseconds=row["sum_ms"],
            )
            for row in rows
        ],
        batch_size=1000,
    )
    return len(made)


def _bounds(day: date) -> tuple[datetime, datetime]:
    """The day's first moment and the next day's, in TIME_ZONE."""
    zone = timezone.get_current_timezone()
    return datetime.combine(day, time.min, zone), datetime.combine(day + timedelta(days=1), time.min, zone)


def forget_old() -> int:
    """Delete records that are older than ARCHWAY_USAGE_DAYS; their sums stay."""
    oldest = timezone.now() - timedelta(days=max(settings.ARCHWAY["USAGE_DAYS"], DAYS_ANEW + 1))
    old = UsageRecord.objects.filter(at__lt=oldest).order_by("id").values("pk")[:20_000]
    deleted, _ = UsageRecord.objects.filter(pk__in=old).delete()
    return deleted


def record_lost() -> int:
    """Write down the calls whose process was killed; returns how many."""
    lost = async_to_sync(quotas.lost_calls)()
    for name, note in lost.items():
        if note:
            accounting.write_lost(name, json.loads(note))
        async_to_sync(quotas.settle)(Reservation(name), Need(0, accounting.NOTHING))
    return len(lost)
