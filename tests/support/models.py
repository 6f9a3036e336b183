"""Endpoints of the model server's, as an admin would set them up."""

from __future__ import annotations

from typing import Any

from portal.gateway.models import ModelEndpoint
from tests.support.model_server import ModelServer

# What each provider's base URL ends with.
_PATHS = {
    "openai": "/v1",
    "anthropic": "",
    "gemini": "/v1beta",
    "doubao": "/api/v3",
    "wenxin": "/v2",
    "yuanbao": "/v1",
    "openai_compatible": "/v1",
    "archway": "",
    "cohere": "",
    "jina": "",
    "tei": "",
    "demo": "",
}


def endpoint(models: ModelServer | str, model: str, *, provider: str, kind: str, **more: Any) -> ModelEndpoint:
    url = models if isinstance(models, str) else models.url
    given: dict[str, Any] = {"name": f"{provider} {kind} {model}"[:100], "base_url": url + _PATHS[provider], **more}
    return ModelEndpoint.objects.create(model_name=model, provider=provider, kind=kind, **given)


def chat_endpoint(
    models: ModelServer | str, model: str = "demo", *, provider: str = "openai_compatible", **more: Any
) -> ModelEndpoint:
    """A chat endpoint of the whole installation."""
    return endpoint(models, model, provider=provider, kind="chat", **more)
