"""What many calls do at once with the database."""

from __future__ import annotations

import asyncio
import threading

import pytest
from asgiref.sync import async_to_sync

from portal.gateway.loops import OwnLoop


def test_what_many_look_up_at_once_is_looked_up_once() -> None:
    looked: list[int] = []

    def look() -> str:
        looked.append(1)
        return "found"

    async def many() -> list[str]:
        outside = OwnLoop()
        return await asyncio.gather(*(outside.shared("name", look) for _ in range(20)))

    assert async_to_sync(many)() == ["found"] * 20
    assert looked == [1]


def test_a_look_up_that_has_ended_is_not_remembered() -> None:
    async def twice() -> list[int]:
        outside = OwnLoop()
        return [await outside.shared("name", lambda: 1), await outside.shared("name", lambda: 2)]

    assert async_to_sync(twice)() == [1, 2]


def test_who_gives_up_looking_does_not_take_the_answer_from_the_others() -> None:
    may_end = threading.Event()

    async def one_leaves() -> str:
        def look() -> str:
            may_end.wait(10)
            return "found"

        leaving = asyncio.ensure_future(OwnLoop().shared("name", look))
        staying = asyncio.ensure_future(OwnLoop().shared("name", look))
        await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        may_end.set()
        return await staying

    assert async_to_sync(one_leaves)() == "found"


def test_what_comes_while_others_are_written_is_written_together() -> None:
    batches: list[list[int]] = []

    async def many() -> None:
        await asyncio.gather(*(OwnLoop().together(batches.append, number) for number in range(10)))

    async_to_sync(many)()
    # The first writes at once, for itself alone.
    assert batches == [[0], list(range(1, 10))]


def test_a_failure_of_writing_reaches_each_whose_item_it_was_and_nobody_after() -> None:
    written: list[list[int]] = []

    def write(items: list[int]) -> None:
        if 1 in items:
            raise OSError("full")
        written.append(items)

    async def some() -> list[object]:
        found = await asyncio.gather(*(OwnLoop().together(write, n) for n in (0, 1, 2)), return_exceptions=True)
        await OwnLoop().together(write, 3)
        return list(found)

    assert [type(each) for each in async_to_sync(some)()] == [type(None), OSError, OSError]
    assert written == [[0], [3]]
