"""The operator's cross-encoder as our other processes ask for it: in the embedding process, or loaded in their own."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate

import httpx
from django.conf import settings

from portal.gateway import failures
from portal.gateway.embedding import local_address
from portal.gateway.local.cross_encoder import loaded
from portal.gateway.protocols import Ranked
from portal.kernel.errors import Unavailable

NAME = "local"
_CONNECT_SECONDS = 1.0


def available() -> bool:
    """Whether the operator has supplied a model."""
    return bool(settings.ARCHWAY["RERANK_MODEL"])


class LocalReranker:
    """A `Reranker`. Raises `Unavailable` (rerank_unavailable, model_timeout), `Invalid` (rerank_model_unusable)."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def rerank(self, query: str, texts: Sequence[str]) -> list[Ranked]:
        if not available():
            raise Unavailable("No local rerank model is installed.", code="rerank_unavailable")
        scores = self._here(query, texts) if settings.ARCHWAY["EMBEDDING_MODE"] == "inprocess" else None
        rows = scores if scores is not None else self._there(query, texts)
        return sorted(rows, key=lambda row: -row.score)

    def _here(self, query: str, texts: Sequence[str]) -> list[Ranked]:
        late = threading.Event()

        def scores() -> list[Ranked]:
            model, found = loaded(settings.ARCHWAY["RERANK_MODEL"]), []
            for index, text in enumerate(texts):
                if late.is_set():
                    break
                found.append(Ranked(index, model.score(query, text)))
            return found

        pool = ThreadPoolExecutor(1, "rerank")
        try:
            return pool.submit(scores).result(self._seconds)
        except TooLate:
            raise failures.too_slow(NAME) from None
        finally:
            late.set()
            pool.shutdown(wait=False)

    def _there(self, query: str, texts: Sequence[str]) -> list[Ranked]:
        url = local_address().rstrip("/")
        if not url:
            raise Unavailable("The local rerank model is away.", code="rerank_unavailable")
        headers = {"Authorization": f"Bearer {settings.ARCHWAY['EMBEDDING_TOKEN']}"}
        timeout = httpx.Timeout(self._seconds, connect=_CONNECT_SECONDS)
        body = json.dumps({"query": query, "documents": list(texts)})
        try:
            with httpx.Client(trust_env=False) as client:
                answer = client.post(f"{url}/v1/rerank", content=body, headers=headers, timeout=timeout)
            rows = answer.json()["results"]
            return [Ranked(int(row["index"]), float(row["relevance_score"])) for row in rows]
        except httpx.TimeoutException:
            raise failures.too_slow(NAME) from None
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            raise Unavailable("The local rerank model is away.", code="rerank_unavailable") from error
