"""Bases, grants, documents and the work on them in the admin; rows come from `knowledge.access`, changes from verbs."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import RelatedOnlyFieldListFilter
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import RangeDateTimeFilter
from unfold.decorators import action, display

from knowledge import bases, lifecycle
from knowledge.access import closed_bases
from knowledge.admin_scope import KnowledgeAdmin
from knowledge.batches.admin import TONES, ArchiveAdmin, BatchAdmin, BatchItemAdmin, DocumentAdmin, TagAdmin
from knowledge.models import (
    Attempt,
    BaseTerm,
    Chunk,
    ChunkVector,
    ChunkVersion,
    Grant,
    KnowledgeBase,
    QueryRecord,
    Revision,
    RevisionTerms,
    StoredImage,
)
from knowledge.quality import admin as quality_admin  # noqa: F401  (registers itself)
from knowledge.sources.admin import OriginAdmin, SourceAdmin, SourcePageAdmin, SourceRunAdmin, UploadAdmin
from knowledge.terms import admin as terms_admin  # noqa: F401  (registers itself)
from portal.kernel.admin_door import ScopedAdmin, asker, register
from portal.kernel.errors import sentence_of
from portal.kernel.models import AuditEntry

__all__ = [
    "ArchiveAdmin", "BatchAdmin", "BatchItemAdmin", "DocumentAdmin", "OriginAdmin", "SourceAdmin", "SourcePageAdmin",
    "SourceRunAdmin", "TagAdmin", "UploadAdmin",
]  # fmt: skip


@register(KnowledgeBase)
class KnowledgeBaseAdmin(KnowledgeAdmin):
    """Knowledge bases."""

    base_path = "id"
    list_display = ["name", "workspace", "closed", "created_by", "created_at"]
    list_filter = ["sensitive", ("created_at", RangeDateTimeFilter)]
    search_fields = ["name", "description", "uid"]
    fields = [
        "name",
        "description",
        "sensitive",
        "workspace",
        "embedding",
        "config",
        "stamp",
        "created_by",
        "created_at",
    ]
    changeable = ("name", "description", "sensitive")
    actions = ["delete_chosen"]

    def apply(self, request: HttpRequest, row: Any, changes: dict[str, Any]) -> None:
        principal = asker(request)
        if principal is not None and changes:
            bases.describe(principal, row, **changes)

    @display(description=_("sensitive"), boolean=True)
    def closed(self, row: KnowledgeBase) -> bool:
        return row.sensitive

    @action(description=_("Delete with all documents"))
    def delete_chosen(self, request: HttpRequest, rows: QuerySet[KnowledgeBase]) -> None:
        self.each(request, rows, bases.delete, _("%(count)s deleted."))  # type: ignore[arg-type]


@register(AuditEntry)
class AuditEntryAdmin(ScopedAdmin):
    """The audit log: read only, sealed. What happened in a closed base is told without its words."""

    list_display = ["at", "actor", "action", "object_type", "object_id", "door", "sealed"]
    list_filter = ["door", "object_type", ("at", RangeDateTimeFilter)]
    search_fields = ["action", "object_id"]
    list_select_related = ["actor"]
    fields = ["at", "workspace", "actor", "door", "action", "object_type", "object_id", "detail"]

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        row = super().get_object(request, object_id, from_field)
        if row is not None and not self._open(request, row):
            row.detail = {}
        return row

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        return not lookup.startswith("detail") and super().lookup_allowed(lookup, value, request)

    def _open(self, request: HttpRequest, row: AuditEntry) -> bool:
        principal = asker(request)
        if principal is not None and row.workspace_id == principal.workspace_id:
            return not closed_bases(principal).filter(id__in=row.base_ids).exists()
        return not KnowledgeBase.objects.filter(id__in=row.base_ids, sensitive=True).exists()

    @display(description=_("sealed"), boolean=True)
    def sealed(self, row: AuditEntry) -> bool:
        return bool(row.seal)


@register(Grant)
class GrantAdmin(KnowledgeAdmin):
    """Who was granted what."""

    list_display = ["base", "user", "department", "channel", "role_badge", "expires_at", "created_by"]
    list_filter = ["role", ("base", RelatedOnlyFieldListFilter)]
    search_fields = ["base__name", "user__username", "department__name"]
    list_select_related = ["base", "user", "department", "created_by"]
    actions = ["revoke"]

    @display(description=_("role"), label={"owner": "warning", "editor": "info", "viewer": "default"})
    def role_badge(self, row: Grant) -> tuple[str, str]:
        return row.role, row.get_role_display()

    @action(description=_("Revoke"))
    def revoke(self, request: HttpRequest, rows: QuerySet[Grant]) -> None:
        chosen = rows.select_related("base", "user", "department")
        self.each(request, chosen, lambda who, row: bases.revoke(who, row.base, row), _("%(count)s revoked."))  # type: ignore[arg-type]


@register(Revision)
class RevisionAdmin(KnowledgeAdmin):
    """The work on documents: states, reasons, attempts. States move by verbs only."""

    list_display = ["document", "number", "state", "reason", "attempts", "queued_at", "finished_at", "chunk_count"]
    list_filter = ["status", ("base", RelatedOnlyFieldListFilter), "error_code", ("queued_at", RangeDateTimeFilter)]
    search_fields = ["document__name", "file_name", "uid", "error_code"]
    list_select_related = ["document", "base"]
    exclude = ["file"]
    actions = ["retry", "cancel", "confirm"]

    @display(description=_("state"), label=TONES)
    def state(self, row: Revision) -> tuple[str, str]:
        return row.status, row.get_status_display()

    @display(description=_("reason"))
    def reason(self, row: Revision) -> str:
        return sentence_of(row.error_message, row.error_params)

    @action(description=_("Retry"))
    def retry(self, request: HttpRequest, rows: QuerySet[Revision]) -> None:
        self.each(request, rows, lifecycle.retry, _("%(count)s queued again."))  # type: ignore[arg-type]

    @action(description=_("Cancel"))
    def cancel(self, request: HttpRequest, rows: QuerySet[Revision]) -> None:
        self.each(request, rows, lifecycle.cancel, _("%(count)s cancelled."))  # type: ignore[arg-type]

    @action(description=_("Approve and index"))
    def confirm(self, request: HttpRequest, rows: QuerySet[Revision]) -> None:
        self.each(request, rows, lifecycle.confirm, _("%(count)s approved."))  # type: ignore[arg-type]


@register(Attempt)
class AttemptAdmin(KnowledgeAdmin):
    """Task history: who worked on what, when, how long, how it ended."""

    base_path = "revision__base_id"
    list_display = ["revision", "number", "worker", "started_at", "ended_at", "slices", "outcome", "code"]
    list_filter = ["outcome", "code", ("started_at", RangeDateTimeFilter)]
    search_fields = ["revision__document__name", "code"]
    list_select_related = ["revision", "revision__document"]


@register(Chunk)
class ChunkAdmin(KnowledgeAdmin):
    """Passages and leaves."""

    base_path = "revision__base_id"
    list_display = ["revision", "level", "ordinal", "excerpt", "page", "token_count", "enabled"]
    list_filter = ["level", "enabled"]
    search_fields = ["revision__document__name"]
    list_select_related = ["revision", "revision__document"]
    exclude = ["lexemes"]

    @display(description=_("text"))
    def excerpt(self, row: Chunk) -> str:
        return row.text[:80]


@register(ChunkVersion)
class ChunkVersionAdmin(KnowledgeAdmin):
    """Earlier texts of edited chunks."""

    base_path = "chunk__revision__base_id"
    list_display = ["chunk", "number", "verb", "edited_by", "at"]
    list_filter = ["verb", ("at", RangeDateTimeFilter)]
    list_select_related = ["chunk", "edited_by"]


@register(ChunkVector)
class ChunkVectorAdmin(KnowledgeAdmin):
    """Which leaf has a vector in which space."""

    base_path = "revision__base_id"
    list_display = ["chunk_id", "revision", "space"]
    list_select_related = ["revision", "revision__document", "space"]
    fields = ["chunk", "revision", "space"]


@register(StoredImage)
class StoredImageAdmin(KnowledgeAdmin):
    """Pictures inside documents."""

    base_path = "revision__base_id"
    list_display = ["revision", "mime", "alt"]
    list_select_related = ["revision", "revision__document"]
    exclude = ["file"]


@register(QueryRecord)
class QueryRecordAdmin(ScopedAdmin):
    """How often and how fast people are answered. The words of a question belong to its asker."""

    list_display = ["at", "kind", "user", "hits", "milliseconds", "helpful"]
    list_filter = ["kind", "helpful", ("at", RangeDateTimeFilter)]
    list_select_related = ["user"]
    fields = ["at", "kind", "user", "hits", "milliseconds", "helpful"]


@register(BaseTerm)
class BaseTermAdmin(KnowledgeAdmin):
    """How many leaves of a base hold a word."""

    list_display = ["base", "lexeme", "chunks"]
    search_fields = ["lexeme"]
    list_select_related = ["base"]


@register(RevisionTerms)
class RevisionTermsAdmin(KnowledgeAdmin):
    """Term statistics that were not folded yet."""

    list_display = ["base", "revision_id", "sign", "chunks", "at"]
    fields = ["base", "revision_id", "sign", "chunks", "words", "at"]
    list_select_related = ["base"]
