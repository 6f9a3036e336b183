"""The numbers of the admin's first page. Each opens the list that it counts."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.db.models import Avg, Count, Q, QuerySet, Sum
from django.db.models.functions import TruncDate
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from knowledge import lifecycle
from knowledge.admin_scope import seen_bases
from knowledge.models import QueryRecord, Revision
from portal.gateway.reuse import metrics
from portal.gateway.reuse.store import switched_on
from portal.gateway.usage.admin import recent_days
from portal.kernel.admin_door import asker, is_operator
from portal.kernel.models import AuditEntry, Credential
from portal.kernel.secrets import watch

DAYS = 14
SLOW_SECONDS = 120
# Unfold hides axes and legend; numbers without them say nothing.
CHART = {
    "maintainAspectRatio": False,
    "plugins": {"legend": {"display": True, "position": "bottom"}, "tooltip": {"enabled": True}},
    "scales": {
        "x": {"grid": {"display": False}},
        "y": {"beginAtZero": True, "ticks": {"display": True, "precision": 0}, "grid": {"display": True}},
    },
}


def numbers(request: HttpRequest) -> dict[str, Any]:
    """Context of `admin/index.html`."""
    now = timezone.now()
    work = Revision.objects.filter(base__in=seen_bases(request), document__deleted_at__isnull=True)
    stuck = work.filter(status__in=lifecycle.RUNNING, heartbeat_at__lt=now - lifecycle.stuck_after())
    slow = work.filter(status__in=lifecycle.OPEN, started_at__lt=now - timedelta(seconds=SLOW_SECONDS))
    questions, times = _questions(request, now)
    tokens, money = _models(request)
    changelist = reverse("admin:knowledge_revision_changelist")
    return {
        "as_of": now,
        "cards": [
            _card(_("Failed"), work.filter(status="failed").count(), f"{changelist}?status__exact=failed", "bad"),
            _card(_("Stuck"), stuck.count(), f"{changelist}?status__exact=vectorizing", "bad"),
            _card(_("Slow"), slow.count(), f"{changelist}?o=6", "warn"),
            _card(_("Queued"), work.filter(status="pending").count(), f"{changelist}?status__exact=pending", "info"),
            _card(
                _("Needs review"), work.filter(status="review").count(), f"{changelist}?status__exact=review", "warn"
            ),
            *_secrets(request, now),
            *_hit_rate(request),
        ],
        "longest": _longest(work),
        "ingestion_chart": json.dumps(_ingestion(work, now)),
        "question_chart": json.dumps(questions),
        "time_chart": json.dumps(times),
        "token_chart": json.dumps(tokens),
        "money_chart": json.dumps(money),
        "reuse_chart": json.dumps(_reuse(request)) if switched_on() else "",
        "chart_options": json.dumps(CHART),
    }


def _secrets(request: HttpRequest, now: Any) -> list[dict[str, Any]]:
    """Credentials that can not be opened, expire, are known to strangers, or were used unusually."""
    rows = admin.site._registry[Credential].get_queryset(request)
    attention = rows.filter(watch.needs_attention(now)).count()
    changelist = reverse("admin:kernel_credential_changelist")
    day = AuditEntry.objects.filter(action="credential.alert", at__gte=now - timedelta(days=1))
    if not is_operator(request):
        day = day.filter(object_id__in=[str(pk) for pk in rows.values_list("pk", flat=True)])
    audit_log = reverse("admin:kernel_auditentry_changelist")
    return [
        _card(_("Secrets"), attention, f"{changelist}?attention=1", "bad"),
        _card(_("Alerts"), day.count(), f"{audit_log}?q=credential.alert", "bad"),
    ]


def _card(title: str, count: int, link: str, tone: str) -> dict[str, Any]:
    return {"title": title, "count": count, "link": link, "tone": tone if count else "ok"}


def _longest(work: QuerySet[Revision]) -> list[Revision]:
    """What has been open longest."""
    rows = work.filter(status__in=lifecycle.OPEN).select_related("document", "base")
    return list(rows.order_by("queued_at")[:8])


def _days(now: Any) -> list[Any]:
    return [(now - timedelta(days=back)).date() for back in reversed(range(DAYS))]


def _ingestion(work: QuerySet[Revision], now: Any) -> dict[str, Any]:
    rows = (
        work.filter(finished_at__gte=now - timedelta(days=DAYS))
        .annotate(day=TruncDate("finished_at"))
        .values("day")
        .annotate(indexed=Count("id", filter=Q(status="indexed")), failed=Count("id", filter=Q(status="failed")))
    )
    by_day: dict[Any, dict[str, Any]] = {row["day"]: dict(row) for row in rows}
    days = _days(now)
    return {
        "labels": [day.strftime("%m-%d") for day in days],
        "datasets": [
            _series(_("Indexed"), [by_day.get(day, {}).get("indexed") for day in days], "#1F5FD1"),
            _series(_("Failed"), [by_day.get(day, {}).get("failed") for day in days], "#B3261E"),
        ],
    }


def _questions(request: HttpRequest, now: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """(how many questions, how long answers took on average), each by day."""
    records = QueryRecord.objects.filter(at__gte=now - timedelta(days=DAYS))
    principal = asker(request)
    if not is_operator(request):
        records = records.filter(workspace_id=principal.workspace_id if principal else 0)
    rows = records.annotate(day=TruncDate("at")).values("day").annotate(count=Count("id"), average=Avg("milliseconds"))
    by_day: dict[Any, dict[str, Any]] = {row["day"]: dict(row) for row in rows}
    days = _days(now)
    labels = [day.strftime("%m-%d") for day in days]
    counts = [by_day.get(day, {}).get("count") for day in days]
    times = [round(by_day.get(day, {}).get("average") or 0) or None for day in days]
    return (
        {"labels": labels, "datasets": [_series(_("Questions"), counts, "#12693F")]},
        {"labels": labels, "datasets": [_series(_("Mean ms"), times, "#7A3EA8")]},
    )


def _models(request: HttpRequest) -> tuple[dict[str, Any], dict[str, Any]]:
    """(tokens in and out, cost and calls that failed), each by day of TIME_ZONE; sums are a few minutes old."""
    rows = (
        recent_days(request, DAYS)
        .order_by()
        .values("day")
        .annotate(read=Sum("tokens_in"), written=Sum("tokens_out"), money=Sum("cost"))
    )
    by_day: dict[Any, dict[str, Any]] = {row["day"]: dict(row) for row in rows}
    days = _days(timezone.localtime())
    labels = [day.strftime("%m-%d") for day in days]
    costs = [float(by_day[day]["money"]) if day in by_day else None for day in days]
    return (
        {
            "labels": labels,
            "datasets": [
                _series(_("Tokens in"), [by_day.get(day, {}).get("read") for day in days], "#1F5FD1"),
                _series(_("Tokens out"), [by_day.get(day, {}).get("written") for day in days], "#12693F"),
            ],
        },
        {"labels": labels, "datasets": [_series(settings.ARCHWAY["CURRENCY"], costs, "#8A5A00")]},
    )


def _looked_up(request: HttpRequest) -> dict[Any, dict[str, int]]:
    principal = asker(request)
    workspace = None if is_operator(request) else principal.workspace_id if principal else 0
    return metrics.by_day(_days(timezone.localtime()), workspace)


def _reuse(request: HttpRequest) -> dict[str, Any]:
    """Questions that were looked up among kept answers, by day of TIME_ZONE and by what came of it."""
    by_day = _looked_up(request)
    days = _days(timezone.localtime())
    kinds = (
        ("hit", _("Hits"), "#12693F"),
        ("miss", _("Misses"), "#1F5FD1"),
        ("refused", _("Too different"), "#8A5A00"),
    )
    rows = [*kinds, ("away", _("Store away"), "#B3261E")]
    return {
        "labels": [day.strftime("%m-%d") for day in days],
        "datasets": [
            _series(title, [by_day.get(day, {}).get(kind) for day in days], colour) for kind, title, colour in rows
        ],
    }


def _hit_rate(request: HttpRequest) -> list[dict[str, Any]]:
    """The share of looked-up questions whose answer was used again, in percent; where answers are kept."""
    if not switched_on():
        return []
    days = _looked_up(request).values()
    looked = sum(sum(counts.values()) for counts in days)
    hits = sum(counts["hit"] for counts in days)
    records = reverse("admin:gateway_usagerecord_changelist")
    share = round(100 * hits / looked) if looked else 0
    return [_card(_("Cache hits (%)"), share, f"{records}?outcome__exact=cached", "ok")]


def _series(label: str, data: list[Any], colour: str) -> dict[str, Any]:
    return {"label": label, "data": data, "backgroundColor": colour, "borderColor": colour, "maxBarThickness": 24}
