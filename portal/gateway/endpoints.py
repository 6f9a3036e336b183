"""Which model endpoints an asker may use: those of their workspace and those of the whole installation."""

from __future__ import annotations

from django.db.models import F, Q, QuerySet

from portal.gateway import addresses
from portal.gateway.models import ModelEndpoint
from portal.kernel.errors import Invalid
from portal.kernel.principal import Principal

DEMO_NAME = "Demo model"
# Slow enough to be seen writing.
DEMO_MODEL = "demo+ttft=200+gap=15"


def visible_endpoints(principal: Principal, kind: ModelEndpoint.Kind) -> QuerySet[ModelEndpoint]:
    """The enabled endpoints of a kind, the default first: the workspace's before the installation's.

    The demo model's are among them while it runs.
    """
    own = Q(workspace_id=principal.workspace_id) | Q(workspace__isnull=True)
    rows = ModelEndpoint.objects.filter(own, kind=kind, enabled=True)
    if not addresses.demo_url():
        rows = rows.exclude(provider=ModelEndpoint.Provider.DEMO)
    return rows.order_by("-is_default", F("workspace").asc(nulls_last=True), "name")


def ensure_demo_endpoints() -> list[ModelEndpoint]:
    """The installation's endpoints of the demo model, made at first use; default where nobody else is."""
    made = []
    for kind in (ModelEndpoint.Kind.CHAT, ModelEndpoint.Kind.RERANK):
        others = ModelEndpoint.objects.filter(workspace=None, kind=kind, is_default=True)
        endpoint, _ = ModelEndpoint.objects.get_or_create(
            workspace=None,
            kind=kind,
            provider=ModelEndpoint.Provider.DEMO,
            defaults={
                "name": DEMO_NAME,
                "model_name": DEMO_MODEL,
                "context_size": 32_000,
                "is_default": kind == ModelEndpoint.Kind.CHAT and not others.exists(),
            },
        )
        made.append(endpoint)
    return made


def embedding_endpoint(principal: Principal, uid: str) -> ModelEndpoint:
    """The embedding endpoint with this uid. Raises `Invalid` (endpoint_unknown)."""
    endpoint = visible_endpoints(principal, ModelEndpoint.Kind.EMBEDDING).filter(uid=uid).first()
    if endpoint is None:
        raise Invalid("There is no such embedding model.", code="endpoint_unknown")
    return endpoint


def chat_endpoint(principal: Principal, uid: str = "") -> ModelEndpoint:
    """The chat endpoint with this uid, or the default one. Raises `Invalid` (endpoint_unknown, no_chat_model)."""
    rows = visible_endpoints(principal, ModelEndpoint.Kind.CHAT).prefetch_related("fallback_rows")
    endpoint = (rows.filter(uid=uid) if uid else rows).first()
    if endpoint is None and uid:
        raise Invalid("There is no such chat model.", code="endpoint_unknown")
    if endpoint is None:
        raise Invalid("No chat model has been set up yet; an admin can add one.", code="no_chat_model")
    return endpoint


def rerank_endpoint(principal: Principal, uid: str) -> ModelEndpoint:
    """The rerank endpoint with this uid. Raises `Invalid` (endpoint_unknown)."""
    endpoint = visible_endpoints(principal, ModelEndpoint.Kind.RERANK).filter(uid=uid).first()
    if endpoint is None:
        raise Invalid("There is no such rerank model.", code="endpoint_unknown")
    return endpoint
