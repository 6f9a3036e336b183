"""What people asked and what they were shown."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils.translation import gettext_lazy as _

from portal.kernel.models import PublicId, Workspace


class QueryRecord(PublicId):
    """A question with its answer, as history of the ask page, the hit-test page and the API.

    It holds text copied out of `base_ids`, so it is readable only while its person may see all of them.
    """

    class Kind(models.TextChoices):
        ASK = "ask", _("Ask")
        HIT_TEST = "hit_test", _("Hit test")
        API = "api", _("API")

    workspace = models.ForeignKey(Workspace, models.CASCADE, verbose_name=_("workspace"))
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, verbose_name=_("person"))
    kind = models.CharField(_("kind"), max_length=10, choices=Kind.choices)
    thread = models.CharField(max_length=16, blank=True, db_index=True)
    query = models.TextField(_("question"))
    request = models.JSONField(default=dict)
    result = models.JSONField(default=dict)
    base_ids = ArrayField(models.BigIntegerField(), default=list)
    hits = models.PositiveIntegerField(_("hits"), default=0)
    milliseconds = models.FloatField(_("milliseconds"), default=0)
    helpful = models.BooleanField(_("helpful"), null=True)
    at = models.DateTimeField(_("at"), auto_now_add=True)

    class Meta:
        verbose_name = _("question")
        verbose_name_plural = _("questions asked")
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["user", "workspace", "kind", "-id"], name="query_history"),
            models.Index(fields=["at"], name="query_at"),
        ]

    def __str__(self) -> str:
        return self.query[:80]
