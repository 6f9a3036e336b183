"""Uploads over a real web process: broken off, too large, by nobody, and files that can not be used."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from knowledge.models import Document, Revision
from portal.kernel import keys
from portal.kernel.models import AuditEntry
from tests.support import requests
from tests.support.people import World
from tests.support.running import Web, until, web

pytestmark = [pytest.mark.flow, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

LIMIT_MB = 2
SPOOL: list[Path] = []


@pytest.fixture(scope="module")
def site(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    # Temporary files of uploads go where the tests can count them.
    spool = tmp_path_factory.mktemp("spool")
    with web({**environment, "ARCHWAY_MAX_UPLOAD_MB": str(LIMIT_MB), "TMPDIR": str(spool)}) as running:
        SPOOL.append(spool)
        yield running


class Uploader:
    """Alice's key at the upload address of her base."""

    def __init__(self, site: Web, world: World) -> None:
        self.site = site
        self.path = f"/api/v1/bases/{world.base.uid}/documents"
        _, self.secret = keys.create(world.principal(world.alice), name="up", scopes=["kb:read", "kb:write"])

    def upload(self, name: str, data: bytes, **fields: str) -> tuple[int, dict[str, Any]]:
        body = requests.form(name, data, **fields)
        with requests.connected(self.site) as connection:
            connection.sendall(
                requests.head(self.path, X_API_Key=self.secret, Content_Length=str(len(body)), Connection="close")
                + body
            )
            response = requests.answer(connection)
            return response.status, json.loads(response.read())


@pytest.fixture
def uploader(site: Web, world: World) -> Uploader:
    return Uploader(site, world)


def kept() -> dict[str, int]:
    """How many rows and files there are that an upload could leave behind."""
    files = [path for path in (settings.ARCHWAY["DATA_DIR"] / "files").rglob("*") if path.is_file()]
    spooled = [path for folder in SPOOL for path in folder.rglob("*.upload*")]
    return {
        "documents": Document.objects.count(),
        "revisions": Revision.objects.count(),
        "audited": AuditEntry.objects.filter(action__startswith="document.").count(),
        "files": len(files),
        "spooled": len(spooled),
    }


def settled() -> dict[str, int]:
    """What is kept once temporary files are gone: they go a moment after the answer."""
    until(lambda: kept()["spooled"] == 0, "no temporary file is left")
    return kept()


@pytest.fixture
def before(uploader: Uploader) -> dict[str, int]:
    return settled()


