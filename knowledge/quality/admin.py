"""Evaluation sets and runs in the admin: read here, changed on the base's own pages."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from knowledge.admin_scope import KnowledgeAdmin
from knowledge.batches.admin import WORK_TONES
from knowledge.models import CaseResult, CaseTarget, EvaluationCase, EvaluationRun, SettledQuestion
from portal.kernel.admin_door import register


@register(EvaluationCase)
class EvaluationCaseAdmin(KnowledgeAdmin):
    """Questions of evaluation sets."""

    list_display = ["question", "base", "origin", "enabled", "created_at"]
    list_filter = ["origin", "enabled"]
    search_fields = ["question", "uid"]
    list_select_related = ["base"]
    fields = ["question", "base", "origin", "enabled", "created_by", "created_at"]


@register(CaseTarget)
class CaseTargetAdmin(KnowledgeAdmin):
    """What the questions expect."""

    base_path = "case__base_id"
    list_display = ["case", "document", "grade"]
    list_select_related = ["case", "document"]
    fields = ["case", "document", "grade"]


@register(EvaluationRun)
class EvaluationRunAdmin(KnowledgeAdmin):
    """Runs, and what they measured."""

    list_display = ["created_at", "base", "purpose", "label", "state", "done", "total", "verdict", "created_by"]
    list_filter = ["purpose", "status", "verdict"]
    list_select_related = ["base", "created_by"]
    fields = [
        "base", "purpose", "label", "status", "done", "total", "variants", "measures", "conditions", "candidate",
        "verdict", "applied", "error_code", "created_by", "created_at", "finished_at",
    ]  # fmt: skip

    @display(description=_("state"), label=WORK_TONES)
    def state(self, row: EvaluationRun) -> tuple[str, str]:
        return row.status, row.get_status_display()


@register(CaseResult)
class CaseResultAdmin(KnowledgeAdmin):
    """What each question found."""

    base_path = "run__base_id"
    list_display = ["run", "variant", "case", "rank", "milliseconds"]
    list_select_related = ["run", "case"]
    fields = ["run", "variant", "case", "rank", "scores", "milliseconds"]


@register(SettledQuestion)
class SettledQuestionAdmin(KnowledgeAdmin):
    """Unanswered questions that a writer has dealt with."""

    list_display = ["base", "by", "at"]
    list_select_related = ["base", "by"]
    fields = ["base", "by", "at"]
