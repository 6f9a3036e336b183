"""Which event loop a model call runs on, and where its work with the database is done.

Calls are asyncio inside, so that they can be cancelled and timed. Callers of asyncio (sockets, streams) use
their own loop, and the database is asked in asgiref's thread of the request. Callers of threads (tasks,
ordinary views, commands) wait while one loop of the process works for them, and do the call's work with the
database themselves: it is their connection, with their transaction.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Hashable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

from asgiref.sync import sync_to_async
from django.db import connection

from portal.gateway import failures

T = TypeVar("T")


class Outside(Protocol):
    """What a call needs of the place it was called from."""

    async def database(self, work: Callable[[], T]) -> T:
        """Do `work`, which uses the ORM, where that is allowed."""
        ...

    async def shared(self, name: Hashable, work: Callable[[], T]) -> T:
        """Do `work`, or wait for somebody who is at it now under the same `name`: the result is the same."""
        ...

    async def together(self, write: Callable[[list[T]], None], item: T) -> None:
        """Have `item` written by `write`, with what others have to write at the same time. Raises as `write` does."""
        ...


class OwnLoop:
    """For callers that are asyncio themselves. What many of them do at once is done once."""

    async def database(self, work: Callable[[], T]) -> T:
        done: T = await sync_to_async(_and_give_back, thread_sensitive=True)(work)
        return done

    async def shared(self, name: Hashable, work: Callable[[], T]) -> T:
        running = _running.here()
        task = running.get(name)
        if task is None:
            task = running[name] = asyncio.ensure_future(self.database(work))
            task.add_done_callback(lambda _: running.pop(name))
        # Who gives up waiting does not take the answer from the others.
        done: T = await asyncio.shield(task)
        return done

    async def together(self, write: Callable[[list[T]], None], item: T) -> None:
        desk = _desks.here().setdefault(write, _Desk())
        mine = _Item(item)
        desk.waiting.append(mine)
        # Whoever's turn comes writes for all that wait by then, so nobody stays for others' sake afterwards.
        async with desk.turn:
            if mine.done:
                if mine.error is not None:
                    raise mine.error
                return
            taken, desk.waiting = desk.waiting, []
            try:
                await self.database(lambda: write([one.value for one in taken]))
            except BaseException as error:
                for one in taken:
                    one.error = error
                raise
            finally:
                for one in taken:
                    one.done = True


def _and_give_back(work: Callable[[], T]) -> T:
    """With a pool of connections, a stream of minutes must not keep one: fifty would starve everybody else."""
    try:
        return work()
    finally:
        pooled = connection.settings_dict["OPTIONS"].get("pool")
        if pooled and not connection.in_atomic_block:
            connection.close()


class _Waiting:
    """For a thread that waits for a call on the process's loop: its work comes back through a queue."""

    def __init__(self) -> None:
        self.inbox: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()

    async def database(self, work: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def settle(value: Any, error: BaseException | None) -> None:
            if not done.done():
                done.set_exception(error) if error is not None else done.set_result(value)

        def here() -> None:
            try:
                value = work()
            except BaseException as error:
                # It belongs to the call, whoever's thread it happened in.
                loop.call_soon_threadsafe(settle, None, error)
                if not isinstance(error, Exception):
                    raise
            else:
                loop.call_soon_threadsafe(settle, value, None)

        self.inbox.put(here)
        return await done

    async def shared(self, name: Hashable, work: Callable[[], T]) -> T:
        return await self.database(work)

    async def together(self, write: Callable[[list[T]], None], item: T) -> None:
        await self.database(lambda: write([item]))


def wait_for(make: Callable[[Outside], Awaitable[T]]) -> T:
    """Run a call for a caller that is no coroutine, and return its result. Interrupting the wait cancels the call."""

    async def one(outside: Outside, put: Callable[[T], None]) -> None:
        put(await make(outside))

    parts = _worked(one)
    try:
        return next(parts)
    finally:
        parts.close()


async def within(seconds: float | None, model: str, work: Awaitable[T]) -> T:
    """Await `work`, cancelled after so many seconds. Raises `Unavailable` (model_timeout)."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        raise failures.too_slow(model) from None


def iterate(make: Callable[[Outside], AsyncGenerator[T]]) -> Generator[T]:
    """The parts of a call, for a caller that is no coroutine. Closing the iterator cancels the call."""

    async def every(outside: Outside, put: Callable[[T], None]) -> None:
        async with aclosing(make(outside)) as parts:
            async for part in parts:
                put(part)

    return _worked(every)


async def to_the_end(work: Awaitable[T]) -> T:
    """Await `work` even when the caller is cancelled meanwhile; the cancellation is raised afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                raise
            cancelled = error
        except Exception:  # noqa: BLE001, S110  # it is in the task, and raised by `result` below
            pass
    if cancelled is not None:
        raise cancelled
    return task.result()


class Watch:
    """Ends a task's wait after its time, as `asyncio.timeout` does, for waits that follow each other by the thousand.

    Its timer looks at the deadline only when it goes off, so that a wait that ends in time costs two assignments.
    What lies between `end` and the next `begin`, a consumer's own work for instance, is not timed.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[Any] | None = None
        self._went_off = False

    def begin(self, seconds: float) -> None:
        self._deadline = self._loop.time() + max(seconds, 0.0)
        self._task = asyncio.current_task()
        if self._timer is None or self._timer.when() > self._deadline:
            self._set()

    def end(self) -> None:
        self._deadline = None

    def _set(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        assert self._deadline is not None
        self._timer = self._loop.call_at(self._deadline, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._deadline is None:
            return
        if self._loop.time() < self._deadline:
            self._set()
        elif self._task is not None:
            self._went_off = True
            self._task.cancel()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._deadline = None
        if self._timer is not None:
            self._timer.cancel()
        if self._went_off and self._task is not None:
            self._task.uncancel()
            if kind is asyncio.CancelledError and not self._task.cancelling():
                raise TimeoutError from error


def _worked(start: Callable[[_Waiting, Callable[[T], None]], Awaitable[None]]) -> Generator[T]:
    outside = _Waiting()
    parts: list[T] = []

    def put(part: T) -> None:
        outside.inbox.put(lambda: parts.append(part))

    loop = _process_loop()
    tasks: list[asyncio.Task[None]] = []

    async def run() -> None:
        await start(outside, put)

    def begin() -> None:
        task = loop.create_task(run())
        # The last thing that comes, when the call has said goodbye, cancelled or not.
        task.add_done_callback(lambda _: outside.inbox.put(None))
        tasks.append(task)

    loop.call_soon_threadsafe(begin)
    ended = False
    try:
        while (work := outside.inbox.get()) is not None:
            work()
            while parts:
                yield parts.pop(0)
        ended = True
        tasks[0].result()
    finally:
        if not ended:
            loop.call_soon_threadsafe(lambda: tasks[0].cancel())
            # Its record is written by this thread.
            while (work := outside.inbox.get()) is not None:
                work()
            if not tasks[0].cancelled():
                tasks[0].exception()  # looked at, so that nobody reports it as forgotten


_loop: asyncio.AbstractEventLoop | None = None
_starting = threading.Lock()


def _process_loop() -> asyncio.AbstractEventLoop:
    global _loop
    with _starting:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="model-calls", daemon=True).start()
        return _loop


def _forget() -> None:
    """A child of a fork has no thread that would run its parent's loop."""
    global _loop, _starting
    _loop, _starting = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)


class PerLoop(WeakKeyDictionary[asyncio.AbstractEventLoop, T]):
    """One value for each event loop, made at its first use there: clients hold sockets of their loop."""

    def __init__(self, make: Callable[[], T]) -> None:
        super().__init__()
        self._make = make

    def here(self) -> T:
        loop = asyncio.get_running_loop()
        if loop not in self:
            self[loop] = self._make()
        return self[loop]


@dataclass
class _Item:
    """Something to be written, and what became of it."""

    value: Any
    done: bool = False
    error: BaseException | None = None


@dataclass
class _Desk:
    """Where items wait to be written together."""

    waiting: list[_Item] = field(default_factory=list)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


_running: PerLoop[dict[Hashable, asyncio.Task[Any]]] = PerLoop(dict)
_desks: PerLoop[dict[Any, _Desk]] = PerLoop(dict)
