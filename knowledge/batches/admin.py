"""Documents in the admin, with the batches' verbs as actions; batches, tags, exports and imports.

An action starts a batch for each base of the chosen rows, so that large selections go on in the background and each
document's outcome is told. Verbs that ask something show the pages' own form.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.admin import RelatedOnlyFieldListFilter
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import RangeDateFilter, RangeDateTimeFilter
from unfold.decorators import action, display

from knowledge import background, batches, tags
from knowledge.access import access_base
from knowledge.admin_scope import KnowledgeAdmin, seen_bases
from knowledge.batches import Selection
from knowledge.models import Archive, Batch, BatchItem, Document, KnowledgeBase, Role, Tag
from knowledge.pages.batch_forms import FORMS
from knowledge.pages.batch_pages import ask
from portal.kernel.admin_door import ScopedAdmin, asker, register
from portal.kernel.errors import ArchwayError, sentence_of
from portal.kernel.principal import Principal

TONES = {
    "pending": "info",
    "parsing": "info",
    "segmenting": "info",
    "vectorizing": "info",
    "review": "warning",
    "indexed": "success",
    "no_text": "warning",
    "failed": "danger",
    "cancelled": "default",
}
WORK_TONES = {"queued": "info", "running": "info", "done": "success", "failed": "danger", "cancelled": "default"}


def _action(verb: str) -> Callable[[Any, HttpRequest, QuerySet[Document]], HttpResponse | None]:
    """The admin's action for a verb of the batches' table."""

    def act(admin: Any, request: HttpRequest, rows: QuerySet[Document]) -> HttpResponse | None:
        principal = asker(request)
        if principal is None:
            admin.message_user(request, gettext("Join a workspace first."), messages.ERROR)
            return None
        chosen: dict[KnowledgeBase, list[str]] = defaultdict(list)
        for row in rows.select_related("base"):
            chosen[row.base].append(row.uid)
        try:
            return _run(admin, request, principal, verb, chosen)
        except ArchwayError as error:
            admin.message_user(request, error.sentence(), messages.ERROR)
            return None

    act.__name__ = f"batch_{verb}"
    act.short_description = batches.VERBS[verb].label  # type: ignore[attr-defined]
    return act


def _run(
    admin: Any, request: HttpRequest, principal: Principal, verb: str, chosen: dict[KnowledgeBase, list[str]]
) -> HttpResponse | None:
    if verb in FORMS:
        if len(chosen) != 1:
            admin.message_user(request, gettext("Choose documents of one base for this."), messages.ERROR)
            return None
        (base, uids), *_rest = chosen.items()
        row = access_base(principal, base.uid, Role.EDITOR)
        form = FORMS[verb](principal, row, auto_id=f"{verb}_%s")
        return ask(request, principal, row, verb, Selection(ids=tuple(uids)), form)
    for base, uids in chosen.items():
        row = access_base(principal, base.uid, Role.EDITOR)
        batch = batches.begin(batches.start(principal, row, verb, Selection(ids=tuple(uids))))
        _say(admin, request, batch)
    return None


def _say(admin: Any, request: HttpRequest, batch: Batch) -> None:
    found = batches.outcomes(batch)
    said = gettext("%(verb)s in %(base)s: %(done)s done, %(skipped)s skipped, %(failed)s failed, %(waiting)s waiting")
    values = {"verb": batches.VERBS[batch.verb].label, "base": batch.base.name}
    values |= {name: getattr(found, name) for name in ("done", "skipped", "failed", "waiting")}
    admin.message_user(request, said % values, messages.WARNING if found.failed else messages.SUCCESS)
    for item in batch.items.filter(outcome=BatchItem.Outcome.FAILED)[:5]:
        admin.message_user(request, f"{item.name}: {sentence_of(item.message, item.params)}", messages.ERROR)


@register(Document)
class DocumentAdmin(KnowledgeAdmin):
    """Documents, those of the recycle bin included."""

    list_display = ["name", "base", "state", "enabled", "folder", "owner", "review_date", "updated_at", "deleted_at"]
    list_filter = [
        "enabled",
        ("base", RelatedOnlyFieldListFilter),
        "active_revision__status",
        ("review_date", RangeDateFilter),
        ("updated_at", RangeDateTimeFilter),
    ]
    search_fields = ["name", "folder", "uid"]
    list_select_related = ["base", "active_revision", "owner"]
    actions = [_action(verb) for verb in batches.VERBS]

    def rows(self, request: HttpRequest) -> QuerySet[Any]:
        return Document.objects.filter(base__in=seen_bases(request))

    @display(description=_("state"), label=TONES)
    def state(self, row: Document) -> tuple[str, str]:
        newest = row.revisions.order_by("-number").first()
        return (newest.status, newest.get_status_display()) if newest else ("cancelled", "—")


@register(Batch)
class BatchAdmin(KnowledgeAdmin):
    """What was done to many documents at once."""

    list_display = ["verb_name", "base", "state", "done", "total", "created_by", "created_at", "finished_at"]
    list_filter = ["status", "verb", ("base", RelatedOnlyFieldListFilter), ("created_at", RangeDateTimeFilter)]
    search_fields = ["uid", "base__name"]
    list_select_related = ["base", "created_by"]
    actions = ["cancel_chosen", "undo_chosen"]

    @display(description=_("verb"))
    def verb_name(self, row: Batch) -> str:
        return str(batches.VERBS[row.verb].label)

    @display(description=_("state"), label=WORK_TONES)
    def state(self, row: Batch) -> tuple[str, str]:
        return row.status, row.get_status_display()

    @action(description=_("Cancel"))
    def cancel_chosen(self, request: HttpRequest, rows: QuerySet[Batch]) -> None:
        self.each(request, rows, background.cancel, gettext("%(count)s asked to stop."))

    @action(description=_("Undo"))
    def undo_chosen(self, request: HttpRequest, rows: QuerySet[Batch]) -> None:
        self.each(request, rows, lambda who, row: batches.begin(batches.undo(who, row)), gettext("%(count)s undone."))


@register(BatchItem)
class BatchItemAdmin(KnowledgeAdmin):
    """What became of each document of a batch."""

    base_path = "batch__base_id"
    list_display = ["name", "batch", "outcome_badge", "code", "why"]
    list_filter = ["outcome", "code"]
    search_fields = ["name", "batch__uid"]
    list_select_related = ["batch", "batch__base"]
    exclude = ["before"]

    @display(
        description=_("outcome"),
        label={"done": "success", "failed": "danger", "skipped": "default", "waiting": "info"},
    )
    def outcome_badge(self, row: BatchItem) -> tuple[str, str]:
        return row.outcome, row.get_outcome_display()

    @display(description=_("reason"))
    def why(self, row: BatchItem) -> str:
        return sentence_of(row.message, row.params)


@register(Tag)
class TagAdmin(KnowledgeAdmin):
    """The words of each base."""

    list_display = ["name", "base", "created_by", "created_at"]
    list_filter = [("base", RelatedOnlyFieldListFilter)]
    search_fields = ["name"]
    list_select_related = ["base", "created_by"]
    fields = ["name", "base", "created_by", "created_at"]
    changeable = ("name",)
    actions = ["delete_chosen"]

    def apply(self, request: HttpRequest, row: Any, changes: dict[str, Any]) -> None:
        principal = asker(request)
        if principal is not None and "name" in changes:
            kept = Tag.objects.get(pk=row.pk)
            tags.rename(principal, kept.base, kept, changes["name"])

    @action(description=_("Delete"))
    def delete_chosen(self, request: HttpRequest, rows: QuerySet[Tag]) -> None:
        self.each(
            request,
            rows.select_related("base"),
            lambda who, row: tags.delete(who, row.base, row),
            gettext("%(count)s deleted."),
        )


@register(Archive)
class ArchiveAdmin(ScopedAdmin):
    """Exports of the bases that one manages, and one's own imports."""

    list_display = ["file_name", "kind", "base", "state", "size", "created_by", "created_at", "expires_at"]
    list_filter = ["kind", "status", ("created_at", RangeDateTimeFilter)]
    search_fields = ["file_name", "uid"]
    list_select_related = ["base", "created_by"]
    exclude = ["file", "kept_files"]
    actions = ["cancel_chosen"]

    def rows(self, request: HttpRequest) -> QuerySet[Any]:
        exports = Archive.objects.filter(kind=Archive.Kind.EXPORT, base__in=seen_bases(request))
        principal = asker(request)
        if principal is None:
            return exports
        own = Archive.objects.filter(
            kind=Archive.Kind.IMPORT, created_by_id=principal.user_id, workspace_id=principal.workspace_id
        )
        return exports | own

    @display(description=_("state"), label=WORK_TONES)
    def state(self, row: Archive) -> tuple[str, str]:
        return row.status, row.get_status_display()

    @action(description=_("Cancel"))
    def cancel_chosen(self, request: HttpRequest, rows: QuerySet[Archive]) -> None:
        self.each(request, rows, background.cancel, gettext("%(count)s asked to stop."))
