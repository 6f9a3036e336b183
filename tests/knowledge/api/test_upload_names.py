"""Names of uploads that would be a path, a header, a program or another name: through the REST door, as bytes."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from knowledge.models import Document, Revision
from portal.kernel import keys
from tests.support.people import World
from tests.support.requests import BOUNDARY, form

TEXT = "Leave is fifteen days a year."
PDF_HEAD = b"%PDF-1.4\n1 0 obj\n<<>>\nendobj\ntrailer<<>>\nstartxref\n9\n%%EOF"


@pytest.fixture
def alice(world: World) -> Client:
    _, secret = keys.create(world.principal(world.alice), name="k", scopes=["kb:read", "kb:write"])
    return Client(headers={"Authorization": f"Bearer {secret}"})


def send(client: Client, world: World, name: str, data: bytes = TEXT.encode(), **fields: str) -> Any:
    """Upload with `name` written into the head of the part as it stands, which a library would not do."""
    return client.post(
        f"/api/v1/bases/{world.base.uid}/documents",
        form(name, data, **fields),
        content_type=f"multipart/form-data; boundary={BOUNDARY}",
    )


KEPT = [
    ("../../../../etc/cron.d/evil.txt", "evil.txt"),
    ("..\\..\\windows\\evil.txt", "evil.txt"),
    ("/etc/passwd.txt", "passwd.txt"),
    ("C:\\temp\\x.txt", "x.txt"),
    ("....//....//evil.txt", "evil.txt"),
    ("%2e%2e%2fevil.txt", "%2e%2e%2fevil.txt"),
    ("．．／evil.txt", "．．／evil.txt"),
    ("<img src=x onerror=alert(1)>.md", "<img src=x onerror=alert(1)>.md"),
    ("'; DROP TABLE documents;--.txt", "'; DROP TABLE documents;--.txt"),
    ("=cmd|' /C calc'!A0.csv", "C calc'!A0.csv"),
    ("invoice\u202etxt.md", "invoicetxt.md"),
    (".pdf", "file.txt"),
    ("CON.txt", "CON.txt"),
    ("UPPER.TXT", "UPPER.TXT"),
    ("no_extension", "no_extension"),
    ("e\u0301te\u0301.txt", "\u00e9t\u00e9.txt"),
    ("emoji 😀 文件.txt", "emoji 😀 文件.txt"),
    ("tab\tname.txt", "tabname.txt"),
    ("${jndi:ldap:127.0.0.1:9/a}.txt", "a}.txt"),
    ("{{7*7}}.txt", "{{7*7}}.txt"),
]


@pytest.mark.parametrize(("given", "shown"), KEPT, ids=[shown for _, shown in KEPT])
def test_a_name_is_kept_for_display_and_the_server_makes_its_own(
    world: World, alice: Client, given: str, shown: str
) -> None:
    response = send(alice, world, given)
    assert response.status_code == 201, response.content
    assert response.json()["document"]["name"] == shown
    stored = Revision.objects.get().file
    assert PurePosixPath(stored).suffix == ""
    assert ".." not in stored
    assert "evil" not in stored
    assert (settings.ARCHWAY["DATA_DIR"] / "files" / stored).is_file()


REFUSED = [
    ("report.pdf\x00.exe", "unsupported_type"),
    ("report.exe\x00.pdf", "type_mismatch"),
    ("invoice\u202efdp.exe", "unsupported_type"),
    ("invoice\u202etxt.pdf", "type_mismatch"),
    ("", "fields_invalid"),
    (".", "fields_invalid"),
    ("..", "fields_invalid"),
    (".htaccess", "unsupported_type"),
    ("trailing. . .", "unsupported_type"),
    ("double.pdf.exe", "unsupported_type"),
    ("double.exe.pdf", "type_mismatch"),
]


@pytest.mark.parametrize(("given", "code"), REFUSED, ids=[ascii(name) for name, _ in REFUSED])
def test_a_name_that_hides_what_the_file_is_gets_a_sentence_and_leaves_nothing(
    world: World, alice: Client, given: str, code: str
) -> None:
    response = send(alice, world, given)
    assert (response.status_code, response.json()["code"]) == (422, code)
    assert not Document.objects.exists()


def test_a_program_name_is_refused_whatever_lies_inside(world: World, alice: Client) -> None:
    assert send(alice, world, "report.pdf.exe", PDF_HEAD).json()["code"] == "unsupported_type"


@pytest.mark.parametrize("letter", ["n", "名", "😀"])
def test_a_long_name_is_shortened_between_characters_and_keeps_its_end(
    world: World, alice: Client, letter: str
) -> None:
    response = send(alice, world, letter * (5000 // len(letter.encode())) + ".txt")
    assert response.status_code == 201, response.content
    name = response.json()["document"]["name"]
    assert len(name.encode()) < 255
    assert name.startswith(letter * 20)
    assert name.endswith(".txt")
    assert "\ufffd" not in name


HEADERS = ["a\r\nX-Injected: 1\r\n.txt", 'say "hi".txt', "制度 😀.txt", "a;b=c.txt", "\u202eb.txt"]


@pytest.mark.parametrize("path", HEADERS, ids=[ascii(name) for name in HEADERS])
def test_the_name_of_a_download_is_right_in_any_language_and_adds_no_header(
    world: World, alice: Client, path: str
) -> None:
    made = send(alice, world, "upload.txt", path=path)
    assert made.status_code == 201, made.content
    uid, name = made.json()["revision"]["id"], made.json()["document"]["name"]
    response = alice.get(f"/api/v1/revisions/{uid}/file")
    assert response.status_code == 200
    assert response["Content-Disposition"].startswith("attachment;")
    assert "\r" not in response["Content-Disposition"]
    assert "X-Injected" not in response
    assert response["X-Content-Type-Options"] == "nosniff"
    assert name.endswith(".txt")


def test_a_page_that_is_also_a_pdf_leaves_as_the_type_that_was_found(world: World, alice: Client) -> None:
    made = send(alice, world, "a.pdf", b"<html><script>alert(1)</script><!--\n" + PDF_HEAD + b"-->")
    assert made.status_code == 201, made.content
    response = alice.get(f"/api/v1/revisions/{made.json()['revision']['id']}/file")
    assert response["Content-Type"] == "application/pdf"
    assert response["Content-Disposition"].startswith("attachment;")
    assert response["X-Content-Type-Options"] == "nosniff"


def test_two_spellings_of_one_name_are_one_document(world: World, alice: Client) -> None:
    first = send(alice, world, "e\u0301te\u0301.txt")
    second = send(alice, world, "\u00e9t\u00e9.txt", b"Other words.")
    assert first.json()["status"] == "created"
    assert second.json()["code"] == "revision_open"  # the same document, whose first revision is still being read
