"""How well a base answers: its questions with what is expected, runs over them, and what each question found."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from knowledge.models.background import BackgroundWork
from knowledge.models.bases import KnowledgeBase
from knowledge.models.documents import Document
from portal.kernel.models import PublicId


class EvaluationCase(PublicId):
    """A question of a base's evaluation set. What it expects stands in `targets`."""

    class Origin(models.TextChoices):
        HAND = "hand", _("by hand")
        UPLOAD = "upload", _("uploaded")
        HIT_TEST = "hit_test", _("hit test")
        RATED = "rated", _("rated answer")
        GENERATED = "generated", _("generated")

    base = models.ForeignKey(KnowledgeBase, models.CASCADE, related_name="evaluation_cases", verbose_name=_("base"))
    question = models.TextField(_("question"))
    # SHA-256 of the normalised question: a set asks nothing twice.
    digest = models.CharField(max_length=64, editable=False)
    origin = models.CharField(_("origin"), max_length=10, choices=Origin.choices, default=Origin.HAND)
    enabled = models.BooleanField(_("enabled"), default=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", verbose_name=_("created by")
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("evaluation case")
        verbose_name_plural = _("evaluation cases")
        ordering = ["-id"]
        constraints = [models.UniqueConstraint("base", "digest", name="evaluation_case_once")]

    def __str__(self) -> str:
        return self.question[:80]


class CaseTarget(models.Model):
    """What answers a case: a document, a piece of text of a document, or a piece of text wherever it stands."""

    case = models.ForeignKey(EvaluationCase, models.CASCADE, related_name="targets", verbose_name=_("evaluation case"))
    document = models.ForeignKey(
        Document, models.CASCADE, null=True, blank=True, related_name="+", verbose_name=_("document")
    )
    snippet = models.TextField(_("text"), blank=True)
    grade = models.PositiveSmallIntegerField(_("grade"), default=1)

    class Meta:
        verbose_name = _("expected answer")
        verbose_name_plural = _("expected answers")
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(document__isnull=False) | ~Q(snippet=""), name="case_target_names_something"
            ),
            models.CheckConstraint(condition=Q(grade__gte=1, grade__lte=10), name="case_target_grade"),
        ]

    def __str__(self) -> str:
        return self.snippet[:80] or str(self.document)


class EvaluationRun(BackgroundWork):
    """All enabled cases of a base, asked in one or several variants.

    `variants`: [{"name", "mode", "settings"}, …], settings as a search takes them. `measures`: by the variant's
    name. A run of the gate compares "before" and "after"; `candidate` is the change that waits for it
    ({"section", "values", "version"}), `verdict` how it ended. `trial` is a base of its own that holds the
    documents as the candidate would split or embed them, until the run is over.
    """

    class Purpose(models.TextChoices):
        MANUAL = "manual", _("started by hand")
        GATE = "gate", _("change of settings")

    class Verdict(models.TextChoices):
        NONE = "", _("none")
        FINE = "fine", _("not worse")
        WORSE = "worse", _("worse")
        OVERRULED = "overruled", _("saved anyway")
        DROPPED = "dropped", _("dropped")

    base = models.ForeignKey(KnowledgeBase, models.CASCADE, related_name="evaluation_runs", verbose_name=_("base"))
    purpose = models.CharField(_("purpose"), max_length=10, choices=Purpose.choices, default=Purpose.MANUAL)
    label = models.CharField(_("label"), max_length=200, blank=True)
    variants = models.JSONField(default=list)
    measures = models.JSONField(default=dict)
    # What searched: settings of the base, model, and the base's stamp at the start.
    conditions = models.JSONField(default=dict)
    candidate = models.JSONField(default=dict, blank=True)
    verdict = models.CharField(_("verdict"), max_length=10, choices=Verdict.choices, blank=True, default=Verdict.NONE)
    applied = models.BooleanField(_("applied"), default=False)
    trial = models.ForeignKey(KnowledgeBase, models.SET_NULL, null=True, related_name="+", editable=False)

    class Meta:
        verbose_name = _("evaluation run")
        verbose_name_plural = _("evaluation runs")
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["base", "-id"], name="evaluation_run_of_base"),
            models.Index(
                fields=["heartbeat_at"], name="evaluation_run_open", condition=Q(status__in=["queued", "running"])
            ),
        ]

    def __str__(self) -> str:
        return self.label or f"{self.get_purpose_display()} {self.uid}"


class CaseResult(models.Model):
    """What one variant of a run found for one case.

    `found` holds no text, only ids: [{"document", "chunk", "relevance", "grade"}, …] by rank, so that what is deleted
    or revoked meanwhile is not shown. `scores` are the measures in the order of `evaluation.MEASURES`.
    """

    run = models.ForeignKey(EvaluationRun, models.CASCADE, related_name="results")
    case = models.ForeignKey(EvaluationCase, models.CASCADE, related_name="results")
    variant = models.CharField(max_length=40)
    rank = models.PositiveSmallIntegerField(null=True)
    scores = models.JSONField(default=list)
    found = models.JSONField(default=list)
    milliseconds = models.FloatField(default=0)

    class Meta:
        verbose_name = _("result of a case")
        verbose_name_plural = _("results of cases")
        ordering = ["id"]
        constraints = [models.UniqueConstraint("run", "variant", "case", name="case_result_once")]

    def __str__(self) -> str:
        return f"{self.variant} · {self.case_id}"


class SettledQuestion(models.Model):
    """A group of unanswered questions that a writer has dealt with: it is listed again when it is asked again."""

    base = models.ForeignKey(KnowledgeBase, models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    at = models.DateTimeField()

    class Meta:
        verbose_name = _("settled question")
        verbose_name_plural = _("settled questions")
        constraints = [models.UniqueConstraint("base", "digest", name="settled_question_once")]

    def __str__(self) -> str:
        return self.digest