def test_an_upload_broken_off_half_way_leaves_no_row_and_no_file(
    site: Web, uploader: Uploader, before: dict[str, int]
) -> None:
    body = requests.form("half.txt", b"x" * 1_500_000)
    with requests.connected(site) as connection:
        connection.sendall(requests.head(uploader.path, X_API_Key=uploader.secret, Content_Length=str(len(body))))
        connection.sendall(body[: len(body) // 2])
    status, answer = uploader.upload("whole.txt", b"The next upload is served as if nothing had happened.")
    assert (status, answer["status"]) == (201, "created")
    after = settled()
    assert after == {**before, "documents": 1, "revisions": 1, "audited": 1, "files": before["files"] + 1}


@pytest.mark.parametrize("manner", ["declared", "chunked", "understated"])
def test_more_than_the_limit_is_cut_off_while_it_streams(
    site: Web, uploader: Uploader, before: dict[str, int], manner: str
) -> None:
    block = b"x" * 65_536
    largest = (LIMIT_MB + 1) * 1_048_576
    blocks = [requests.form("big.txt", b"")[:-20], *([block] * (4 * largest // len(block)))]
    with requests.connected(site) as connection:
        if manner == "declared":
            connection.sendall(requests.head(uploader.path, X_API_Key=uploader.secret, Content_Length=str(4 * largest)))
        elif manner == "chunked":
            connection.sendall(requests.head(uploader.path, X_API_Key=uploader.secret, Transfer_Encoding="chunked"))
            requests.send_chunks(connection, blocks)
        else:  # in the frame's allowance, but the file itself is larger than the limit
            body = requests.form("big.txt", b"x" * (LIMIT_MB * 1_048_576 + 10))
            connection.sendall(
                requests.head(uploader.path, X_API_Key=uploader.secret, Content_Length=str(len(body))) + body
            )
        response = requests.answer(connection)
        problem = json.loads(response.read())
    assert (response.status, problem["code"]) == (413, "too_large")
    assert str(LIMIT_MB) in problem["title"] or str(LIMIT_MB + 1) in problem["title"]
    assert settled() == before


@pytest.mark.parametrize("headers", [{}, {"X_API_Key": "kb_unknown"}, {"Cookie": "sessionid=unknown"}])
def test_an_upload_by_nobody_is_answered_before_its_body_is_read(
    site: Web, uploader: Uploader, before: dict[str, int], headers: dict[str, str]
) -> None:
    with requests.connected(site) as connection:
        connection.sendall(requests.head(uploader.path, Content_Length="1000000", **headers))
        # Not a byte of the body was sent: the answer can not have waited for it.
        response = requests.answer(connection)
        problem = json.loads(response.read())
    assert (response.status, problem["code"]) == (401, "unauthenticated")
    assert settled() == before


def test_an_ordinary_request_may_not_carry_a_large_body(site: Web, uploader: Uploader) -> None:
    with requests.connected(site) as connection:
        connection.sendall(requests.head("/api/v1/search", X_API_Key=uploader.secret, Content_Length="50000000"))
        response = requests.answer(connection)
        assert (response.status, json.loads(response.read())["code"]) == (413, "too_large")


GOOD = b"# Leave\n\nFifteen days a year.\n"
UNUSABLE = [
    ("empty.txt", b"", 422, "empty_file"),
    ("program.exe", b"MZ\x90\x00" + b"\x00" * 200, 422, "unsupported_type"),
    ("picture.pdf", b"\x89PNG\r\n\x1a\n" + b"\x00" * 200, 422, "type_mismatch"),
    ("cut.docx", b"PK\x03\x04\x14\x00\x06\x00\x08\x00" + b"\x00" * 80, 422, "damaged_file"),
    ("noise.txt", bytes(range(256)) * 40, 422, "type_mismatch"),
]


@pytest.mark.parametrize(("name", "data", "status", "code"), UNUSABLE, ids=[row[0] for row in UNUSABLE])
def test_a_file_that_can_not_be_used_gets_one_sentence_and_loses_nothing(
    uploader: Uploader, before: dict[str, int], name: str, data: bytes, status: int, code: str
) -> None:
    assert uploader.upload("rules.md", GOOD)[0] == 201
    with_good = settled()
    got, problem = uploader.upload(name, data)
    assert (got, problem["code"]) == (status, code)
    assert_one_sentence(problem["title"])
    assert settled() == with_good
    assert [document.name for document in Document.objects.all()] == ["rules.md"]


def test_a_duplicate_gets_one_sentence_and_loses_nothing(uploader: Uploader, before: dict[str, int]) -> None:
    assert uploader.upload("rules.md", GOOD)[0] == 201
    with_good = settled()
    status, problem = uploader.upload("again.md", GOOD)
    assert (status, problem["code"]) == (409, "duplicate")
    assert_one_sentence(problem["title"])
    assert "rules.md" in problem["title"]
    assert settled() == with_good


def test_a_form_without_a_file_gets_one_sentence(uploader: Uploader, before: dict[str, int]) -> None:
    fence = f"--{requests.BOUNDARY}"
    body = f'{fence}\r\nContent-Disposition: form-data; name="folder"\r\n\r\nx\r\n{fence}--\r\n'
    with requests.connected(uploader.site) as connection:
        head = requests.head(uploader.path, X_API_Key=uploader.secret, Content_Length=str(len(body)))
        connection.sendall(head + body.encode())
        response = requests.answer(connection)
        assert (response.status, json.loads(response.read())["code"]) == (422, "fields_invalid")
    assert settled() == before


def assert_one_sentence(text: str) -> None:
    assert text.strip().endswith((".", "。"))
    assert "Traceback" not in text
    assert "/" not in text
    assert "\n" not in text


def test_a_stalled_upload_does_not_hold_up_others(site: Web, uploader: Uploader) -> None:
    body = requests.form("slow.txt", b"y" * 100_000)
    stalled: list[socket.socket] = []
    for _ in range(8):
        connection = requests.connected(site)
        connection.sendall(requests.head(uploader.path, X_API_Key=uploader.secret, Content_Length=str(len(body))))
        connection.sendall(body[:50_000])
        stalled.append(connection)
    assert uploader.upload("quick.txt", b"Served while eight others stand still.")[0] == 201
    for connection in stalled:
        connection.close()
    assert settled()["documents"] == 1
