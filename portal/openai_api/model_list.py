"""`GET /v1/models` and `GET /v1/models/{model}`."""

from __future__ import annotations

from django.http import HttpResponseBase, JsonResponse

from portal.kernel.errors import NotFound
from portal.openai_api.door import Asked, door, on_database
from portal.openai_api.targets import any_target, as_json, listed


@door("GET", "chat", "kb:read")
async def models(asked: Asked) -> HttpResponseBase:
    """All models that the key may name."""
    found = await on_database(lambda: [as_json(target) for target in listed(asked.principal)])
    return JsonResponse({"object": "list", "data": found})


@door("GET", "chat", "kb:read")
async def one_model(asked: Asked, model: str) -> HttpResponseBase:
    """One of them."""
    return JsonResponse(await on_database(lambda: as_json(any_target(asked.principal, model))))


@door(None)
async def unknown(asked: Asked, path: str) -> HttpResponseBase:
    """Whatever else OpenAI has and we do not."""
    raise NotFound("There is no such address.", code="address_unknown")
