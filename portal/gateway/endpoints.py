"""Which model endpoints an asker may use: those of their workspace and those of the whole installation."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from portal.gateway.models import ModelEndpoint
from portal.kernel.errors import Invalid
from portal.kernel.principal import Principal


def visible_endpoints(principal: Principal, kind: ModelEndpoint.Kind) -> QuerySet[ModelEndpoint]:
    """The enabled endpoints of a kind, the default first."""
    own = Q(workspace_id=principal.workspace_id) | Q(workspace__isnull=True)
    return ModelEndpoint.objects.filter(own, kind=kind, enabled=True).order_by("-is_default", "name")


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
