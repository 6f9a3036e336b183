"""Answers of the ask page while they are written: a writer that outlives the page, and pages that follow it.

The writer is a task of the web process that was asked first. What it writes goes to a stream in Redis, from where
any page follows it from the beginning, also after a reload or in another process; the whole answer goes to the
record. Asking it to stop works from any process and closes the provider's connection.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.db import connections
from django.utils import translation
from redis.exceptions import RedisError

from knowledge import asking
from knowledge.answering import records
from knowledge.answering.contract import Answer, Event, Prepared, State
from knowledge.answering.writing import Draft, written
from knowledge.models import QueryRecord
from portal.gateway.scripts import client
from portal.kernel import events
from portal.kernel.errors import ArchwayError
from portal.kernel.models import Workspace
from portal.kernel.principal import Principal

logger = logging.getLogger(__name__)

# Seconds: how long the stream is kept, how long a writer may be silent, how often it writes, how often pages look.
KEPT = 900
SILENT = 15
_WRITES_EVERY = 0.05
_SIGNS_EVERY = 0.5
_LOOKS_EVERY = 0.08
# A revocation is seen after so long at the latest, and at once by whoever opens the page anew.
ACCESS_HOLDS = 1.0
_COMMENT_EVERY = 15.0
_MOST_EVENTS = 20_000
_tasks: set[asyncio.Task[None]] = set()


def _stream(uid: str) -> str:
    return f"run:answer:{uid}"


def stop(record: QueryRecord) -> bool:
    """Ask the writer to stop; an answer that nobody writes yet is ended at once. False when it has ended already."""
    waiting = QueryRecord.objects.filter(pk=record.pk, answering=State.WAITING)
    if waiting.update(answering=State.STOPPED, answer={**record.answer, "state": "stopped", "text": ""}) == 1:
        return True
    if record.answering != State.WRITING:
        return False
    events.client().set(f"{_stream(record.uid)}:stop", 1, ex=KEPT)
    return True


async def followed(principal: Principal, uid: str, after: str = "0") -> AsyncGenerator[str]:
    """The events of an answer as server-sent events, from the one after `after`; begins it when nobody has."""
    stream = _stream(uid)
    after = after if _is_id(after) else "0"
    access = _Access(principal, uid)
    spoke = time.monotonic()
    record = await access.record()
    if record is None:
        return
    language = translation.get_language() or "en"
    while True:
        if record.answering == State.WAITING:
            await _begin(principal, record, language)
        try:
            found: Any = await client().xrange(stream, min=f"({after}" if after != "0" else "-", count=500)
            alive = bool(found) or bool(await client().exists(f"{stream}:alive"))
        except (RedisError, OSError) as error:
            logger.warning("an answer can not be followed: %s", type(error).__name__)
            found, alive = [], True
        if not await access.holds():
            return
        for key, fields in found:
            after, spoke = key.decode(), time.monotonic()
            name = fields[b"name"].decode()
            yield f"id: {after}\nevent: {name}\ndata: {fields[b'data'].decode()}\n\n"
            if name == "answer.done":
                return
        if not found:
            record = await access.record()
            if record is None:
                return
            if record.answering == State.WRITING and not alive:
                await _lost(record)
                record = await access.record()
            if record is None:
                return
            if record.answering not in records.OPEN:
                yield framed(Event("answer.done", record.answer))
                return
            if time.monotonic() - spoke > _COMMENT_EVERY:
                spoke = time.monotonic()
                yield ": still here\n\n"
        await asyncio.sleep(_LOOKS_EVERY)


def framed(event: Event, number: int | None = None) -> str:
    """An event as server-sent events have it."""
    head = f"id: {number}\n" if number is not None else ""
    return f"{head}event: {event.name}\ndata: {json.dumps(event.data, ensure_ascii=False)}\n\n"


def _is_id(text: str) -> bool:
    first, _, second = text.partition("-")
    return first.isdecimal() and second.isdecimal() and len(text) < 40


@dataclass
class _Access:
    """Whether its person may still read an answer; looked up anew when access has moved, or it is a while ago."""

    principal: Principal
    uid: str
    version: int = -1
    at: float = 0.0

    async def record(self) -> QueryRecord | None:
        return await sync_to_async(asking.readable_record)(self.principal, self.uid)

    async def holds(self) -> bool:
        if time.monotonic() - self.at < ACCESS_HOLDS:
            return True
        self.at = time.monotonic()
        return await sync_to_async(self._looked_up)()

    def _looked_up(self) -> bool:
        rows = Workspace.objects.filter(pk=self.principal.workspace_id)
        version = rows.values_list("acl_version", flat=True).first()
        if version == self.version:
            return True
        self.version = -1 if version is None else version
        return asking.readable_record(self.principal, self.uid) is not None


async def _begin(principal: Principal, record: QueryRecord, language: str) -> None:
    """Take the answer and write it in a task of its own, which goes on when the page is gone."""
    try:
        prepared = await sync_to_async(records.claim)(principal, record)
    except ArchwayError as error:
        gone = Answer("direct", State.FAILED, code=error.code, message=error.sentence())
        await sync_to_async(records.finish)(record, gone)
        return
    if prepared is None:
        return
    await client().set(f"{_stream(record.uid)}:alive", 1, ex=SILENT)
    # A context of its own: the request's ends with the page, and its thread with it.
    task = asyncio.get_running_loop().create_task(_written(record, prepared, language), context=contextvars.Context())
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


async def _lost(record: QueryRecord) -> None:
    """End an answer whose writer was killed, with what stands in the stream."""
    found: Any = await client().xrange(_stream(record.uid))
    parts = [(fields[b"name"], json.loads(fields[b"data"])) for _, fields in found]
    text = "".join(data["text"] for name, data in parts if name == b"answer.delta")
    cited = [int(data["number"]) for name, data in parts if name == b"answer.citation"]
    await sync_to_async(records.interrupt)(record, text, cited, "process_ended")


@dataclass
class _Page:
    """What has been written and not yet put into the stream."""

    stream: str
    waiting: list[Event] = field(default_factory=list)

    async def turn(self) -> None:
        """Put it there, deltas joined."""
        taken, self.waiting = self.waiting, []
        if not taken:
            return
        try:
            pipe = client().pipeline(transaction=False)
            for event in _joined(taken):
                fields: Any = {"name": event.name, "data": json.dumps(event.data, ensure_ascii=False)}
                pipe.xadd(self.stream, fields, maxlen=_MOST_EVENTS, approximate=True)
            pipe.expire(self.stream, KEPT)
            await pipe.execute()
        except (RedisError, OSError) as error:
            # The record will hold the whole.
            logger.warning("a piece of an answer is not shown live: %s", type(error).__name__)


def _joined(taken: list[Event]) -> list[Event]:
    found: list[Event] = []
    for event in taken:
        if found and event.name == found[-1].name == "answer.delta":
            found[-1] = Event(event.name, {"text": found[-1].data["text"] + event.data["text"]})
        else:
            found.append(event)
    return found


async def _written(record: QueryRecord, prepared: Prepared, language: str) -> None:
    """Write an answer to its end, or until somebody stops it."""
    async with ThreadSensitiveContext():
        translation.activate(language)
        page = _Page(_stream(record.uid))
        seen: list[Event] = []
        writing = asyncio.ensure_future(_collected(prepared, page, seen))
        try:
            stopped = await _watched(writing, page)
            answer = _stopped(prepared, seen) if stopped else _last(writing.result())
            await sync_to_async(records.finish)(record, answer)
            page.waiting.append(Event("answer.done", answer.as_json()))
            await page.turn()
        except Exception:
            # The outermost edge of the task: nobody else would hear of it. The page finds the writer gone.
            logger.exception("an answer was not written to its end")
            await client().delete(f"{page.stream}:alive")
        finally:
            writing.cancel()
            await sync_to_async(connections.close_all)()


async def _collected(prepared: Prepared, page: _Page, seen: list[Event]) -> Answer:
    answer: Answer | None = None
    async with aclosing(written(prepared)) as parts:
        async for event in parts:
            if event.name == "answer.done":
                answer = Answer.of(event.data)
                continue
            seen.append(event)
            page.waiting.append(event)
    assert answer is not None  # `written` ends with it
    return answer


async def _watched(writing: asyncio.Future[Answer], page: _Page) -> bool:
    """Turn the page until the answer has ended; True when it was stopped."""
    signs = 0.0
    while not writing.done():
        await asyncio.wait({writing}, timeout=_WRITES_EVERY)
        await page.turn()
        if time.monotonic() - signs < _SIGNS_EVERY:
            continue
        signs = time.monotonic()
        try:
            pipe = client().pipeline(transaction=False)
            pipe.set(f"{page.stream}:alive", 1, ex=SILENT)
            pipe.exists(f"{page.stream}:stop")
            _, wanted = await pipe.execute()
        except (RedisError, OSError):
            continue
        if wanted and not writing.done():
            writing.cancel()
            await asyncio.wait({writing})
            return writing.cancelled()
    return False


def _stopped(prepared: Prepared, seen: list[Event]) -> Answer:
    text = "".join(event.data["text"] for event in seen if event.name == "answer.delta")
    cited = tuple(event.data["number"] for event in seen if event.name == "answer.citation")
    return replace(Draft(prepared).answer(State.STOPPED), text=text, citations=cited)


def _last(answer: Answer) -> Answer:
    # The passages stand below the question on the page; the record need not hold them twice.
    return replace(answer, text="") if answer.state == State.FAILED else answer
