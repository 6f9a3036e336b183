"""Asking a rerank model which texts answer a query best, through LiteLLM."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Sequence
from typing import Any

from portal.gateway import clients, failures, loops
from portal.gateway.accounting import Caller, TokenUsage
from portal.gateway.calls import AttemptFailed, Call
from portal.gateway.models import ModelEndpoint
from portal.gateway.protocols import Ranked, Reranker
from portal.gateway.providers import litellm_name
from portal.gateway.token_estimate import EstimatedTokenCounter
from portal.kernel.errors import ArchwayError
from portal.kernel.secrets import Secret

logger = logging.getLogger(__name__)

_COUNTER = EstimatedTokenCounter(0)


def reranker_for(endpoint: ModelEndpoint, caller: Caller | None = None, *, seconds: float | None = None) -> Reranker:
    """What ranks texts for this endpoint; with a `caller`, its calls are paid for and recorded.

    With `seconds` a call is given up after so long (`model_timeout`), tries and fallbacks included.
    """
    return _ProviderReranker(endpoint, caller, seconds)


async def arerank(caller: Caller | None, endpoint: ModelEndpoint, query: str, texts: Sequence[str]) -> list[Ranked]:
    """The same for asyncio."""
    return await _ranked(caller, endpoint, query, texts, loops.OwnLoop())


class _ProviderReranker:
    def __init__(self, endpoint: ModelEndpoint, caller: Caller | None, seconds: float | None) -> None:
        self._endpoint = endpoint
        self._caller = caller
        self._seconds = seconds

    def rerank(self, query: str, texts: Sequence[str]) -> list[Ranked]:
        def ranked(outside: loops.Outside) -> Awaitable[list[Ranked]]:
            work = _ranked(self._caller, self._endpoint, query, texts, outside)
            return loops.within(self._seconds, self._endpoint.name, work)

        return loops.wait_for(ranked)


async def _ranked(
    caller: Caller | None, endpoint: ModelEndpoint, query: str, texts: Sequence[str], outside: loops.Outside
) -> list[Ranked]:
    if not texts:
        return []
    return await Call(caller, endpoint, _Ranking(query, texts), outside, fall_back=True).only()


class _Ranking:
    """An operation of `calls.Call`."""

    tries = 2

    def __init__(self, query: str, texts: Sequence[str]) -> None:
        self._query = query
        self._texts = list(texts)
        self._counted: TokenUsage | None = None

    def need(self, endpoint: ModelEndpoint) -> TokenUsage:
        # The model reads the query again with each text.
        query, *counts = _COUNTER.count([self._query, *self._texts])
        return TokenUsage(sum(counts) + query * len(counts), estimated=True)

    def patience(self, endpoint: ModelEndpoint) -> float:
        return endpoint.timeout_seconds

    def usage(self) -> TokenUsage:
        return self._counted or TokenUsage(sum(_COUNTER.count(self._texts)), estimated=True)

    async def attempt(self, endpoint: ModelEndpoint, secret: Secret) -> AsyncGenerator[list[Ranked]]:
        litellm = await clients.runtime()
        trip = clients.watched_trip()
        try:
            answer = await litellm.arerank(
                model=litellm_name(endpoint),
                query=self._query,
                documents=self._texts,
                return_documents=False,
                **clients.arguments(endpoint, secret),
            )
        except ArchwayError:
            raise
        except Exception as error:  # noqa: BLE001  # the edge to a library that raises anything
            failure = failures.failure_of(error, endpoint.name, sent=trip.began)
            logger.info("%s: %s of %s", failure.code, type(error).__name__, endpoint.uid)
            raise AttemptFailed(failure, failures.retry_after(error)) from None
        self._counted = _usage(answer)
        yield self._checked(answer.results, endpoint)

    def _checked(self, rows: Any, endpoint: ModelEndpoint) -> list[Ranked]:
        """Best first, each text at most once. Raises `AttemptFailed` (`model_bad_answer`)."""
        try:
            ranked = [Ranked(int(row["index"]), float(row["relevance_score"])) for row in rows or ()]
        except (KeyError, TypeError, ValueError):
            raise AttemptFailed(failures.bad_answer(endpoint.name)) from None
        places = {row.index for row in ranked}
        sound = len(places) == len(ranked) and places <= set(range(len(self._texts)))
        if not ranked or not sound or not all(math.isfinite(row.score) for row in ranked):
            raise AttemptFailed(failures.bad_answer(endpoint.name))
        return sorted(ranked, key=lambda row: -row.score)


def _usage(answer: Any) -> TokenUsage | None:
    tokens = (getattr(answer, "meta", None) or {}).get("tokens") or {}
    counted = tokens.get("input_tokens") or 0
    return TokenUsage(int(counted)) if counted else None
