"""May an endpoint be called now: its circuit breaker, calls at once and calls a minute, shared by all workers.

Everything stands in Redis and expires: what a killed worker held is given back by time alone. With Redis away
calls pass, as requests do in `kernel.limits`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from redis.exceptions import RedisError

from portal.gateway.models import ModelEndpoint
from portal.gateway.scripts import run_script
from portal.kernel.errors import Unavailable

logger = logging.getLogger(__name__)

FAILURES_TO_OPEN = 5
OPEN_SECONDS = 30
# How long one call may try out an endpoint whose breaker was open, before another may.
PROBE_SECONDS = 20
WAIT_SECONDS = 15.0
_KEEP_SECONDS = 600

_ENTER = """
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local lease, most, rate = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local state = redis.call('HMGET', KEYS[3], 'until', 'failures', 'probe')
local wait = tonumber(state[1] or 0) - now
if wait > 0 then return {'resting', tostring(wait)} end
local trying = tonumber(state[2] or 0) >= tonumber(ARGV[5])
if trying and tonumber(state[3] or 0) > now then return {'resting', tostring(tonumber(state[3]) - now)} end
if most > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
  if redis.call('ZCARD', KEYS[1]) >= most then return {'full', '0'} end
end
if rate > 0 then
  local slot = math.floor(now / 60)
  local current, before = KEYS[2] .. ':' .. slot, KEYS[2] .. ':' .. (slot - 1)
  local inside = 1 - (now % 60) / 60
  local used, earlier = tonumber(redis.call('GET', current) or 0), tonumber(redis.call('GET', before) or 0)
  if used + earlier * inside >= rate then
    local pause = 60 - (now % 60)
    if used < rate then pause = (inside - (rate - used - 1) / earlier) * 60 end
    return {'rate', tostring(pause)}
  end
  redis.call('INCR', current)
  redis.call('EXPIRE', current, 120)
end
if most > 0 then
  redis.call('ZADD', KEYS[1], now + lease, ARGV[1])
  redis.call('EXPIRE', KEYS[1], math.ceil(lease) + 60)
end
if trying then redis.call('HSET', KEYS[3], 'probe', now + tonumber(ARGV[6])) end
return {'in', trying and '1' or '0'}
"""
_LEAVE = """
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
redis.call('ZREM', KEYS[1], ARGV[1])
local outcome, rest = ARGV[2], tonumber(ARGV[3])
if outcome == 'ok' then redis.call('DEL', KEYS[2]) return 0 end
redis.call('HDEL', KEYS[2], 'probe')
if outcome == 'fault' then
  local failures = redis.call('HINCRBY', KEYS[2], 'failures', 1)
  if failures >= tonumber(ARGV[4]) and rest < tonumber(ARGV[5]) then rest = tonumber(ARGV[5]) end
  redis.call('EXPIRE', KEYS[2], tonumber(ARGV[6]))
end
if rest > 0 then
  redis.call('HSET', KEYS[2], 'until', now + rest)
  redis.call('EXPIRE', KEYS[2], math.ceil(rest) + tonumber(ARGV[6]))
end
return 0
"""


@dataclass
class Entry:
    """A place at an endpoint, until `leave`. `outcome`: ok, fault (counts for the breaker), or neither ("")."""

    outcome: str = ""
    rest_seconds: float = 0.0


class Resting(Unavailable):
    """The endpoint may not be called for `seconds`."""

    def __init__(self, message: str, *, code: str, endpoint: ModelEndpoint, seconds: float) -> None:
        super().__init__(message, code=code, model=endpoint.name)
        self.seconds = seconds


@asynccontextmanager
async def entered(endpoint: ModelEndpoint, call: str, *, patience: float = WAIT_SECONDS) -> AsyncIterator[Entry]:
    """A place at the endpoint for the call named `call`.

    Waits for a free place up to `patience` seconds. Raises `Resting` (model_resting: the breaker is open or the
    provider asked for a pause; model_busy: no place became free; model_rate_reached).
    """
    await _enter(endpoint, call, patience)
    entry = Entry()
    try:
        yield entry
    finally:
        await asyncio.shield(_leave(endpoint, call, entry))


async def _enter(endpoint: ModelEndpoint, call: str, patience: float) -> None:
    clock = asyncio.get_running_loop()
    deadline = clock.time() + patience
    pause = 0.02
    while True:
        answer = await run_script(
            _ENTER,
            [_key(endpoint, "running"), _key(endpoint, "rate"), _key(endpoint, "breaker")],
            call,
            endpoint.total_seconds + 30,
            endpoint.max_running,
            endpoint.per_minute,
            FAILURES_TO_OPEN,
            PROBE_SECONDS,
        )
        if answer is None or answer[0] == b"in":
            return
        left = deadline - clock.time()
        wait = float(answer[1])
        if answer[0] == b"resting":
            raise Resting(
                'The model "%(model)s" rests after failures.', code="model_resting", endpoint=endpoint, seconds=wait
            )
        if answer[0] == b"rate" and wait > left:
            raise Resting(
                'The model "%(model)s" was asked too often.', code="model_rate_reached", endpoint=endpoint, seconds=wait
            )
        if left <= 0:
            raise Resting(
                'The model "%(model)s" has too much to do.', code="model_busy", endpoint=endpoint, seconds=1.0
            )
        if answer[0] == b"full":
            wait, pause = pause * random.uniform(0.5, 1.5), min(pause * 1.5, 0.25)  # noqa: S311  # spreads, hides nothing
        await asyncio.sleep(min(wait, left))


async def _leave(endpoint: ModelEndpoint, call: str, entry: Entry) -> None:
    await run_script(
        _LEAVE,
        [_key(endpoint, "running"), _key(endpoint, "breaker")],
        call,
        entry.outcome,
        entry.rest_seconds,
        FAILURES_TO_OPEN,
        OPEN_SECONDS,
        _KEEP_SECONDS,
    )


def _key(endpoint: ModelEndpoint, what: str) -> str:
    return f"limit:model:{endpoint.uid}:{what}"


def close_breaker(endpoint: ModelEndpoint) -> None:
    """Forget failures: a person has tested or changed the endpoint."""
    from portal.kernel.events import client as plain

    try:
        plain().delete(_key(endpoint, "breaker"))
    except (RedisError, OSError) as error:
        logger.warning("limits of models are away: %s", type(error).__name__)
