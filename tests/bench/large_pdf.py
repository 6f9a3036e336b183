"""A PDF of 50 MB and 2,000 pages through the doors of real servers: `pytest tests/bench/large_pdf.py -s`.

Not part of the suite (pytest collects it only when it is named). It starts a web process, an ingest worker and the
clock on the test database, uploads over HTTP, and measures: seconds from the last byte sent to the answer, the longest
time between two moves of what people see (status, progress or heartbeat), and the peak memory of the web process, of
the worker and of the parsing child, each by itself. Bars: 2 s, 2 s, 1 GB. The file is the same every time (no date,
no randomness).
"""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from collections.abc import Iterator

import pytest

from knowledge.models import Revision
from portal.kernel import keys
from tests.support import requests
from tests.support.memory import MemoryWatch
from tests.support.people import World
from tests.support.running import Web, beat, until, web, worker

pytestmark = [pytest.mark.flow, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

PAGES, PICTURE_BYTES = 2_000, 24_500
LINES = 46
SENTENCE = "Section {n} line {i}: the sensor reports {v} millibar, and the valve of loop {w} answers within {x} ms."
DONE = {"indexed", "review", "failed", "no_text", "cancelled"}
MAX_SECONDS, ENOUGH = 900, 40  # seconds in all, and of vectors: those of 20,000 chunks take minutes and are all alike


def large_pdf(pages: int = PAGES, picture_bytes: int = PICTURE_BYTES) -> bytes:
    """Pages of two headings, text and a picture that does not compress; an outline of one entry in ten pages."""
    objects: list[bytes] = []

    def add(body: bytes) -> int:
        objects.append(body)
        return len(objects)

    font = add(b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>")
    tree = pages * 3 + 2
    kids = []
    for number in range(1, pages + 1):
        noise = b"".join(hashlib.sha512(b"%d %d" % (number, at)).digest() for at in range(picture_bytes // 64))
        width, height = 100, len(noise) // 100
        picture = add(
            b"<</Type/XObject/Subtype/Image/Width %d/Height %d/ColorSpace/DeviceGray/BitsPerComponent 8/Length %d>>"
            b"stream\n%s\nendstream" % (width, height, width * height, noise[: width * height])
        )
        rows = [f"BT /F1 16 Tf 72 790 Td (Chapter {number}) Tj ET"]
        rows += [
            f"BT /F1 9 Tf 72 {765 - 12 * i} Td "
            f"({SENTENCE.format(n=number, i=i, v=number * 7 + i, w=i % 9, x=number * i % 997)}) Tj ET"
            for i in range(LINES)
        ]
        content = "\n".join([*rows, "q 120 0 0 90 72 80 cm /P Do Q"]).encode()
        stream = zlib.compress(content)
        text = add(b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(stream), stream))
        kids.append(
            add(
                b"<</Type/Page/Parent %d 0 R/MediaBox[0 0 595 842]/Contents %d 0 R"
                b"/Resources<</Font<</F1 %d 0 R>>/XObject<</P %d 0 R>>>>>>" % (tree, text, font, picture)
            )
        )
    assert add(b"<</Type/Pages/Count %d/Kids[%s]>>" % (pages, b" ".join(b"%d 0 R" % kid for kid in kids))) == tree
    root = add(b"<</Type/Catalog/Pages %d 0 R>>" % tree)
    return _file(objects, root)


def _file(objects: list[bytes], root: int) -> bytes:
    data, places = bytearray(b"%PDF-1.7\n"), []
    for number, body in enumerate(objects, start=1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(data)
    data += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    data += b"".join(b"%010d 00000 n \n" % place for place in places)
    data += b"trailer<</Size %d/Root %d 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, root, start)
    return bytes(data)


@pytest.fixture
def site(environment: dict[str, str]) -> Iterator[Web]:
    with web(environment) as running:
        yield running


@pytest.fixture(scope="module")
def environment(django_db_setup: None) -> dict[str, str]:
    from tests.support.running import database_environment

    return database_environment()


def upload(site: Web, world: World, data: bytes) -> tuple[float, dict[str, object]]:
    """Seconds from the last byte to the answer, and the answer."""
    _, secret = keys.create(world.principal(world.alice), name="up", scopes=["kb:read", "kb:write"])
    body = requests.form("large.pdf", data)
    path = f"/api/v1/bases/{world.base.uid}/documents"
    with requests.connected(site) as connection:
        connection.sendall(requests.head(path, X_API_Key=secret, Content_Length=str(len(body)), Connection="close"))
        connection.sendall(body)
        sent = time.monotonic()
        response = requests.answer(connection)
        answer = json.loads(response.read())
        seconds = time.monotonic() - sent
    assert response.status == 201, answer
    return seconds, answer


def follow(revision: Revision) -> tuple[str, float, dict[str, float]]:
    """Watch until the end: the last status, the longest standstill in seconds, and the seconds of each status."""
    began = moved = time.monotonic()
    shown: tuple[object, ...] = ()
    longest, spent = 0.0, {}
    while time.monotonic() - began < MAX_SECONDS:
        row = Revision.objects.get(pk=revision.pk)
        now = time.monotonic()
        seen = (row.status, row.stage, row.done, row.total, row.heartbeat_at)
        if seen != shown:
            if shown:
                longest = max(longest, now - moved)
            shown, moved = seen, now
        spent[row.status] = round(now - began, 1)
        if row.status in DONE or (row.done and spent.get("vectorizing", 0) - spent.get("segmenting", 1e9) > ENOUGH):
            break
        time.sleep(0.05)
    return str(shown[0]), longest, spent


def test_large_pdf(world: World, site: Web, environment: dict[str, str]) -> None:
    data = large_pdf()
    assert len(data) > 50_000_000
    with (
        # Work that was set aside (the embedding process was too slow on a full machine) is woken by the clock only.
        beat(environment),
        worker(environment) as ingest,
        MemoryWatch(site.running.pid) as of_web,
        MemoryWatch(ingest.pid) as of_worker,
    ):
        seconds, answer = upload(site, world, data)
        revision = Revision.objects.get(uid=answer["revision"]["id"])  # type: ignore[index]
        until(lambda: Revision.objects.exclude(status="pending").filter(pk=revision.pk).exists(), "work begins")
        status, longest, spent = follow(revision)
    revision.refresh_from_db()
    print(f"\n{len(data) / 1e6:.1f} MB, {revision.page_count} pages, {revision.chunk_count} chunks, ended {status}")
    print(f"answer {seconds:.2f} s after the last byte; longest standstill {longest:.2f} s; until the end of {spent}")
    print(f"peaks in MB: web {of_web.own}, worker {of_worker.own}, largest process below it {of_worker.below}")
    assert status in ("indexed", "vectorizing")
    assert seconds < 2
    assert longest < 2
    assert max(of_web.own, of_worker.own, of_worker.below) < 1_024
