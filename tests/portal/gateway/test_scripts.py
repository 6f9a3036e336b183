"""Scripts in Redis that are called at the same instant."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from portal.gateway import scripts
from portal.kernel.events import client as plain

_ADD = "return redis.call('INCRBY', KEYS[1], ARGV[1])"


def processed() -> int:
    """Commands that Redis was sent; scripts among them count once."""
    calls: dict[str, Any] = plain().info("commandstats")
    return sum(int(calls.get(f"cmdstat_{name}", {}).get("calls", 0)) for name in ("evalsha", "eval"))


def test_each_of_many_calls_gets_its_own_answer() -> None:
    async def many() -> list[Any]:
        return await asyncio.gather(*(scripts.run_script(_ADD, [f"limit:test:{n}"], n) for n in range(1, 40)))

    plain().delete(*(f"limit:test:{n}" for n in range(1, 40)))
    assert async_to_sync(many)() == list(range(1, 40))


def test_a_script_that_redis_has_forgotten_is_sent_again_and_runs_once() -> None:
    plain().delete("limit:test:once")
    plain().script_flush()
    before = processed()
    assert async_to_sync(scripts.run_script)(_ADD, ["limit:test:once"], 7) == 7
    assert processed() - before == 2
    assert async_to_sync(scripts.run_script)(_ADD, ["limit:test:once"], 7) == 14
    assert processed() - before == 3


def test_a_script_that_fails_takes_nobody_else_along() -> None:
    async def two() -> tuple[Any, Any]:
        bad = scripts.run_script("return redis.call('NO_SUCH_COMMAND')", ["limit:test:x"])
        failed, added = await asyncio.gather(bad, scripts.run_script(_ADD, ["limit:test:y"], 1))
        return failed, added

    plain().delete("limit:test:y")
    assert async_to_sync(two)() == (None, 1)


def test_who_gives_up_waiting_leaves_the_others_their_answers() -> None:
    async def one_leaves() -> Any:
        leaving = asyncio.ensure_future(scripts.run_script(_ADD, ["limit:test:a"], 1))
        staying = asyncio.ensure_future(scripts.run_script(_ADD, ["limit:test:b"], 2))
        await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        return await staying

    plain().delete("limit:test:a", "limit:test:b")
    assert async_to_sync(one_leaves)() == 2
