"""Where answers are kept: LiteLLM's `RedisSemanticCache` on a Redis with search, under our vectors and deadlines.

A store that is away or slow is no store: nobody waits for it longer than `STORE_SECONDS`, and after that it is left
alone for a while. Off unless `CACHE_REDIS_URL` is set. No answer is kept longer than a day.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import redis
from django.conf import settings
from redis.exceptions import RedisError

from portal.gateway import clients
from portal.gateway.centring import VERSION as CENTRING
from portal.gateway.centring import Centred, Centring
from portal.gateway.embedding import plain_embedder_for
from portal.gateway.local import weights
from portal.gateway.local.centring import language_axis, mean_vector
from portal.gateway.loops import PerLoop
from portal.gateway.models import ModelEndpoint
from portal.gateway.protocols import Embedder
from portal.gateway.reuse.likeness import may_share

logger = logging.getLogger(__name__)

SPACE = f"{weights.SPACE}+{CENTRING}"
# Least cosine by vector space, measured (docs/decisions/0117-answers-used-again.md). Other spaces keep no answers.
THRESHOLDS = {SPACE: 0.92}
STORE_SECONDS = 0.05
EMBED_SECONDS = 0.25
REST_SECONDS = 30.0
KEEP_SECONDS = 5.0
_INDEX = "archway-answers-1"
_QUERY = "socket_timeout=1&socket_connect_timeout=1"
_PURGED_AT_ONCE = 1000


def switched_on() -> bool:
    """Whether the operator has given the cache a place."""
    return bool(settings.CACHE_REDIS_URL)


@cache
def _embedder() -> Embedder:
    local = ModelEndpoint(provider=ModelEndpoint.Provider.LOCAL, kind=ModelEndpoint.Kind.EMBEDDING)
    return Centred(plain_embedder_for(local), Centring(mean_vector(), language_axis()), SPACE)


def _vector(text: str) -> list[float]:
    return [float(number) for number in np.asarray(_embedder().embed_queries([text]))[0]]


@cache
def _cache_class() -> type[Any]:
    from litellm.caching.redis_semantic_cache import RedisSemanticCache

    class Answers(RedisSemanticCache):
        """LiteLLM's cache with our vectors: its own would send every question to a provider."""

        def _get_embedding(self, prompt: str, metadata: dict[str, object] | None = None) -> list[float]:
            return _vector(prompt)

        async def _get_async_embedding(self, prompt: str, metadata: dict[str, Any] | None = None) -> list[float]:
            vector: list[float] = (metadata or {})["vector"]
            return vector

    return Answers


class Store:
    """The kept answers, as one event loop sees them."""

    def __init__(self) -> None:
        self._cache: Any = None
        self._opening: asyncio.Task[None] | None = None
        self._rests_until = 0.0

    async def find(self, key: str, question: str) -> tuple[dict[str, Any] | None, str]:
        """(what was kept for a question that means the same, what came of looking: hit, miss, refused or away)."""
        if not await self._is_open():
            return None, "away"
        try:
            async with asyncio.timeout(EMBED_SECONDS):
                vector = await asyncio.to_thread(_vector, question)
        except Exception as error:  # noqa: BLE001  # whatever the model's fault is, the question is asked anew
            logger.info("no vector for the answer cache: %s", type(error).__name__)
            return None, "away"
        try:
            async with asyncio.timeout(STORE_SECONDS):
                kept = await self._cache.async_get_cache(key, **self._asked(question, vector))
        except TimeoutError:
            self._rest("slow")
            return None, "away"
        if not isinstance(kept, dict) or not isinstance(kept.get("question"), str):
            return None, "miss"
        return (kept, "hit") if may_share(question, kept["question"]) else (None, "refused")

    async def keep(self, key: str, question: str, answer: dict[str, Any]) -> None:
        """Keep an answer; whoever calls this waits for nothing (`KEEP_SECONDS` at most, after the answer)."""
        if not await self._is_open():
            return
        try:
            async with asyncio.timeout(KEEP_SECONDS):
                vector = await asyncio.to_thread(_vector, question)
                written = json.dumps({**answer, "question": question}, ensure_ascii=False)
                asked = self._asked(question, vector)
                await self._cache.async_set_cache(key, written, ttl=settings.ARCHWAY["CACHE_SECONDS"], **asked)
        except Exception as error:  # noqa: BLE001  # an answer that is not kept is no loss
            self._rest(type(error).__name__)

    async def opened(self) -> bool:
        """Wait until the store is open, for tests and commands; False when it can not be."""
        await self._is_open()
        if self._opening is not None:
            await self._opening
        return self._cache is not None

    async def _is_open(self) -> bool:
        """Whether it may be asked now. Opening makes the index and loads libraries: it happens beside the answers."""
        if time.monotonic() < self._rests_until:
            return False
        if self._cache is None and (self._opening is None or self._opening.done()):
            self._opening = asyncio.create_task(self._open())
        return self._cache is not None

    async def _open(self) -> None:
        try:
            await clients.runtime()
            opened = await asyncio.to_thread(_opened_cache)
            # The first question on a connection takes longest; it is asked here, where nobody waits.
            await opened.llmcache.acheck(vector=await asyncio.to_thread(_vector, "-"), distance_threshold=0)
            self._cache = opened
        except Exception as error:  # noqa: BLE001  # the edge to a server and two libraries
            self._rest(type(error).__name__)

    def _rest(self, why: str) -> None:
        self._rests_until = time.monotonic() + REST_SECONDS
        logger.warning("the answer cache is away: %s", why)

    @staticmethod
    def _asked(question: str, vector: list[float]) -> dict[str, Any]:
        return {"messages": [{"role": "user", "content": question}], "metadata": {"vector": vector}}


def _opened_cache() -> Any:
    url = str(settings.CACHE_REDIS_URL)
    made = _cache_class()(
        redis_url=f"{url}{'&' if '?' in url else '?'}{_QUERY}",
        similarity_threshold=THRESHOLDS[SPACE],
        embedding_model=SPACE,
        index_name=_INDEX,
    )
    # Asked for here, in a thread: it makes the index, and asks the embedding model for the width of its vectors.
    assert made.llmcache is not None
    return made


store: Callable[[], Store] = PerLoop(Store).here


def purge(prefix: str) -> int:
    """Delete what is kept under keys that begin so; how many answers that were. Raises `RedisError`, `OSError`."""
    from litellm.caching.redis_semantic_cache import RedisSemanticCache

    gone = 0
    with redis.Redis.from_url(str(settings.CACHE_REDIS_URL), socket_timeout=10, socket_connect_timeout=3) as client:
        query = f"@{RedisSemanticCache.CACHE_KEY_FIELD_NAME}:{{{prefix}*}}"
        while True:
            try:
                found: Any = client.execute_command(
                    "FT.SEARCH", _INDEX, query, "NOCONTENT", "LIMIT", 0, _PURGED_AT_ONCE, "DIALECT", 2
                )
            except redis.ResponseError:
                return gone  # nothing has ever been kept
            names = _names(found)
            if not names:
                return gone
            gone += int(client.delete(*names))


def _names(found: Any) -> list[Any]:
    """The keys in an answer of FT.SEARCH, in either version of the protocol."""
    if isinstance(found, dict):
        rows: list[Any] = found.get("results") or found.get(b"results") or []
        return [row.get("id", row.get(b"id")) for row in rows]
    return list(found[1:])


__all__ = ["SPACE", "STORE_SECONDS", "THRESHOLDS", "RedisError", "Store", "purge", "store", "switched_on"]
