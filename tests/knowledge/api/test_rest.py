"""The REST door: shapes, errors, uploads, searches."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from knowledge.models import Document, Revision
from portal.gateway.models import ModelEndpoint
from portal.kernel import keys
from tests.support.people import World, indexed, put, work_through

TEXT = "# Leave\n\nAnnual leave is fifteen days a year.\n\n# Error codes\n\nE-1024 means that the sensor is wet.\n"


@pytest.fixture
def alice(world: World) -> Client:
    _, secret = keys.create(world.principal(world.alice), name="k", scopes=["kb:read", "kb:write", "kb:manage", "chat"])
    return Client(headers={"Authorization": f"Bearer {secret}"})


def send(client: Client, method: str, url: str, body: Any = None) -> Any:
    return getattr(client, method)(url, body, content_type="application/json")


def upload(client: Client, world: World, name: str, data: bytes, **fields: str) -> Any:
    file = SimpleUploadedFile(name, data)
    return client.post(f"/api/v1/bases/{world.base.uid}/documents", {"file": file, **fields})


def test_health_needs_no_key(db: None) -> None:
    assert Client().get("/api/v1/health").json() == {"status": "ok"}


def test_errors_are_problem_json_with_a_stable_code(world: World, alice: Client) -> None:
    response = alice.get("/api/v1/bases/nonexistent")
    assert response.status_code == 404
    assert response["Content-Type"] == "application/problem+json"
    assert response.json()["code"] == "not_found"
    assert response.json()["trace"] == response["X-Request-Id"]


def test_an_unknown_key_is_refused_with_a_challenge(db: None) -> None:
    response = Client(headers={"Authorization": "Bearer kb_wrong"}).get("/api/v1/bases")
    assert response.status_code == 401
    assert response["WWW-Authenticate"].startswith("Bearer")
    assert response.json()["code"] == "key_invalid"


def test_errors_speak_the_language_of_the_reader(world: World, alice: Client) -> None:
    response = alice.get("/api/v1/bases/nonexistent", headers={"Accept-Language": "zh-hans"})
    assert re.search("[\u4e00-\u9fff]", response.json()["title"])


def test_a_base_is_made_described_and_deleted(world: World, alice: Client) -> None:
    made = send(alice, "post", "/api/v1/bases", {"name": "Rules"})
    assert made.status_code == 201
    uid = made.json()["id"]
    assert made.json()["role"] == "owner"
    assert send(alice, "post", "/api/v1/bases", {"name": "Rules"}).json()["code"] == "name_taken"
    assert send(alice, "patch", f"/api/v1/bases/{uid}", {"name": "House rules"}).json()["name"] == "House rules"
    assert alice.delete(f"/api/v1/bases/{uid}").status_code == 204
    assert alice.get(f"/api/v1/bases/{uid}").status_code == 404


def test_settings_are_checked_and_guarded_against_a_concurrent_change(world: World, alice: Client) -> None:
    url = f"/api/v1/bases/{world.base.uid}/settings/searching"
    wrong = send(alice, "put", url, {"values": {"top_k": 500}})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "settings_invalid")
    good = send(alice, "put", url, {"values": {"top_k": 7}, "version": 1})
    assert good.json()["settings"]["searching"]["top_k"] == 7
    late = send(alice, "put", url, {"values": {"top_k": 9}, "version": 1})
    assert (late.status_code, late.json()["code"]) == (409, "settings_changed")


def test_grants_are_given_and_taken(world: World, alice: Client) -> None:
    url = f"/api/v1/bases/{world.base.uid}/grants"
    made = send(alice, "post", url, {"user": world.mallory.uid, "role": "viewer"})
    assert made.status_code == 201
    assert {row["name"] for row in alice.get(url).json()} == {"Alice", "Bob", "Mallory"}
    assert alice.delete(f"{url}/{made.json()['id']}").status_code == 204
    assert send(alice, "post", url, {"user": world.eve.uid, "role": "viewer"}).status_code == 404


def test_an_uploaded_file_becomes_searchable_and_is_found_with_a_citation(world: World, alice: Client) -> None:
    response = upload(alice, world, "rules.md", TEXT.encode(), path="company/rules.md")
    assert response.status_code == 201, response.content
    body = response.json()
    assert (body["status"], body["document"]["folder"], body["revision"]["status"]) == ("created", "company", "pending")
    work_through(Revision.objects.get(uid=body["revision"]["id"]))
    document = alice.get(f"/api/v1/documents/{body['document']['id']}").json()
    assert document["active"]["status"] == "indexed"
    for mode in ("keywords", "embedding", "blend"):
        found = send(alice, "post", "/api/v1/search", {"query": "E-1024", "mode": mode, "trace": True}).json()
        hit = found["hits"][0]
        assert "E-1024" in hit["text"]
        assert hit["citation"].startswith(f"/bases/{world.base.uid}/documents/{document['id']}/")
        assert 0 <= hit["relevance"] <= 1
        assert found["trace"]
    asked = send(alice, "post", "/api/v1/ask", {"query": "annual leave"}).json()
    assert asked["mode"] == "direct"
    assert "fifteen days" in asked["answer"]
    chunks = alice.get(f"/api/v1/revisions/{body['revision']['id']}/chunks").json()
    assert chunks["count"] >= 1


@pytest.mark.parametrize(
    ("name", "data", "status", "code"),
    [
        ("empty.md", b"", 422, "empty_file"),
        ("virus.pdf", b"MZ\x90\x00" + b"\x00" * 200, 422, "type_mismatch"),
        ("archive.rar", b"Rar!\x1a\x07\x00" + b"\x00" * 50, 422, "unsupported_type"),
    ],
)
def test_a_bad_file_gets_one_sentence_and_leaves_nothing(
    world: World, alice: Client, name: str, data: bytes, status: int, code: str
) -> None:
    response = upload(alice, world, name, data)
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert response.json()["title"].count(".") >= 1
    assert not Document.objects.filter(base=world.base).exists()


def test_the_same_bytes_are_refused_as_a_duplicate_that_is_named(world: World, alice: Client) -> None:
    assert upload(alice, world, "a.md", TEXT.encode()).status_code == 201
    response = upload(alice, world, "b.md", TEXT.encode())
    assert (response.status_code, response.json()["code"]) == (409, "duplicate")
    assert "a.md" in response.json()["title"]


def test_a_session_needs_a_csrf_token_and_a_key_does_not(world: World) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(world.alice)
    response = send(client, "post", "/api/v1/bases", {"name": "Forged"})
    assert (response.status_code, response.json()["code"]) == (403, "csrf_failed")


def test_states_are_moved_by_verbs(world: World, alice: Client) -> None:
    revision = put(world.principal(world.alice), world.base, "a.md", TEXT).revision
    assert revision is not None
    url = f"/api/v1/revisions/{revision.uid}"
    assert alice.post(f"{url}/cancel").json()["status"] == "cancelled"
    assert alice.post(f"{url}/cancel").json()["status"] == "cancelled"
    assert alice.post(f"{url}/retry").json()["status"] == "pending"
    work_through(revision)
    assert alice.post(f"{url}/retry").status_code == 409
    assert alice.get(f"{url}/history").json()[0]["outcome"] == "done"
    assert alice.get("/api/v1/tasks").json()["count"] == 1


def test_a_download_is_an_attachment_with_its_own_name_in_any_language(world: World, alice: Client) -> None:
    document = indexed(world.principal(world.alice), world.base, "员工手册 v2.md", TEXT)
    assert document.active_revision is not None
    response = alice.get(f"/api/v1/revisions/{document.active_revision.uid}/file")
    assert b"".join(response) == TEXT.encode()
    assert "attachment" in response["Content-Disposition"]
    assert "filename*=utf-8''" in response["Content-Disposition"]
    assert "sandbox" in response["Content-Security-Policy"]


def test_the_recycle_bin_gives_back_or_forgets(world: World, alice: Client) -> None:
    document = indexed(world.principal(world.alice), world.base, "a.md", TEXT)
    assert alice.delete(f"/api/v1/documents/{document.uid}").status_code == 204
    assert alice.get(f"/api/v1/documents/{document.uid}").status_code == 404
    assert alice.get(f"/api/v1/bases/{world.base.uid}/recycle-bin").json()["count"] == 1
    assert send(alice, "post", "/api/v1/search", {"query": "leave"}).json()["hits"] == []
    assert alice.post(f"/api/v1/recycle-bin/{document.uid}/restore").status_code == 200
    assert send(alice, "post", "/api/v1/search", {"query": "leave"}).json()["hits"]
    alice.delete(f"/api/v1/documents/{document.uid}")
    assert alice.delete(f"/api/v1/recycle-bin/{document.uid}").status_code == 204
    assert not Document.objects.filter(pk=document.pk).exists()


def test_the_documentation_page_runs_no_inline_script(db: None) -> None:
    response = Client().get("/api/v1/docs/")
    body = response.content.decode()
    assert response.status_code == 200
    assert re.search(r"<script(?![^>]*\bsrc=)", body) is None
    assert "<style" not in body
    assert "https://" not in re.sub(r"http://testserver", "", body)


def test_the_schema_describes_every_operation(db: None) -> None:
    response = Client().get("/api/v1/schema/?format=json")
    assert response.status_code == 200
    paths = response.json()["paths"]
    assert len(paths) > 25
    assert all(
        operation.get("responses")
        for path in paths.values()
        for operation in path.values()
        if isinstance(operation, dict)
    )


def test_an_owner_finds_people_of_the_workspace_for_a_grant(world: World, alice: Client) -> None:
    names = {row["name"] for row in alice.get("/api/v1/people").json()["results"]}
    assert names == {"Adam", "Alice", "Bob", "Mallory"}
    assert [row["id"] for row in alice.get("/api/v1/people?q=mall").json()["results"]] == [world.mallory.uid]


def test_a_workspace_admin_adds_a_member_by_user_name(world: World) -> None:
    _, secret = keys.create(world.principal(world.admin), name="k", scopes=["admin"])
    admin = Client(headers={"Authorization": f"Bearer {secret}"})
    made = send(admin, "post", "/api/v1/members", {"username": "eve", "role": "member"})
    assert made.status_code == 201
    assert send(admin, "post", "/api/v1/members", {"username": "nobody", "role": "member"}).status_code == 404


def test_a_base_can_be_made_with_another_embedding_model_of_the_workspace(world: World, alice: Client) -> None:
    other = ModelEndpoint.objects.create(
        workspace=world.workspace, name="Other", kind="embedding", provider="openai_compatible", model_name="m"
    )
    foreign = ModelEndpoint.objects.create(
        workspace=world.elsewhere, name="Eve's", kind="embedding", provider="openai_compatible", model_name="m"
    )
    names = [row["name"] for row in alice.get("/api/v1/endpoints").json()["results"]]
    assert "Other" in names
    assert "Eve's" not in names
    made = send(alice, "post", "/api/v1/bases", {"name": "With other", "embedding": other.uid})
    assert made.json()["embedding"] == other.uid
    refused = send(alice, "post", "/api/v1/bases", {"name": "With Eve's", "embedding": foreign.uid})
    assert refused.json()["code"] == "endpoint_unknown"
