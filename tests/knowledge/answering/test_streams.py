"""The API's answers as server-sent events, from a real model server over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from django.test import AsyncClient

from knowledge.models import QueryRecord
from portal.gateway.models import UsageRecord
from portal.kernel import keys
from tests.support.model_server import ModelServer
from tests.support.models import chat_endpoint
from tests.support.people import World

pytestmark = pytest.mark.django_db(transaction=True)


def secret_of(world: World) -> str:
    _, secret = keys.create(world.principal(world.bob), name="k", scopes=["kb:read", "chat"])
    return secret


async def stream(secret: str, **more: Any) -> AsyncIterator[bytes]:
    body = {"query": "How many days of annual leave?", "processing": "model_opt", "stream": True, **more}
    headers = {"Authorization": f"Bearer {secret}"}
    answer = await AsyncClient().post("/api/v1/ask", json.dumps(body), content_type="application/json", headers=headers)
    assert answer["Content-Type"].startswith("text/event-stream"), answer
    parts: AsyncIterator[bytes] = aiter(answer.streaming_content)  # type: ignore[attr-defined]
    return parts


def read(frame: bytes) -> tuple[str, dict[str, Any]]:
    lines = dict(line.split(": ", 1) for line in frame.decode().strip().split("\n"))
    return lines["event"], json.loads(lines["data"])


def all_of(secret: str, **more: Any) -> list[tuple[str, dict[str, Any]]]:
    async def collected() -> list[tuple[str, dict[str, Any]]]:
        return [read(frame) async for frame in await stream(secret, **more)]

    return asyncio.run(collected())


def test_events_have_stable_names_and_add_up_to_the_answer(library: World, models: ModelServer) -> None:
    chat_endpoint(models, is_default=True)
    events = all_of(secret_of(library))
    names = [name for name, _ in events]
    assert names[0] == "answer.start" and names[-1] == "answer.done"
    assert set(names) == {"answer.start", "answer.delta", "answer.citation", "answer.done"}
    whole = events[-1][1]
    assert "".join(data["text"] for name, data in events if name == "answer.delta") == whole["answer"]
    assert [data["number"] for name, data in events if name == "answer.citation"] == whole["citations"]
    assert events[0][1]["hits"][0]["rank"] == 1
    assert QueryRecord.objects.get().answering == "done"


def test_a_model_that_breaks_off_says_so_and_keeps_its_text(library: World, models: ModelServer) -> None:
    chat_endpoint(models, "demo+tokens=9+cut=5", is_default=True)
    events = all_of(secret_of(library))
    assert events[-2][0] == "answer.error" and events[-2][1]["code"] == "model_cut_off"
    assert events[-1][1]["state"] == "interrupted" and "word2" in events[-1][1]["answer"]


def test_without_a_model_the_passages_are_streamed(library: World) -> None:
    events = all_of(secret_of(library))
    assert [name for name, _ in events] == ["answer.start", "answer.delta", "answer.done"]
    assert events[-1][1]["mode"] == "direct"


def test_a_client_that_leaves_cancels_the_call_and_what_came_is_kept(library: World, models: ModelServer) -> None:
    chat_endpoint(models, "demo+tokens=50+stall=6", is_default=True)
    secret = secret_of(library)

    async def leave() -> None:
        parts = await stream(secret)
        began = asyncio.Event()

        async def reading() -> None:
            async for frame in parts:
                if read(frame)[0] == "answer.delta":
                    began.set()

        # As the server does when a client hangs up: the task that reads is cancelled.
        reader = asyncio.create_task(reading())
        await began.wait()
        reader.cancel()
        await asyncio.wait({reader})

    asyncio.run(leave())
    assert models.wait_for(lambda seen: len(seen) == 1)[0].ended == "gone"
    assert UsageRecord.objects.get(kind="chat").outcome == "cancelled"
    record = QueryRecord.objects.get()
    assert record.answering == "stopped" and record.answer["text"].startswith("word1")
