"""Where an endpoint's requests go, and the secret that goes along."""

from __future__ import annotations

import threading
import time
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from portal.gateway.models import ModelEndpoint
from portal.gateway.providers import provider_of
from portal.kernel.errors import Invalid, Unavailable
from portal.kernel.principal import Principal
from portal.kernel.secrets import Secret, reveal

# A revoked credential works no longer than this; a burst of calls writes one line into the audit log, not thousands.
KEPT_SECONDS = 10.0
# People paste whole addresses of calls.
_ENDS = ("/chat/completions", "/completions", "/embeddings", "/rerank", "/models", "/messages")


def base_url(endpoint: ModelEndpoint) -> str:
    """The URL that paths of calls are appended to, without a slash at its end.

    Raises `Invalid` (base_url_missing) or, for the demo model, `Unavailable` (demo_model_off).
    """
    provider = provider_of(endpoint)
    if endpoint.provider == ModelEndpoint.Provider.DEMO:
        return _demo_base()
    url = (endpoint.base_url or provider.base_url).rstrip("/")
    if not url:
        raise Invalid("Give the base URL of this endpoint.", code="base_url_missing")
    for end in _ENDS:
        url = url.removesuffix(end)
    if endpoint.provider == ModelEndpoint.Provider.ARCHWAY and not urlsplit(url).path.strip("/"):
        url += "/v1"
    return url


def secret_for(endpoint: ModelEndpoint, purpose: str, principal: Principal | None) -> Secret:
    """The endpoint's secret, for the host that `base_url` names. Raises what `reveal` raises.

    Must not be called inside a transaction: the line in the audit log is committed first.
    """
    if not endpoint.credential:
        return Secret("")
    name = (endpoint.credential, base_url(endpoint), endpoint.workspace_id)
    now = time.monotonic()
    with _lock:
        until, kept = _kept.get(name, (0.0, None))
    if kept is not None and until > now:
        return kept
    secret = reveal(
        endpoint.credential,
        host=base_url(endpoint),
        purpose=purpose,
        workspace_id=endpoint.workspace_id,
        principal=principal,
    )
    with _lock:
        for stale in [key for key, (end, _) in _kept.items() if end <= now]:
            del _kept[stale]
        _kept[name] = (now + KEPT_SECONDS, secret)
    return secret


def kept_secret(endpoint: ModelEndpoint) -> Secret | None:
    """The same without the database, when it was revealed a moment ago or there is none."""
    if not endpoint.credential:
        return Secret("")
    with _lock:
        until, kept = _kept.get((endpoint.credential, base_url(endpoint), endpoint.workspace_id), (0.0, None))
    return kept if until > time.monotonic() else None


def forget_secrets() -> None:
    """Every secret is revealed anew at its next use; called when a credential changes in this process."""
    with _lock:
        _kept.clear()


def demo_url() -> str:
    """Where the demo model answers; "" when it does not run."""
    if given := settings.ARCHWAY["DEMO_MODEL_URL"]:
        return str(given).rstrip("/")
    try:
        url: str = (settings.ARCHWAY["DATA_DIR"] / "run" / "demo-model.url").read_text("utf-8").strip()
    except OSError:
        return ""
    return url


def _demo_base() -> str:
    url = demo_url()
    if not url:
        raise Unavailable(
            "The demo model does not run. Start Archway with `manage.py up --with-demo-model`.", code="demo_model_off"
        )
    return f"{url}/v1"


_kept: dict[Any, tuple[float, Secret]] = {}
_lock = threading.Lock()
