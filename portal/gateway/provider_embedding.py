"""Embeddings from a provider, through LiteLLM: any OpenAI-compatible server and whatever LiteLLM knows."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from portal.gateway import litellm_runtime
from portal.gateway.failures import bad_answer, failure_of
from portal.gateway.protocols import Vectors
from portal.kernel import egress
from portal.kernel.errors import ArchwayError, Invalid
from portal.kernel.secret_value import Secret

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


class LiteLLMEmbedder:
    """A provider's embedding model. `model` is LiteLLM's name for it, provider first: `openai/bge-m3`.

    `dimensions` 0 means not known yet: the first answer decides. Raises, besides what `Embedder` says,
    `Invalid` with one of the codes of `portal.gateway.failures`.
    """

    def __init__(
        self,
        model: str,
        *,
        space: str,
        dimensions: int,
        base_url: str = "",
        secret: Secret | None = None,
        timeout: float = 30.0,
    ) -> None:
        self.space = space
        self.dimensions = dimensions
        self._model = model
        self._base_url = base_url
        self._secret = secret or Secret("")
        self._timeout = timeout
        self._batch = _FIRST_BATCH
        self._before_query, self._before_passage = _prefixes_of(model)

    def __repr__(self) -> str:
        return f"LiteLLMEmbedder({self._model!r})"

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        return self._embed([self._before_passage + _sendable(text) for text in texts])

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self._embed([self._before_query + _sendable(text) for text in texts])

    def _embed(self, texts: Sequence[str]) -> Vectors:
        parts: list[Vectors] = []
        start = 0
        while start < len(texts):
            batch = texts[start : start + self._batch]
            try:
                parts.append(self._ask(batch))
            except Invalid as error:
                if error.code != "model_refused" or len(batch) == 1:
                    raise
                self._batch = math.ceil(len(batch) / 2)
                continue
            start += len(batch)
        return np.concatenate(parts) if parts else np.empty((0, self.dimensions), np.float32)

    def _ask(self, texts: Sequence[str]) -> Vectors:
        if self._base_url:
            egress.judge(self._base_url)
        litellm = litellm_runtime.load()
        from openai import OpenAIError  # the root of all of LiteLLM's errors

        try:
            answer = litellm.embedding(
                model=self._model,
                input=list(texts),
                api_base=self._base_url or None,
                # The client insists on a key, also where the server wants none.
                api_key=self._secret.expose() or "none",
                timeout=self._timeout,
                encoding_format="float",
            )
        except (OpenAIError, httpx.HTTPError) as error:
            # `from None`: the provider's words may repeat the key, and must not reach a log by way of the cause.
            raise self._failure(error) from None
        return self._checked(answer.data, len(texts))

    def _failure(self, error: BaseException) -> ArchwayError:
        return failure_of(error, self._name)

    @property
    def _name(self) -> str:
        return self._model.partition("/")[2]

    def _checked(self, rows: Any, count: int) -> Vectors:
        """Unit vectors in the order of the texts. Raises `Invalid` (`model_bad_answer`)."""
        if not isinstance(rows, list) or len(rows) != count:
            raise bad_answer(self._name)
        try:
            by_index = sorted(enumerate(rows), key=lambda pair: pair[0] if _index(pair[1]) is None else _index(pair[1]))
            vectors: NDArray[np.float32] = np.array([row["embedding"] for _, row in by_index], dtype=np.float32)
        except (ValueError, TypeError, KeyError):
            raise bad_answer(self._name) from None
        if vectors.ndim != 2 or not np.isfinite(vectors).all():
            raise bad_answer(self._name)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not lengths.all():
            raise bad_answer(self._name)
        self.dimensions = self.dimensions or vectors.shape[1]
        if vectors.shape[1] != self.dimensions:
            raise Invalid(
                '"%(model)s" answers with %(got)s dimensions instead of %(expected)s.',
                code="model_bad_answer",
                model=self._name,
                got=vectors.shape[1],
                expected=self.dimensions,
            )
        unit: Vectors = vectors / lengths
        return unit


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
