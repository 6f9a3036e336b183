"""The account book and the quotas in the admin."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action, display

from portal.gateway import quotas, verbs
from portal.gateway.models import Quota, UsageDay, UsageRecord
from portal.gateway.usage.export import csv_lines
from portal.kernel.admin_door import ScopedAdmin, asker, is_operator, register
from portal.kernel.errors import Invalid
from portal.kernel.models import Department, User


def _download(name: str, lines: Iterator[str]) -> StreamingHttpResponse:
    response = StreamingHttpResponse(lines, content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}-{timezone.localdate():%Y-%m-%d}.csv"'
    return response


@register(UsageRecord)
class UsageRecordAdmin(ScopedAdmin):
    """Every call of a model. Read only: the gateway writes it."""

    list_display = ["at", "user", "purpose", "model_name", "tokens_in", "tokens_out", "cost", "milliseconds", "ended"]
    list_filter = ["outcome", "kind", "purpose"]
    search_fields = ["=uid", "model_name", "code"]
    list_select_related = ["user"]
    ordering = ["-id"]
    fields = [
        "uid", "at", "workspace", "user", "department", "key", "door", "purpose", "agent", "run", "endpoint", "kind",
        "model_name", "tokens_in", "tokens_cached", "tokens_out", "estimated", "cost", "milliseconds",
        "first_token_ms", "outcome", "code", "attempts",
    ]  # fmt: skip
    readonly_fields = ["uid"]
    actions = ["export"]

    @display(
        description=_("outcome"),
        label={"ok": "success", "cached": "success", "cancelled": "info", "refused": "warning"},
    )
    def ended(self, row: UsageRecord) -> tuple[str, str]:
        words = row.get_outcome_display()
        return (row.outcome, f"{words} · {row.code}" if row.code else words)

    @action(description=_("Export as CSV"))
    def export(self, request: HttpRequest, rows: QuerySet[Any]) -> StreamingHttpResponse:
        return _download("model-calls", csv_lines(rows.order_by("id")))


@register(UsageDay)
class UsageDayAdmin(ScopedAdmin):
    """Sums by day, kept for good."""

    list_display = [
        "day", "user", "department", "endpoint", "purpose", "calls", "failures", "tokens_in", "tokens_out", "cost",
    ]  # fmt: skip
    list_filter = ["day", "kind", "purpose"]
    list_select_related = ["user", "department", "endpoint"]
    fields = [
        "day", "workspace", "user", "department", "key", "endpoint", "kind", "purpose", "calls", "failures",
        "tokens_in", "tokens_cached", "tokens_out", "cost", "milliseconds",
    ]  # fmt: skip
    actions = ["export"]

    @action(description=_("Export as CSV"))
    def export(self, request: HttpRequest, rows: QuerySet[Any]) -> StreamingHttpResponse:
        return _download("usage-by-day", csv_lines(rows.order_by("day", "id")))


@register(Quota)
class QuotaAdmin(ScopedAdmin):
    """Limits of tokens or money a day or month."""

    list_display = ["__str__", "whom", "limit", "unit", "period", "spent", "enabled"]
    list_filter = ["subject", "unit", "period", "enabled"]
    list_select_related = ["department", "user", "key"]
    fields = [
        "workspace", "subject", "department", "user", "key", "unit", "period", "limit", "warn_percent", "enabled",
    ]  # fmt: skip
    changeable = ("limit", "warn_percent", "enabled")
    addable = True
    actions = ["delete_chosen"]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fields if is_operator(request) else self.fields[1:]

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        principal = asker(request)
        if not is_operator(request):
            place = principal.workspace_id if principal else 0
            narrowed: dict[str, QuerySet[Any]] = {
                "department": Department.objects.filter(workspace_id=place),
                "user": User.objects.filter(memberships__workspace_id=place),
            }
            rows = narrowed.get(db_field.name, db_field.related_model.objects.none())
            if db_field.name == "key":
                rows = db_field.related_model.objects.filter(workspace_id=place, revoked_at__isnull=True)
            kwargs["queryset"] = rows
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def apply(self, request: HttpRequest, row: Any, changes: dict[str, Any]) -> None:
        principal = asker(request)
        if not is_operator(request) and principal is not None:
            row.workspace_id = principal.workspace_id
        if row.workspace_id is None:
            raise Invalid("Name exactly the department, person or key that this quota is for.", code="quota_invalid")
        verbs.save_quota(principal, row)

    @display(description=_("for"))
    def whom(self, row: Quota) -> str:
        return str(row.department or row.user or row.key or row.get_subject_display())

    @display(description=_("used"), label={"ok": "success", "warn": "warning", "over": "danger"})
    def spent(self, row: Quota) -> tuple[str, str]:
        amount = quotas.used(row)
        share = 100 * amount / row.limit
        tone = "over" if share >= 100 else "warn" if share >= row.warn_percent else "ok"
        unit = settings.ARCHWAY["CURRENCY"] if row.unit == Quota.Unit.MONEY else ""
        return (tone, f"{amount.normalize() if amount else Decimal(0):f} {unit} ({share:.0f} %)".replace("  ", " "))

    @action(description=_("Delete the chosen quotas"))
    def delete_chosen(self, request: HttpRequest, rows: QuerySet[Quota]) -> None:
        for row in rows:
            verbs.delete_quota(asker(request), row)


def recent_days(request: HttpRequest, days: int) -> QuerySet[UsageDay]:
    """The sums of the last days that this person may see."""
    rows = UsageDay.objects.filter(day__gt=timezone.localdate() - timedelta(days=days))
    principal = asker(request)
    return rows if is_operator(request) else rows.filter(workspace_id=principal.workspace_id if principal else 0)
