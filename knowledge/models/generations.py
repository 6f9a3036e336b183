"""What a chat model makes of passages in the background: questions that they answer, cases for an evaluation set."""

from __future__ import annotations

from decimal import Decimal

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from knowledge.models.background import BackgroundWork
from knowledge.models.bases import KnowledgeBase


class Generation(BackgroundWork):
    """One run over the passages of a base. Rules: `knowledge/generation/`.

    `each` is how many questions a passage gets at most, `most` how many passages are taken (0: all). `estimate` is what
    was shown before the start; tokens and cost are what was used. `made` counts questions or cases.
    """

    class Kind(models.TextChoices):
        QUESTIONS = "questions", _("Questions")
        CASES = "cases", _("Evaluation cases")

    base = models.ForeignKey(KnowledgeBase, models.CASCADE, related_name="generations", verbose_name=_("base"))
    kind = models.CharField(_("kind"), max_length=10, choices=Kind.choices)
    endpoint = models.ForeignKey("gateway.ModelEndpoint", models.PROTECT, related_name="+", verbose_name=_("model"))
    each = models.PositiveSmallIntegerField(default=3)
    most = models.PositiveIntegerField(default=0)
    estimate = models.JSONField(default=dict)
    made = models.PositiveIntegerField(_("made"), default=0)
    skipped = models.PositiveIntegerField(_("skipped"), default=0)
    tokens_in = models.PositiveBigIntegerField(_("tokens in"), default=0)
    tokens_out = models.PositiveBigIntegerField(_("tokens out"), default=0)
    cost = models.DecimalField(_("cost"), max_digits=18, decimal_places=8, default=Decimal(0))
    # Why it stands still: the code of a model that is away. Empty while it moves.
    waiting = models.CharField(max_length=40, blank=True, editable=False)

    class Meta:
        verbose_name = _("generation")
        verbose_name_plural = _("generations")
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                "base", "kind", name="generation_one_open", condition=Q(status__in=["queued", "running"])
            )
        ]
        indexes = [
            models.Index(fields=["heartbeat_at"], name="generation_open", condition=Q(status__in=["queued", "running"]))
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} · {self.base}"


class GenerationMark(models.Model):
    """A text of which a model was asked to make something: the same text is not paid for twice, whatever revision."""

    base = models.ForeignKey(KnowledgeBase, models.CASCADE, related_name="+")
    kind = models.CharField(max_length=10, choices=Generation.Kind.choices)
    sha256 = models.CharField(max_length=64)
    made = models.PositiveSmallIntegerField(default=0)

    class Meta:
        verbose_name = _("text already worked on")
        verbose_name_plural = _("texts already worked on")
        constraints = [models.UniqueConstraint("base", "kind", "sha256", name="generation_mark_once")]

    def __str__(self) -> str:
        return self.sha256[:12]
