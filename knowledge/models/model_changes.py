"""A base's way from one embedding model to another."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from knowledge.models.background import BackgroundWork
from knowledge.models.bases import KnowledgeBase


class ModelChange(BackgroundWork):
    """Vectors of the model `after` are made beside those of `before`; `switched_at` is when searches went over.

    From then on it can not be cancelled; the vectors of `before` are dropped. Rules: `knowledge/model_changes/`.
    """

    base = models.ForeignKey(KnowledgeBase, models.CASCADE, related_name="model_changes", verbose_name=_("base"))
    before = models.ForeignKey("gateway.ModelEndpoint", models.PROTECT, related_name="+", verbose_name=_("from"))
    after = models.ForeignKey("gateway.ModelEndpoint", models.PROTECT, related_name="+", verbose_name=_("to"))
    space = models.ForeignKey("gateway.EmbeddingSpace", models.PROTECT, null=True, related_name="+", editable=False)
    switched_at = models.DateTimeField(_("switched"), null=True, editable=False)
    # Why it stands still: the code of a model that is away. Empty while it moves.
    waiting = models.CharField(max_length=40, blank=True, editable=False)

    class Meta:
        verbose_name = _("change of model")
        verbose_name_plural = _("changes of model")
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint("base", name="model_change_one_open", condition=Q(status__in=["queued", "running"]))
        ]
        indexes = [
            models.Index(
                fields=["heartbeat_at"], name="model_change_open", condition=Q(status__in=["queued", "running"])
            )
        ]

    def __str__(self) -> str:
        return f"{self.before} → {self.after}"
