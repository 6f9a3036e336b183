"""The route of the embedding process that ranks texts with the operator's cross-encoder, in Cohere's shape.

One thread works for all callers, one text after the other, so that embedding goes on beside it; a caller who hangs
up is forgotten at the next text.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from portal.gateway.local.cross_encoder import loaded
from portal.kernel.errors import Invalid, TooMany

MOST_TEXTS = 1_000
MOST_WAITING = 16

Body = Callable[[Request], Awaitable[bytes]]
Gone = Callable[[Request], Awaitable[None]]


class RerankService:
    """`POST /v1/rerank` {query, documents} → {results: [{index, relevance_score}]}."""

    def __init__(self, folder: str, check: Callable[[Request], None], body: Body, gone: Gone) -> None:
        self._folder = folder
        self._check = check
        self._body = body
        self._gone = gone
        self._pool = ThreadPoolExecutor(1, "rerank")
        self._waiting = 0

    async def rerank(self, request: Request) -> Response:
        self._check(request)
        query, texts = _parsed(await self._body(request))
        if self._waiting >= MOST_WAITING:
            raise TooMany("Too many questions are being ranked.", retry_after=1, code="rerank_busy")
        stopped = threading.Event()
        self._waiting += 1
        work = asyncio.get_running_loop().run_in_executor(self._pool, self._scores, query, texts, stopped)
        leaving = asyncio.ensure_future(self._gone(request))
        try:
            either: set[asyncio.Future[Any]] = {work, leaving}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise ClientDisconnect
            scores = work.result()
        finally:
            self._waiting -= 1
            stopped.set()
            leaving.cancel()
        results = [{"index": index, "relevance_score": score} for index, score in enumerate(scores)]
        return JSONResponse({"results": sorted(results, key=lambda row: -row["relevance_score"])})

    def _scores(self, query: str, texts: list[str], stopped: threading.Event) -> list[float]:
        scores = []
        for text in texts:
            if stopped.is_set():
                break
            scores.append(loaded(self._folder).score(query, text))
        return scores


def _parsed(body: bytes) -> tuple[str, list[str]]:
    try:
        data = json.loads(body)
        query, texts = data["query"], data["documents"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Invalid("The body must be JSON with a query and documents.", code="invalid_json") from error
    sound = isinstance(query, str) and isinstance(texts, list) and all(isinstance(text, str) for text in texts)
    if not sound or len(texts) > MOST_TEXTS:
        raise Invalid("documents must be at most %(count)s texts.", param="documents", count=MOST_TEXTS)
    return query, texts
