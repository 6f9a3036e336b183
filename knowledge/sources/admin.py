"""Web sources, their runs and pages, and uploads under way, in the admin."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import RelatedOnlyFieldListFilter
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import RangeDateTimeFilter
from unfold.decorators import action, display

from knowledge.admin_scope import KnowledgeAdmin
from knowledge.models import Origin, Source, SourcePage, SourceRun, Upload
from knowledge.sources import runs, verbs
from portal.kernel.admin_door import asker, register
from portal.kernel.errors import sentence_of
from portal.kernel.principal import Principal

RUN_TONES = {"queued": "info", "running": "info", "done": "success", "failed": "danger", "cancelled": "default"}
PAGE_TONES = {"waiting": "info", "kept": "success", "gone": "warning", "failed": "danger", "skipped": "default"}


def _sync(principal: Principal, source: Source) -> object:
    return runs.start(principal, source, SourceRun.Trigger.PERSON)


@register(Source)
class SourceAdmin(KnowledgeAdmin):
    """Addresses of the web whose pages are documents."""

    list_display = ["name", "base", "kind", "schedule", "next_run_at", "last_state", "created_by"]
    list_filter = ["kind", "schedule", ("base", RelatedOnlyFieldListFilter), ("created_at", RangeDateTimeFilter)]
    search_fields = ["name", "url", "uid"]
    list_select_related = ["base", "created_by"]
    changeable = ("name", "folder", "schedule", "gone", "main_only", "depth", "page_limit", "limit_mb")
    actions = ["sync", "cancel", "forget"]

    def apply(self, request: HttpRequest, row: Any, changes: dict[str, Any]) -> None:
        principal = asker(request)
        if principal is not None and changes:
            verbs.change(principal, row, **changes)

    @display(description=_("last run"), label=RUN_TONES)
    def last_state(self, row: Source) -> tuple[str, str]:
        run = row.runs.order_by("-number").first()
        return (run.status, run.get_status_display()) if run else ("cancelled", "—")

    @action(description=_("Synchronise now"))
    def sync(self, request: HttpRequest, rows: QuerySet[Source]) -> None:
        self.each(request, rows.select_related("base"), _sync, _("%(count)s queued."))  # type: ignore[arg-type]

    @action(description=_("Cancel"))
    def cancel(self, request: HttpRequest, rows: QuerySet[Source]) -> None:
        self.each(request, rows.select_related("base"), runs.cancel, _("%(count)s cancelled."))  # type: ignore[arg-type]

    @action(description=_("Delete; documents stay"))
    def forget(self, request: HttpRequest, rows: QuerySet[Source]) -> None:
        self.each(request, rows.select_related("base"), verbs.delete, _("%(count)s deleted."))  # type: ignore[arg-type]


@register(SourceRun)
class SourceRunAdmin(KnowledgeAdmin):
    """Synchronisations: what came of them and why they ended."""

    base_path = "source__base_id"
    list_display = ["source", "number", "state", "trigger", "counts", "reason", "queued_at", "ended_at"]
    list_filter = ["status", "trigger", "error_code", ("queued_at", RangeDateTimeFilter)]
    search_fields = ["source__name", "error_code", "uid"]
    list_select_related = ["source"]

    @display(description=_("state"), label=RUN_TONES)
    def state(self, row: SourceRun) -> tuple[str, str]:
        return row.status, row.get_status_display()

    @display(description=_("reason"))
    def reason(self, row: SourceRun) -> str:
        return sentence_of(row.error_message, row.error_params)


@register(SourcePage)
class SourcePageAdmin(KnowledgeAdmin):
    """Pages of sources, and what is known of each."""

    base_path = "source__base_id"
    list_display = ["url", "source", "state_badge", "http_status", "reason", "fetched_at"]
    list_filter = ["state", "error_code", ("source", RelatedOnlyFieldListFilter), ("fetched_at", RangeDateTimeFilter)]
    search_fields = ["url", "title"]
    list_select_related = ["source"]

    @display(description=_("state"), label=PAGE_TONES)
    def state_badge(self, row: SourcePage) -> tuple[str, str]:
        return row.state, row.get_state_display()

    @display(description=_("reason"))
    def reason(self, row: SourcePage) -> str:
        return sentence_of(row.error_message, row.error_params)


@register(Origin)
class OriginAdmin(KnowledgeAdmin):
    """The addresses that documents were fetched from."""

    base_path = "document__base_id"
    list_display = ["document", "url"]
    search_fields = ["url", "document__name"]
    list_select_related = ["document"]


@register(Upload)
class UploadAdmin(KnowledgeAdmin):
    """Uploads in pieces that are under way or have ended lately."""

    list_display = ["path", "base", "created_by", "length", "offset", "state", "expires_at"]
    list_filter = ["state", ("base", RelatedOnlyFieldListFilter), ("created_at", RangeDateTimeFilter)]
    search_fields = ["path", "uid"]
    list_select_related = ["base", "created_by"]
