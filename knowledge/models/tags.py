"""The words that documents of a base are tagged with."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from knowledge.models.bases import KnowledgeBase


class Tag(models.Model):
    """One word of a base's vocabulary. `folded` is what makes two spellings one (`knowledge/tags.py`).

    Documents hold the names themselves, so that a search filters without a join.
    """

    base = models.ForeignKey(KnowledgeBase, models.CASCADE, related_name="tags", verbose_name=_("base"), db_index=False)
    name = models.CharField(_("name"), max_length=60)
    folded = models.CharField(max_length=200, editable=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", verbose_name=_("created by")
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("tag")
        verbose_name_plural = _("tags")
        constraints = [models.UniqueConstraint("base", "folded", name="tag_once")]

    def __str__(self) -> str:
        return self.name
