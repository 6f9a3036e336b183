"""Tags and metadata that come along with a document: through every door that adds one, and what stays afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from knowledge import documents, intake
from knowledge.details import Details
from knowledge.metadata import parsed
from knowledge.models import Document
from knowledge.retrieval import RetrievalRequest, retrieve
from knowledge.retrieval.contract import Filters
from knowledge.sources import pasted
from portal.kernel import keys
from portal.kernel.errors import Invalid
from portal.kernel.models import AuditEntry
from tests.knowledge.api.test_resumable_uploads import Sender
from tests.support.people import World, work_through

WRITTEN = "year: 2026\nregions: [east, west]\nfinal: true"
FACTS = {"year": 2026, "regions": ["east", "west"], "final": True}


def client_of(world: World) -> Client:
    _, secret = keys.create(world.principal(world.alice), name="k", scopes=["kb:read", "kb:write"])
    return Client(headers={"X-API-Key": secret})


def file_of(text: str, name: str = "leave.md") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, text.encode())


def receive(world: World, tmp_path: Path, text: str, details: Details, **more: Any) -> intake.Received:
    path = tmp_path / "file"
    path.write_text(text)
    return intake.receive(world.principal(world.alice), world.base, path, "leave.md", details=details, **more)


@pytest.mark.parametrize("written", [WRITTEN, json.dumps(FACTS)])
def test_lines_and_a_json_object_say_the_same(written: str) -> None:
    found = Details.written("hr, 2026，HR\nleave", written)
    assert found.tags == ("hr", "2026", "leave") and found.metadata == FACTS
    assert Details.checked(**found.as_json) == found


@pytest.mark.parametrize(
    ("tags", "metadata", "code"),
    [
        ("x" * 61, "", "tags_invalid"),
        (",".join(map(str, range(31))), "", "tags_invalid"),
        ("", "no colon", "metadata_invalid"),
        ("", "{broken", "metadata_invalid"),
        ("", '{"a": {"b": 1}}', "metadata_invalid"),
        ("", "[1, 2]", "metadata_invalid"),
        ("", "_x: 1", "metadata_invalid"),
        ("", "{" * 50_000, "metadata_invalid"),
    ],
)
def test_what_can_not_be_kept_is_refused_with_its_reason(tags: str, metadata: str, code: str) -> None:
    with pytest.raises(Invalid) as refused:
        Details.written(tags, metadata)
    assert refused.value.code == code


def test_a_program_uploads_a_file_with_its_tags_and_metadata(world: World) -> None:
    client, address = client_of(world), f"/api/v1/bases/{world.base.uid}/documents"
    answer = client.post(address, {"file": file_of("# Leave"), "tags": ["hr", "2026, leave"], "metadata": WRITTEN})
    assert answer.status_code == 201
    assert answer.json()["document"]["tags"] == ["hr", "2026", "leave"]
    assert answer.json()["document"]["metadata"] == FACTS
    refused = client.post(address, {"file": file_of("# B", "b.md"), "metadata": "no colon"})
    assert refused.status_code == 422 and refused.json()["code"] == "metadata_invalid"
    assert Document.objects.filter(base=world.base).count() == 1


def test_an_upload_in_pieces_brings_them_and_is_refused_before_any_byte_when_they_are_wrong(world: World) -> None:
    sender, text = Sender(world), b"# Leave\n\nTwenty days."
    assert sender.announce("b.md", len(text), tags="x" * 61).status_code == 422
    assert sender.announce("leave.md", len(text), tags="hr,2026", metadata=json.dumps(FACTS)).status_code == 201
    sender.send(0, text)
    document = Document.objects.get(base=world.base)
    assert (document.tags, document.metadata) == (["hr", "2026"], FACTS)


def test_a_pasted_text_has_them_through_the_page_and_the_api(world: World) -> None:
    body = {"title": "Leave", "text": "Twenty days.", "tags": ["hr"], "metadata": {"year": 2026}}
    client_of(world).post(f"/api/v1/bases/{world.base.uid}/texts", body, content_type="application/json")
    browser = Client()
    browser.force_login(world.alice)
    form = {"title": "Trains", "text": "Second class.", "kind": "markdown", "tags": "travel", "metadata": "year: 2025"}
    address = f"/bases/{world.base.uid}/documents/paste/"
    assert browser.post(address, form).status_code == 302
    rows = {row.name: (row.tags, row.metadata) for row in Document.objects.filter(base=world.base)}
    assert rows == {"Leave.md": (["hr"], {"year": 2026}), "Trains.md": (["travel"], {"year": 2025})}
    wrong = browser.post(address, {**form, "title": "C", "metadata": "no colon"})
    page = wrong.content.decode()
    assert wrong.status_code == 422 and "Write each line as key: value." in page and "no colon" in page


def test_the_upload_page_without_scripts_gives_them_to_every_file_and_keeps_what_was_typed(world: World) -> None:
    browser = Client()
    browser.force_login(world.alice)
    address = f"/bases/{world.base.uid}/documents/upload/"
    assert "Tags and details" in browser.get(address).content.decode()
    two = [file_of("# A", "a.md"), file_of("# B", "b.md")]
    assert browser.post(address, {"file": two, "tags": "hr", "metadata": "year: 2026"}).status_code == 302
    rows = Document.objects.filter(base=world.base)
    assert [(row.tags, row.metadata) for row in rows] == [(["hr"], {"year": 2026})] * 2
    wrong = browser.post(address, {"file": file_of("# C", "c.md"), "metadata": "no colon"})
    assert wrong.status_code == 422 and "no colon</textarea>" in wrong.content.decode()


def test_a_search_is_narrowed_to_what_came_along_and_the_file_does_not_overrule_it(world: World) -> None:
    text = "---\nyear: 2020\nsource: intranet\n---\n# Leave\n\nTwenty days of leave."
    alice = world.principal(world.alice)
    received = pasted.paste(alice, world.base, title="Leave", text=text, details=Details.written("", "year: 2026"))
    work_through(received.revision)
    document = Document.objects.get(pk=received.document.pk)
    assert document.metadata == {"year": 2026, "source": "intranet"}
    for conditions, hits in (("year >= 2026", 1), ("year < 2026", 0)):
        asked = RetrievalRequest("leave", mode="keywords", filters=Filters(metadata=parsed(conditions)))
        assert len(retrieve(alice, asked).hits) == hits


def test_a_new_version_adds_to_what_people_wrote_and_says_so_in_the_record(world: World, tmp_path: Path) -> None:
    first = receive(world, tmp_path, "one", Details.written("hr", "year: 2025\nby: Alice"))
    documents.describe(world.principal(world.alice), first.document, tags=["hr", "final"])
    work_through(first.revision)
    receive(world, tmp_path, "two", Details.written("HR, new", "year: 2026"))
    document = Document.objects.get(base=world.base)
    assert document.tags == ["hr", "final", "new"] and document.metadata == {"year": 2026, "by": "Alice"}
    told = AuditEntry.objects.filter(action="document.describe").order_by("-pk")[0]
    assert told.detail["before"]["metadata"] == {"year": 2025, "by": "Alice"}


def test_a_version_without_details_and_one_that_is_skipped_change_nothing(world: World, tmp_path: Path) -> None:
    first = receive(world, tmp_path, "one", Details.written("hr", "year: 2025"))
    work_through(first.revision)
    receive(world, tmp_path, "two", Details())
    receive(world, tmp_path, "three", Details.written("x", "year: 1"), same_name="skip")
    document = Document.objects.get(base=world.base)
    assert (document.tags, document.metadata) == (["hr"], {"year": 2025})
