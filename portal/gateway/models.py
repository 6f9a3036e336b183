"""Model endpoints, and the vector spaces that embedding models make."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from portal.kernel.models import PublicId, Workspace


class EmbeddingSpace(models.Model):
    """What makes vectors comparable: model, weights and centring (`key`), and their width.

    The gateway takes `offset` and `axis` off the model's vectors (`portal.gateway.centring`).
    """

    key = models.CharField(_("key"), max_length=200, unique=True)
    dimensions = models.PositiveIntegerField(_("dimensions"))
    offset = ArrayField(models.FloatField(), null=True, editable=False)
    axis = ArrayField(models.FloatField(), null=True, editable=False)

    class Meta:
        verbose_name = _("embedding space")
        verbose_name_plural = _("embedding spaces")

    def __str__(self) -> str:
        return self.key


def _price(name: Any) -> models.DecimalField[Decimal, Decimal]:
    return models.DecimalField(name, max_digits=14, decimal_places=6, default=Decimal(0))


class ModelEndpoint(PublicId):
    """A model that can be called: where, under which name, with which credential. No workspace: everybody's."""

    class Kind(models.TextChoices):
        CHAT = "chat", _("Chat")
        EMBEDDING = "embedding", _("Embedding")
        RERANK = "rerank", _("Rerank")

    class Provider(models.TextChoices):
        LOCAL = "local", _("Built in")
        OPENAI = "openai", _("OpenAI")
        ANTHROPIC = "anthropic", _("Anthropic")
        GEMINI = "gemini", _("Google Gemini")
        DOUBAO = "doubao", _("Doubao (Volcengine)")
        WENXIN = "wenxin", _("Wenxin (Baidu Qianfan)")
        YUANBAO = "yuanbao", _("Yuanbao (Tencent Hunyuan)")
        OPENAI_COMPATIBLE = "openai_compatible", _("OpenAI-compatible")
        COHERE = "cohere", _("Cohere")
        JINA = "jina", _("Jina AI")
        TEI = "tei", _("Text Embeddings Inference")
        ARCHWAY = "archway", _("Another Archway")
        DEMO = "demo", _("Demo model")

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
    # Sent with every request, for instance {"temperature": 0.2}; the names are those of `providers.PARAMETERS`.
    parameters = models.JSONField(_("parameters"), default=dict, blank=True)
    connect_seconds = models.PositiveIntegerField(_("longest wait for a connection (seconds)"), default=5)
    first_token_seconds = models.PositiveIntegerField(_("longest wait for the first token (seconds)"), default=60)
    timeout_seconds = models.PositiveIntegerField(_("timeout (seconds)"), default=30)
    total_seconds = models.PositiveIntegerField(_("longest answer (seconds)"), default=300)
    max_output_tokens = models.PositiveIntegerField(_("longest answer (tokens)"), default=4096)
    max_running = models.PositiveIntegerField(_("calls at once (0: any number)"), default=0)
    per_minute = models.PositiveIntegerField(_("calls a minute (0: any number)"), default=0)
    # In the installation's currency (ARCHWAY_CURRENCY), per million tokens; a rerank costs by the call.
    input_price = _price(_("price of a million input tokens"))
    cached_price = _price(_("price of a million cached input tokens"))
    output_price = _price(_("price of a million output tokens"))
    call_price = _price(_("price of a call"))
    fallbacks: models.ManyToManyField[ModelEndpoint, EndpointFallback] = models.ManyToManyField(
        "self", through="EndpointFallback", symmetrical=False, through_fields=("endpoint", "fallback"), blank=True
    )
    checked_at = models.DateTimeField(_("last tested"), null=True, editable=False)
    # "" means that the last test went well; else the code of what was wrong.
    check_code = models.CharField(max_length=60, blank=True, editable=False)
    check_milliseconds = models.PositiveIntegerField(null=True, editable=False)
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

    @property
    def is_demo(self) -> bool:
        """Whether its answers come from the demo model and must say so."""
        return self.provider == self.Provider.DEMO


class EndpointFallback(models.Model):
    """Who answers when an endpoint can not: tried in the order of `position`."""

    endpoint = models.ForeignKey(ModelEndpoint, models.CASCADE, related_name="fallback_rows")
    fallback = models.ForeignKey(ModelEndpoint, models.CASCADE, related_name="+", verbose_name=_("fallback"))
    position = models.PositiveSmallIntegerField(_("position"), default=0)

    class Meta:
        verbose_name = _("fallback")
        verbose_name_plural = _("fallbacks")
        ordering = ["position", "id"]
        constraints = [
            models.UniqueConstraint(fields=["endpoint", "fallback"], name="fallback_once"),
            models.CheckConstraint(condition=~Q(endpoint=models.F("fallback")), name="fallback_is_another"),
        ]

    def __str__(self) -> str:
        return f"{self.position}. {self.fallback}"


# Django finds models here; the account book has a module of its own.
from portal.gateway.usage_models import Purpose, Quota, UsageDay, UsageRecord  # noqa: E402

__all__ = ["EmbeddingSpace", "EndpointFallback", "ModelEndpoint", "Purpose", "Quota", "UsageDay", "UsageRecord"]
