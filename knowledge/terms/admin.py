"""Terms, the work that follows their changes, and questions of passages, in the admin."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import RelatedOnlyFieldListFilter
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import RangeDateTimeFilter
from unfold.decorators import action, display

from knowledge.admin_scope import KnowledgeAdmin
from knowledge.models import ChunkQuestion, QuestionVector, Term, TermChange
from knowledge.questions import verbs as questions
from knowledge.terms import verbs
from portal.kernel.admin_door import register
from portal.kernel.principal import Principal


def _delete(principal: Principal, term: Term) -> object:
    return verbs.delete(principal, term.base, [term.uid])


def _enable(principal: Principal, question: ChunkQuestion) -> object:
    return questions.set_enabled(principal, question, True)


def _disable(principal: Principal, question: ChunkQuestion) -> object:
    return questions.set_enabled(principal, question, False)


@register(Term)
class TermAdmin(KnowledgeAdmin):
    """Words of a base with other words for the same."""

    list_display = ["text", "base", "synonyms", "weight", "updated_at"]
    list_filter = [("base", RelatedOnlyFieldListFilter), ("updated_at", RangeDateTimeFilter)]
    search_fields = ["text", "synonyms", "uid"]
    list_select_related = ["base"]
    actions = ["forget"]

    @action(description=_("Delete"))
    def forget(self, request: HttpRequest, rows: QuerySet[Term]) -> None:
        self.each(request, rows.select_related("base"), _delete, _("%(count)s deleted."))  # type: ignore[arg-type]


@register(TermChange)
class TermChangeAdmin(KnowledgeAdmin):
    """What followed a change of terms."""

    list_display = ["base", "state", "done", "total", "changed", "created_by", "created_at", "finished_at"]
    list_filter = ["status", ("created_at", RangeDateTimeFilter)]
    list_select_related = ["base", "created_by"]

    @display(description=_("state"), label={"queued": "info", "running": "info", "done": "success", "failed": "danger"})
    def state(self, row: TermChange) -> tuple[str, Any]:
        return row.status, row.get_status_display()


@register(ChunkQuestion)
class ChunkQuestionAdmin(KnowledgeAdmin):
    """Questions as ways to passages."""

    list_display = ["text", "base", "source", "enabled", "created_by", "created_at"]
    list_filter = ["source", "enabled", ("base", RelatedOnlyFieldListFilter), ("created_at", RangeDateTimeFilter)]
    search_fields = ["text", "uid"]
    list_select_related = ["base", "created_by"]
    fields = ["text", "base", "source", "enabled", "version", "created_by", "created_at"]
    actions = ["switch_on", "switch_off"]

    @action(description=_("Switch on"))
    def switch_on(self, request: HttpRequest, rows: QuerySet[ChunkQuestion]) -> None:
        self.each(request, rows.select_related("chunk"), _enable, _("%(count)s switched on."))  # type: ignore[arg-type]

    @action(description=_("Switch off"))
    def switch_off(self, request: HttpRequest, rows: QuerySet[ChunkQuestion]) -> None:
        self.each(request, rows.select_related("chunk"), _disable, _("%(count)s switched off."))  # type: ignore[arg-type]


@register(QuestionVector)
class QuestionVectorAdmin(KnowledgeAdmin):
    """Which question has a vector in which space."""

    base_path = "revision__base_id"
    list_display = ["question_id", "revision", "space"]
    list_select_related = ["revision", "revision__document", "space"]
    fields = ["question", "revision", "space"]
