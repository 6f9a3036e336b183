"""Model endpoints, and the vector spaces that embedding models make."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from portal.kernel.models import PublicId, Workspace


class EmbeddingSpace(models.Model):
    """What makes vectors comparable: model and weights (`key`), and their width.

    `mean` is the model's mean vector; it is subtracted before signs are taken for the binary pass.
    """

    key = models.CharField(_("key"), max_length=200, unique=True)
    dimensions = models.PositiveIntegerField(_("dimensions"))
    mean = ArrayField(models.FloatField(), null=True, editable=False)

    class Meta:
        verbose_name = _("embedding space")
        verbose_name_plural = _("embedding spaces")

    def __str__(self) -> str:
        return self.key


class ModelEndpoint(PublicId):
    """A model that can be called: where, under which name, with which credential. No workspace: everybody's."""

    class Kind(models.TextChoices):
        CHAT = "chat", _("Chat")
        EMBEDDING = "embedding", _("Embedding")
        RERANK = "rerank", _("Rerank")

    class Provider(models.TextChoices):
        LOCAL = "local", _("Built in")
        OPENAI_COMPATIBLE = "openai_compatible", _("OpenAI-compatible")

    workspace = models.ForeignKey(
        Workspace, models.CASCADE, null=True, blank=True, related_name="endpoints", verbose_name=_("workspace")
    )
    name = models.CharField(_("name"), max_length=100)
    kind = models.CharField(_("kind"), max_length=10, choices=Kind.choices)
    provider = models.CharField(_("provider"), max_length=30, choices=Provider.choices)
    model_name = models.CharField(_("model"), max_length=200)
    base_url = models.URLField(_("base URL"), blank=True)
    # A reference, never a secret: "env://NAME", for names that the operator listed.
    credential = models.CharField(_("credential"), max_length=200, blank=True)
    context_size = models.PositiveIntegerField(_("context size"), default=512)
    space = models.ForeignKey(
        EmbeddingSpace, models.PROTECT, null=True, blank=True, related_name="endpoints", verbose_name=_("space")
    )
    timeout_seconds = models.PositiveIntegerField(_("timeout (seconds)"), default=30)
    enabled = models.BooleanField(_("enabled"), default=True)
    is_default = models.BooleanField(_("default"), default=False)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("model endpoint")
        verbose_name_plural = _("model endpoints")
        constraints = [
            models.UniqueConstraint("workspace", "kind", "name", name="endpoint_name", nulls_distinct=False),
            models.UniqueConstraint(
                "workspace", "kind", name="endpoint_one_default", condition=Q(is_default=True), nulls_distinct=False
            ),
        ]

    def __str__(self) -> str:
        return self.name
