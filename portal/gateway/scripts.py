"""Scripts in Redis: those that are called in one turn of a loop travel together, in one round trip.

Fifty calls that begin at the same instant would otherwise take turns on connections, and each would pay for its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from functools import cache
from typing import Any

import redis.asyncio
from django.conf import settings
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError
from redis.retry import Retry

from portal.gateway.loops import PerLoop

logger = logging.getLogger(__name__)

_Ask = tuple[str, list[str], list[str]]


def _new_client() -> redis.asyncio.Redis:
    # Few connections, waited for in turn: a burst of calls must not open hundreds. Redis that is gone refuses at
    # once; the long timeout is for a loop that was busy while the answer lay ready.
    pool = redis.asyncio.BlockingConnectionPool.from_url(
        settings.REDIS_URL,
        max_connections=16,
        timeout=30,
        socket_timeout=15,
        socket_connect_timeout=5,
        retry=Retry(NoBackoff(), 1),
    )
    return redis.asyncio.Redis(connection_pool=pool)


_clients: PerLoop[redis.asyncio.Redis] = PerLoop(_new_client)


def client() -> redis.asyncio.Redis:
    """The Redis client of the running event loop."""
    return _clients.here()


async def run_script(script: str, keys: list[str], *arguments: object) -> Any:
    """One script in one step; None when Redis is away, which is logged and stops nobody."""
    return await _turns.here().ask((script, keys, [str(argument) for argument in arguments]))


class _Turn:
    """What one loop asks of Redis in this turn."""

    def __init__(self) -> None:
        self._waiting: list[tuple[_Ask, asyncio.Future[Any]]] = []
        self._sending: set[asyncio.Task[None]] = set()

    async def ask(self, ask: _Ask) -> Any:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._send)
        self._waiting.append((ask, answer))
        return await answer

    def _send(self) -> None:
        taken, self._waiting = self._waiting, []
        task = asyncio.get_running_loop().create_task(_answer(taken))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)


async def _answer(taken: list[tuple[_Ask, asyncio.Future[Any]]]) -> None:
    try:
        found = await _asked([ask for ask, _ in taken])
    except (RedisError, OSError) as error:
        logger.warning("limits of models are away: %s", type(error).__name__)
        found = [None] * len(taken)
    except BaseException:
        for _, answer in taken:
            answer.cancel()
        raise
    for (_, answer), value in zip(taken, found, strict=True):
        if isinstance(value, RedisError):
            logger.warning("limits of models are away: %s", type(value).__name__)
            value = None
        if not answer.done():
            answer.set_result(value)


async def _asked(asks: list[_Ask]) -> list[Any]:
    """The answer to each, or its error. Redis knows a script by its hash once it was sent in full."""
    pipe = client().pipeline(transaction=False)
    for script, keys, arguments in asks:
        pipe.evalsha(_hash(script), len(keys), *keys, *arguments)
    found = await pipe.execute(raise_on_error=False)
    unknown = [place for place, value in enumerate(found) if isinstance(value, NoScriptError)]
    if unknown:
        for place in unknown:
            script, keys, arguments = asks[place]
            pipe.eval(script, len(keys), *keys, *arguments)
        for place, value in zip(unknown, await pipe.execute(raise_on_error=False), strict=True):
            found[place] = value
    return found


@cache
def _hash(script: str) -> str:
    return hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()


_turns: PerLoop[_Turn] = PerLoop(_Turn)
