"""The own words of a base, and the work of bringing its index up to them. Rules: `knowledge/terms/`."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from knowledge.models.background import BackgroundWork
from knowledge.models.bases import KnowledgeBase
from portal.kernel.models import PublicId


class Term(PublicId):
    """A word of a base with other words for the same. `surface` is the form that is compared (`text.surface_of`).

    `weight` multiplies the term's part in the score of a query by words.
    """

    base = models.ForeignKey(KnowledgeBase, models.CASCADE, related_name="terms", verbose_name=_("base"))
    text = models.CharField(_("term"), max_length=100)
    surface = models.CharField(max_length=200, editable=False)
    synonyms = ArrayField(models.CharField(max_length=100), default=list, blank=True, verbose_name=_("synonyms"))
    weight = models.FloatField(_("weight"), default=1.0)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", verbose_name=_("created by")
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    updated_at = models.DateTimeField(_("updated"), auto_now=True)

    class Meta:
        verbose_name = _("term")
        verbose_name_plural = _("terms")
        ordering = ["surface"]
        constraints = [models.UniqueConstraint("base", "surface", name="term_once")]

    def __str__(self) -> str:
        return self.text


class TermChange(BackgroundWork):
    """Leaves that hold one of `surfaces` get their lexemes anew. At most one is open in a base: changes join it.

    `at_revision` and `at_leaf` (an ordinal) are where it is; `done` and `total` count leaves, `changed` those that
    read differently to a search afterwards.
    """

    base = models.ForeignKey(KnowledgeBase, models.CASCADE, related_name="term_changes", verbose_name=_("base"))
    surfaces = ArrayField(models.TextField(), default=list)
    at_revision = models.BigIntegerField(default=0, editable=False)
    at_leaf = models.IntegerField(default=-1, editable=False)
    changed = models.PositiveBigIntegerField(_("changed"), default=0, editable=False)

    class Meta:
        verbose_name = _("change of terms")
        verbose_name_plural = _("changes of terms")
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint("base", name="term_change_one_open", condition=Q(status__in=["queued", "running"]))
        ]
        indexes = [
            models.Index(
                fields=["heartbeat_at"], name="term_change_open", condition=Q(status__in=["queued", "running"])
            )
        ]

    def __str__(self) -> str:
        return f"{self.base} #{self.pk}"
