"""Trying an endpoint out: does it answer, how fast, which models are there, and if not, why not."""

from __future__ import annotations

import difflib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
from django.utils import timezone
from django.utils.translation import gettext as _

from portal.gateway import addresses, admission, loops
from portal.gateway.accounting import Caller
from portal.gateway.calls import Call
from portal.gateway.chat_contract import ChatRequest
from portal.gateway.clients import clients_for
from portal.gateway.completion import Completion
from portal.gateway.loops import Outside
from portal.gateway.models import ModelEndpoint, Purpose
from portal.gateway.provider_embedding import ProviderEmbedder
from portal.gateway.providers import provider_of
from portal.gateway.rerank import reranker_for
from portal.kernel import audit
from portal.kernel.errors import ArchwayError
from portal.kernel.principal import Principal
from portal.kernel.secrets import Secret

logger = logging.getLogger(__name__)

_MOST_MODELS = 500
_LIST_SECONDS = 10.0
_LEAST_LIKE = 0.4


@dataclass(frozen=True, slots=True)
class Probe:
    """What a test found. `code` is "" when the model answered; `models` is empty when the provider lists none.

    `milliseconds` is the time to the answer (of a chat model: to its first token). `nearest` are listed names
    that look like the one that the provider does not know.
    """

    code: str
    sentence: str
    milliseconds: int
    models: tuple[str, ...] = ()
    nearest: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.code


def probe(principal: Principal | None, endpoint: ModelEndpoint) -> Probe:
    """Ask the endpoint for its models and for one short answer, and keep what came of it in the row.

    Costs a few tokens, which stand in the account book of the asker's workspace; an operator without one has the
    line in the audit log only. Raises nothing of the provider's: a failure is a result, with the code that a call
    would have raised, and a quota that stops the test is one that says nothing of the endpoint.
    """
    caller = Caller(principal, Purpose.TEST) if principal else None
    admission.close_breaker(endpoint)
    began = time.perf_counter()
    models: tuple[str, ...] = ()
    try:
        secret = addresses.secret_for(endpoint, f"{endpoint.kind}.test", principal)
        models = loops.wait_for(lambda _outside: _listed(endpoint, secret))
        began = time.perf_counter()
        seconds = _ASK[endpoint.kind](endpoint, caller)
        found = Probe("", _("The model answers."), round(seconds * 1000), models)
    except ArchwayError as error:
        nearest = _nearest(endpoint.model_name, models) if error.code == "model_not_found" else ()
        milliseconds = round((time.perf_counter() - began) * 1000)
        found = Probe(error.code, error.sentence(), milliseconds, models, nearest)
    if endpoint.pk and found.code != "quota_exceeded":
        ModelEndpoint.objects.filter(pk=endpoint.pk).update(
            checked_at=timezone.now(), check_code=found.code, check_milliseconds=found.milliseconds
        )
    audit.record(principal, "endpoint.test", endpoint, workspace_id=endpoint.workspace_id, code=found.code)
    return found


async def _listed(endpoint: ModelEndpoint, secret: Secret) -> tuple[str, ...]:
    """The names of the provider's models; none when it does not list them, which is no failure."""
    provider = provider_of(endpoint)
    headers = dict(provider.headers)
    if secret:
        bearer = "Bearer " if provider.key_header == "Authorization" else ""
        headers[provider.key_header] = bearer + secret.expose()
    url = addresses.base_url(endpoint) + provider.models_path
    timeout = httpx.Timeout(_LIST_SECONDS, connect=endpoint.connect_seconds)
    try:
        response = await clients_for(endpoint).http.get(url, headers=headers, timeout=timeout)
        return _names(response.json()) if response.is_success else ()
    except (httpx.HTTPError, ArchwayError, ValueError) as error:
        # The call that follows says what is wrong, in the words of calls.
        logger.info("no list of models from %s: %s", endpoint.uid, type(error).__name__)
        return ()


def _names(body: Any) -> tuple[str, ...]:
    """Names in the shapes of OpenAI and Anthropic (`data`), Gemini and Cohere (`models`), TEI (`model_id`)."""
    if not isinstance(body, dict):
        return ()
    rows = body.get("data") or body.get("models") or []
    found = [row.get("id") or row.get("name") for row in rows if isinstance(row, dict)] or [body.get("model_id")]
    return tuple(str(name).removeprefix("models/") for name in found[:_MOST_MODELS] if name)


def _nearest(name: str, models: Sequence[str]) -> tuple[str, ...]:
    return tuple(difflib.get_close_matches(name, models, n=3, cutoff=_LEAST_LIKE))


def _ask_chat(endpoint: ModelEndpoint, caller: Caller | None) -> float:
    async def first_token(outside: Outside) -> float:
        request = ChatRequest([{"role": "user", "content": "Answer with the word OK."}], max_tokens=16)
        call = Call(caller, endpoint, Completion(request, streamed=True), outside, fall_back=False)
        async for _part in call.parts():
            pass
        return call.line.first_token_seconds or call.line.seconds

    return loops.wait_for(first_token)


def _ask_embedding(endpoint: ModelEndpoint, caller: Caller | None) -> float:
    began = time.perf_counter()
    if endpoint.provider == ModelEndpoint.Provider.LOCAL:
        from portal.gateway.embedding import embedder_for

        embedder_for(endpoint).embed_queries(["OK"])
    else:
        ProviderEmbedder(endpoint, space="test", dimensions=0, caller=caller).embed_queries(["OK"])
    return time.perf_counter() - began


def _ask_rerank(endpoint: ModelEndpoint, caller: Caller | None) -> float:
    began = time.perf_counter()
    reranker_for(endpoint, caller).rerank("fruit", ["An apple is a fruit.", "A car is a machine."])
    return time.perf_counter() - began


_ASK: dict[str, Callable[[ModelEndpoint, Caller | None], float]] = {
    ModelEndpoint.Kind.CHAT: _ask_chat,
    ModelEndpoint.Kind.EMBEDDING: _ask_embedding,
    ModelEndpoint.Kind.RERANK: _ask_rerank,
}
