"""What people asked and what they were shown."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q
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

    class Answering(models.TextChoices):
        """Where a model's answer is; empty for a direct one. `writing` holds while a process writes it."""

        WAITING = "waiting", _("Waiting")
        WRITING = "writing", _("Writing")
        DONE = "done", _("Done")
        NO_BASIS = "no_basis", _("No basis")
        STOPPED = "stopped", _("Stopped")
        FAILED = "failed", _("Failed")
        INTERRUPTED = "interrupted", _("Interrupted")

    workspace = models.ForeignKey(Workspace, models.CASCADE, verbose_name=_("workspace"))
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, verbose_name=_("person"))
    kind = models.CharField(_("kind"), max_length=10, choices=Kind.choices)
    thread = models.CharField(max_length=16, blank=True, db_index=True)
    query = models.TextField(_("question"))
    request = models.JSONField(default=dict)
    result = models.JSONField(default=dict)
    # A model's answer: `knowledge.answering.contract.Answer`, and what it is to be written with.
    answer = models.JSONField(default=dict)
    answering = models.CharField(_("answer"), max_length=12, choices=Answering.choices, blank=True)
    base_ids = ArrayField(models.BigIntegerField(), default=list)
    # All bases that were searched, whether or not something was shown of them.
    searched_ids = ArrayField(models.BigIntegerField(), default=list, editable=False)
    # The best relevance among the hits; empty when there were none.
    best = models.FloatField(_("best relevance"), null=True, editable=False)
    # Whether the words may be listed, without a name, for those who write the searched bases.
    listed = models.BooleanField(_("for writers"), default=False, editable=False)
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
            GinIndex(fields=["searched_ids"], name="query_searched", condition=Q(listed=True)),
        ]

    def __str__(self) -> str:
        return self.query[:80]
