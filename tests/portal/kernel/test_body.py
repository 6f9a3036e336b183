"""The outermost layer: which path may carry how much, counted while it streams."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connection, connections

from portal.body import BodyLimit, Message, Receive, Scope, Send, limit_for
from portal.kernel import keys
from tests.support.people import make_world

ORDINARY = settings.ARCHWAY["MAX_BODY_BYTES"]


@pytest.mark.parametrize(
    ("method", "path", "uploads"),
    [
        ("POST", "/api/v1/bases/abc/documents", True),
        ("POST", "/api/v1/bases/abc/documents/", True),
        ("POST", "/bases/abc/documents/upload/", True),
        ("PUT", "/api/v1/bases/abc/documents", False),
        ("POST", "/api/v1/search", False),
        ("POST", "/api/v1/bases/abc/documents/x", False),
        ("POST", "/x/bases/abc/documents", False),
        ("POST", "/api/v1/bases/a/b/documents", False),
    ],
)
def test_only_uploads_may_be_large(method: str, path: str, uploads: bool) -> None:
    assert (limit_for(method, path) > ORDINARY) is uploads


async def asked(blocks: list[bytes], *, headers: dict[str, str] | None = None, method: str = "POST") -> list[Message]:
    """What the caller gets when the application echoes how many bytes it read."""
    sent: list[Message] = []
    waiting = iter(blocks)

    async def receive() -> Message:
        block = next(waiting, None)
        return {"type": "http.request", "body": block or b"", "more_body": block is not None}

    async def send(message: Message) -> None:
        sent.append(message)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                await send({"type": "http.response.start", "status": 500, "headers": []})
                return
            size += len(message["body"])
            more = message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(size).encode()})

    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": "/api/v1/search",
        "headers": [(name.encode(), value.encode()) for name, value in (headers or {}).items()],
    }
    await BodyLimit(application)(scope, receive, send)
    return sent


async def test_a_body_within_the_limit_passes_untouched() -> None:
    start, body = await asked([b"x" * (ORDINARY // 2)] * 2)
    assert (start["status"], body["body"]) == (200, str(ORDINARY // 2 * 2).encode())


async def test_a_body_above_the_limit_is_refused_once_whatever_the_application_says() -> None:
    start, body = await asked([b"x" * (ORDINARY // 2)] * 3)
    problem = json.loads(body["body"])
    assert (start["status"], problem["code"]) == (413, "too_large")
    assert (b"connection", b"close") in start["headers"]


async def test_a_declared_length_above_the_limit_is_refused_unread() -> None:
    start, _ = await asked([], headers={"content-length": str(ORDINARY + 1)})
    assert start["status"] == 413


async def test_a_length_that_lies_is_counted_all_the_same() -> None:
    start, _ = await asked([b"x" * ORDINARY, b"x"], headers={"content-length": "10"})
    assert start["status"] == 413


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE"])
async def test_no_method_carries_more(method: str) -> None:
    start, _ = await asked([b"x" * (ORDINARY // 2)] * 3, method=method)
    assert start["status"] == 413


@pytest.mark.django_db(transaction=True)
def test_uploads_are_taken_again_after_a_restart_of_postgresql() -> None:
    world = make_world()
    _, secret = keys.create(world.principal(world.alice), name="k", scopes=["kb:write"])
    headers = [(b"authorization", f"Bearer {secret}".encode())]
    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/api/v1/bases/abc/documents"}

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def statuses() -> list[int]:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        try:
            for _ in range(2):
                await BodyLimit(application)({**scope, "headers": headers}, receive, send)
                # What the other threads of this process have open ends, as it does when the server goes.
                await asyncio.to_thread(end_all)
        finally:
            await sync_to_async(connections.close_all)()
        return [message["status"] for message in sent]

    def end_all() -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid NOT IN (pg_backend_pid(), %s)",
                [mine],
            )
        connections.close_all()

    connection.ensure_connection()
    mine = connection.connection.info.backend_pid
    assert asyncio.run(statuses()) == [200, 200]


def test_an_upload_without_a_database_is_told_to_come_again() -> None:
    script = """
import asyncio, django
django.setup()
from portal.body import BodyLimit
async def send(message):
    print(message)
scope = {"type": "http", "method": "POST", "path": "/api/v1/bases/abc/documents", "headers": [(b"x-api-key", b"ak_x")]}
asyncio.run(BodyLimit(None)(scope, None, send))
"""
    # Port 1 of the loopback address answers nobody.
    away = {**os.environ, "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}
    root = Path(__file__).parents[3]
    said = subprocess.run(
        [sys.executable, "-c", script], env=away, cwd=root, capture_output=True, text=True, timeout=60
    )
    assert "'status': 503" in said.stdout, said.stderr
    assert '"code": "unavailable"' in said.stdout
