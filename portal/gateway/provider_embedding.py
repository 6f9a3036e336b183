"""Embeddings from a provider, through LiteLLM: any OpenAI-compatible server and whatever LiteLLM knows."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import numpy as np
from django.conf import settings
from numpy.typing import NDArray

from portal.gateway import clients, failures, loops
from portal.gateway.accounting import Caller, TokenUsage
from portal.gateway.calls import AttemptFailed, Call
from portal.gateway.failures import bad_answer
from portal.gateway.models import ModelEndpoint
from portal.gateway.protocols import Vectors
from portal.gateway.providers import litellm_name
from portal.gateway.token_estimate import EstimatedTokenCounter
from portal.kernel.errors import ArchwayError, Invalid
from portal.kernel.secrets import Secret

logger = logging.getLogger(__name__)

# Providers allow between 10 and 2048 texts a request; a refused batch is halved, and the size remembered.
_FIRST_BATCH = 64
# Empty input is an error with most providers, and a blank one with some.
_NOTHING = "-"
# Models trained with words before the text, by name: (pattern, before a query, before a passage).
_PREFIXES: tuple[tuple[str, str, str], ...] = (
    (r"\be5-(small|base|large)(?!.*instruct)", "query: ", "passage: "),
    (r"\bbge-(small|base|large)-zh", "为这个句子生成表示以用于检索相关文章：", ""),
    (r"\bbge-(small|base|large)-en", "Represent this sentence for searching relevant passages: ", ""),
)
_COUNTER = EstimatedTokenCounter(0)


class _Embedding:
    """An operation of `calls.Call`: the rows of one request, asked for once; ingestion tries again by itself."""

    tries = 1

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = list(texts)
        self._counted: TokenUsage | None = None

    def need(self, endpoint: ModelEndpoint) -> TokenUsage:
        return TokenUsage(sum(_COUNTER.count(self._texts)), estimated=True)

    def patience(self, endpoint: ModelEndpoint) -> float:
        # A claim must outlive a request that hangs: what waits longer than it loses it.
        longest: float = min(endpoint.timeout_seconds, settings.ARCHWAY["CLAIM_TTL"] * 0.7)
        return longest

    def usage(self) -> TokenUsage:
        return self._counted or TokenUsage(sum(_COUNTER.count(self._texts)), estimated=True)

    async def attempt(self, endpoint: ModelEndpoint, secret: Secret) -> AsyncGenerator[Any]:
        litellm = await clients.runtime()
        trip = clients.watched_trip()
        try:
            answer = await litellm.aembedding(
                model=litellm_name(endpoint),
                input=self._texts,
                encoding_format="float",
                **clients.arguments(endpoint, secret),
            )
        except ArchwayError:
            raise
        except Exception as error:  # noqa: BLE001  # the edge to a library that raises anything
            failure = failures.failure_of(error, endpoint.model_name, sent=trip.began)
            logger.info("%s: %s of %s", failure.code, type(error).__name__, endpoint.uid)
            # `from None`: the provider's words may repeat the key, and must not reach a log by way of the cause.
            raise AttemptFailed(failure, failures.retry_after(error)) from None
        tokens = getattr(getattr(answer, "usage", None), "prompt_tokens", 0) or 0
        if tokens:
            self._counted = TokenUsage(tokens)
        yield answer.data


class ProviderEmbedder:
    """A provider's embedding model. With a `caller`, each request is paid for and recorded.

    `dimensions` 0 means not known yet: the first answer decides. Raises, besides what `Embedder` says,
    `Invalid` with one of the codes of `portal.gateway.failures`.
    """

    def __init__(self, endpoint: ModelEndpoint, *, space: str, dimensions: int, caller: Caller | None = None) -> None:
        self.space = space
        self.dimensions = dimensions
        self._endpoint = endpoint
        self._caller = caller
        self._before_query, self._before_passage = _prefixes_of(endpoint.model_name)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        return self._embed([self._before_passage + _sendable(text) for text in texts])

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self._embed([self._before_query + _sendable(text) for text in texts])

    def _embed(self, texts: Sequence[str]) -> Vectors:
        parts: list[Vectors] = []
        start = 0
        while start < len(texts):
            batch = texts[start : start + _taken.get(self._address, _FIRST_BATCH)]
            try:
                parts.append(self._checked(self._ask(batch), len(batch)))
            except Invalid as error:
                if error.code != "model_refused" or len(batch) == 1:
                    raise
                _taken[self._address] = math.ceil(len(batch) / 2)
                continue
            start += len(batch)
        return np.concatenate(parts) if parts else np.empty((0, self.dimensions), np.float32)

    def _ask(self, texts: Sequence[str]) -> Any:
        return loops.wait_for(
            lambda outside: Call(self._caller, self._endpoint, _Embedding(texts), outside, fall_back=False).only()
        )

    @property
    def _address(self) -> tuple[str, str, str]:
        return (self._endpoint.provider, self._endpoint.base_url, self._endpoint.model_name)

    def _checked(self, rows: Any, count: int) -> Vectors:
        """Unit vectors in the order of the texts. Raises `Invalid` (`model_bad_answer`)."""
        name = self._endpoint.model_name
        if not isinstance(rows, list) or len(rows) != count:
            raise bad_answer(name)
        try:
            by_index = sorted(enumerate(rows), key=lambda pair: pair[0] if _index(pair[1]) is None else _index(pair[1]))
            vectors: NDArray[np.float32] = np.array([row["embedding"] for _, row in by_index], dtype=np.float32)
        except (ValueError, TypeError, KeyError):
            raise bad_answer(name) from None
        if vectors.ndim != 2 or not np.isfinite(vectors).all():
            raise bad_answer(name)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not lengths.all():
            raise bad_answer(name)
        self.dimensions = self.dimensions or vectors.shape[1]
        if vectors.shape[1] != self.dimensions:
            raise Invalid(
                '"%(model)s" answers with %(got)s dimensions instead of %(expected)s.',
                code="model_bad_answer",
                model=name,
                got=vectors.shape[1],
                expected=self.dimensions,
            )
        unit: Vectors = vectors / lengths
        return unit


# How many texts a provider takes at once, learnt from its refusals.
_taken: dict[tuple[str, str, str], int] = {}


def _index(row: Any) -> Any:
    return row.get("index")


def _prefixes_of(model: str) -> tuple[str, str]:
    for pattern, query, passage in _PREFIXES:
        if re.search(pattern, model, re.IGNORECASE):
            return query, passage
    return "", ""


def _sendable(text: str) -> str:
    """`text` as it can be written in UTF-8 and is not blank."""
    return text.encode("utf-8", "replace").decode() if text.strip() else _NOTHING
