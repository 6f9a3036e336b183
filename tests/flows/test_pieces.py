"""Uploads in pieces over a real web process: a restart in between, and how soon the last answer comes."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable

import httpx
import pytest

from knowledge.models import Document, Upload
from portal.kernel import keys
from tests.support.people import World
from tests.support.running import Web, web

pytestmark = [pytest.mark.flow, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

MEGABYTE = 1_048_576
SIZE, PIECE = 50 * MEGABYTE, 4 * MEGABYTE
# The answer after the last byte of 50 MB.
SECONDS = 2.0
TUS = {"Tus-Resumable": "1.0.0"}


def client_of(running: Web, world: World) -> httpx.Client:
    _, secret = keys.create(world.principal(world.alice), name="up", scopes=["kb:read", "kb:write"])
    return httpx.Client(
        base_url=f"http://{running.host}:{running.port}", headers={**TUS, "X-API-Key": secret}, timeout=60
    )


def send(client: httpx.Client, url: str, data: bytes, until: Callable[[int], bool]) -> float:
    """Send pieces from where the server stands until `until(offset)`; returns the seconds of the last answer."""
    offset = int(client.head(url).headers["Upload-Offset"])
    seconds = 0.0
    while not until(offset):
        began = time.monotonic()
        answer = client.patch(
            url,
            content=data[offset : offset + PIECE],
            headers={"Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"},
        )
        seconds = time.monotonic() - began
        assert answer.status_code == 204, answer.text
        offset = int(answer.headers["Upload-Offset"])
    return seconds


def test_an_upload_goes_on_after_a_restart_and_its_last_answer_comes_soon(
    environment: dict[str, str], world: World
) -> None:
    data = b"%PDF-1.7\n" + bytes(range(256)) * ((SIZE - 9) // 256)
    name = base64.b64encode(b"large.pdf").decode()
    with web(environment) as running, client_of(running, world) as client:
        made = client.post(
            f"/api/v1/bases/{world.base.uid}/uploads",
            headers={"Upload-Length": str(len(data)), "Upload-Metadata": f"filename {name}"},
        )
        url = made.headers["Location"]
        send(client, url, data, lambda offset: offset >= 20 * MEGABYTE)
    assert Upload.objects.get().offset == 20 * MEGABYTE and not Document.objects.exists()
    with web(environment) as running, client_of(running, world) as client:
        assert send(client, url, data, lambda offset: offset >= len(data)) < SECONDS
        assert client.get(url).json()["outcome"] == "created"
    assert Document.objects.get().revisions.get().size == len(data)
