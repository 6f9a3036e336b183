"""Pages of batches, tags, exports and imports: what is asked, what is told, what strangers see."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from knowledge import archive, bases, batches, documents, tags
from knowledge.archive import jobs
from knowledge.background import claim
from knowledge.batches import Selection
from knowledge.models import Archive, Batch, Document, Grant, Revision, Role
from tests.knowledge.archive.carrying import exported
from tests.knowledge.pages.desk import browser, text_of
from tests.support.people import World, indexed, put


@pytest.fixture
def alice(world: World) -> Client:
    return browser(world.alice)


def address(world: World, path: str = "") -> str:
    return f"/bases/{world.base.uid}/{path}"


def fill(world: World, count: int) -> list[Document]:
    principal = world.principal(world.alice)
    return [put(principal, world.base, f"doc-{n:03}.md", f"# {n}\n\nWords").document for n in range(count)]


@pytest.mark.parametrize("verb", ["move", "folder", "review", "owner", "resplit"])
def test_a_verb_that_needs_an_answer_asks_with_the_selection_in_words(world: World, alice: Client, verb: str) -> None:
    rows = fill(world, 3)
    data = {"verb": verb, "scope": "all", "filter": "q=doc", "expected": "3", "exclude": rows[0].uid}
    page = text_of(alice.post(address(world, "documents/bulk/"), data))
    assert "All 2 documents that match the filter" in page
    assert "without 1 that was left out" in page
    assert f'name="verb" value="{verb}"' in page
    assert not Batch.objects.exists()


def test_the_answer_starts_the_batch_and_the_list_tells_and_can_undo(world: World, alice: Client) -> None:
    rows = fill(world, 2)
    data = {"asked": "yes", "verb": "folder", "ids": f"{rows[0].uid},{rows[1].uid}", "folder": "a / b"}
    assert alice.post(address(world, "documents/bulk/"), data).status_code == 302
    assert set(Document.objects.values_list("folder", flat=True)) == {"a/b"}
    page = text_of(alice.get(address(world, "documents/")))
    batch = Batch.objects.get()
    assert "Move to a folder" in page and "2 done" in page
    assert f"batches/{batch.uid}/undo/" in page
    assert f"batches/{batch.uid}/undo/" not in text_of(alice.get(address(world, "documents/")))


def test_an_answer_that_makes_no_sense_is_asked_again(world: World, alice: Client) -> None:
    row = fill(world, 1)[0]
    data = {"asked": "yes", "verb": "review", "ids": row.uid, "date": "31.12.26"}
    answer = alice.post(address(world, "documents/bulk/"), data)
    assert answer.status_code == 422
    assert "field__error" in text_of(answer)


def test_the_page_of_a_batch_names_every_document_and_why(world: World, alice: Client) -> None:
    ready = indexed(world.principal(world.alice), world.base, "ready.md", "# A\n\nalpha")
    busy = fill(world, 1)[0]
    principal = world.principal(world.alice)
    batch = batches.begin(batches.start(principal, world.base, "reindex", Selection(ids=(ready.uid, busy.uid))))
    page = text_of(alice.get(address(world, f"batches/{batch.uid}/")))
    assert "doc-000.md is still being processed" in page
    only = text_of(alice.get(address(world, f"batches/{batch.uid}/?outcome=failed")))
    assert "doc-000.md" in only and ">ready.md<" not in only
    assert "Try 1 failed document again" in page
    assert "Re-index" in text_of(alice.get(address(world, "batches/")))


def test_re_splitting_names_documents_that_were_changed_by_hand(world: World, alice: Client) -> None:
    from knowledge.models import ChunkVersion

    row = indexed(world.principal(world.alice), world.base, "edited.md", "# A\n\nalpha")
    assert row.active_revision is not None
    chunk = row.active_revision.chunks.filter(level="passage").get()
    ChunkVersion.objects.create(chunk=chunk, number=1, text="x", sha256="0" * 64, verb="edit")
    page = text_of(alice.post(address(world, "documents/bulk/"), {"verb": "resplit", "ids": row.uid}))
    assert "changed by hand" in page and "edited.md" in page


def test_viewers_see_tags_and_no_batches_exports_or_buttons(world: World) -> None:
    bob = browser(world.bob)
    tags.create(world.principal(world.alice), world.base, "HR")
    page = text_of(bob.get(address(world, "tags/")))
    assert "HR" in page and "Rename" not in page
    for path in ("batches/", "archive/"):
        assert bob.get(address(world, path)).status_code == 403
    for path, data in (("tags/change/", {"verb": "delete", "tag": "HR"}), ("archive/", {})):
        assert bob.post(address(world, path), data).status_code == 403
    assert tags.names_of(world.base) == ["HR"]


def test_editors_may_not_export(world: World) -> None:
    Grant.objects.filter(base=world.base, user=world.bob).update(role=Role.EDITOR)
    bob = browser(world.bob)
    assert bob.get(address(world, "batches/")).status_code == 200
    assert bob.post(address(world, "archive/")).status_code == 403


def test_tags_are_added_renamed_merged_and_deleted_on_their_page(world: World, alice: Client) -> None:
    change = address(world, "tags/change/")
    row = fill(world, 1)[0]
    documents.describe(world.principal(world.alice), row, tags=["old", "new"])
    alice.post(change, {"verb": "add", "name": "Spare"})
    alice.post(change, {"verb": "merge", "tag": "old", "into": "new"})
    alice.post(change, {"verb": "rename", "tag": "new", "name": "Newest"})
    assert Document.objects.get(pk=row.pk).tags == ["Newest"]
    taken = alice.post(change, {"verb": "rename", "tag": "Spare", "name": "newest"})
    assert taken.status_code == 422
    assert "merge the two instead" in text_of(taken)
    alice.post(change, {"verb": "delete-unused"})
    assert tags.names_of(world.base) == ["Newest"]


def test_the_export_page_tells_sizes_starts_one_and_hands_out_the_file(world: World, alice: Client) -> None:
    indexed(world.principal(world.alice), world.base, "a.md", "# A\n\nalpha")
    page = text_of(alice.get(address(world, "archive/")))
    assert "about" in page and "1 document," in page
    alice.post(address(world, "archive/"), {"revisions": "current"})
    row = Archive.objects.get()
    assert row.options == {"revisions": "current", "vectors": False}
    alice.post(address(world, "archive/"))
    assert "running already" in text_of(alice.get(address(world, "archive/")))
    assert alice.get(address(world, f"archive/{row.uid}/file/")).status_code == 404
    alice.post(address(world, f"archive/{row.uid}/cancel/"))
    row.refresh_from_db()
    assert row.status == "cancelled"


def test_an_archive_is_imported_by_its_page_and_a_bad_one_is_refused_beside_the_field(
    world: World, alice: Client, tmp_path: Path
) -> None:
    indexed(world.principal(world.alice), world.base, "a.md", "# A\n\nalpha")
    exported(world.base, tmp_path / "a.zip", vectors=True)
    data = io.BytesIO((tmp_path / "a.zip").read_bytes())
    data.name = "a.zip"
    assert alice.post("/imports/", {"file": data, "name": "Copy"}).status_code == 302
    row = Archive.objects.get()
    turn = claim(row)
    assert turn is not None
    jobs.run(turn)
    page = text_of(alice.get("/imports/"))
    assert "a.zip" in page and ">Copy</a>" in page
    bad = io.BytesIO(b"no zip")
    bad.name = "b.zip"
    refused = alice.post("/imports/", {"file": bad})
    assert refused.status_code == 422
    assert "This is not an archive of a knowledge base." in text_of(refused)
    assert "a.zip" not in text_of(browser(world.bob).get("/imports/"))


def test_the_recycle_bin_is_emptied_as_a_whole_and_only_as_it_was_shown(world: World, alice: Client) -> None:
    rows = fill(world, 3)
    for row in rows:
        documents.delete(world.principal(world.alice), row)
    restore = address(world, "documents/restore/")
    data = {"scope": "all", "verb": "purge", "to": "bin"}
    assert alice.post(restore, {**data, "expected": "2"}).status_code == 409
    assert Document.objects.count() == 3
    alice.post(restore, {**data, "expected": "3", "exclude": rows[0].uid})
    assert list(Document.objects.all()) == [rows[0]]
    alice.post(restore, {"one": rows[0].uid, "to": "bin"})
    assert Document.objects.get().deleted_at is None


FILTERS: list[tuple[str, list[str]]] = [
    ("type=csv", ["b.csv"]),
    ("tag=hr", ["a.md"]),
    ("owner=me", ["a.md"]),
    ("owner=nobody", ["b.csv", "c.md"]),
    ("changed=7d", ["a.md", "b.csv", "c.md"]),
    ("changed=older", []),
    ("type=csv&tag=hr", []),
    ("type=nonsense", ["a.md", "b.csv", "c.md"]),
]


@pytest.mark.parametrize(("query", "names"), FILTERS, ids=[query for query, _ in FILTERS])
def test_page_api_and_selection_agree_on_every_filter(
    world: World, alice: Client, query: str, names: list[str]
) -> None:
    principal = world.principal(world.alice)
    first = put(principal, world.base, "a.md", "# A\n\nalpha").document
    put(principal, world.base, "b.csv", "part,price\nA,1\n")
    put(principal, world.base, "c.md", "# C\n\ngamma")
    documents.describe(principal, first, tags=["HR"], owner=world.alice)
    page = text_of(alice.get(address(world, f"documents/?sort=name&{query}")))
    assert f'data-total="{len(names)}"' in page
    if "nonsense" not in query:
        body = alice.get(f"/api/v1/bases/{world.base.uid}/documents?sort=name&{query}").json()
        assert [row["name"] for row in body["results"]] == names
    if names:
        chosen = Selection(scope="all", filter=query, expected=len(names))
        assert chosen.documents(principal, world.base).count() == len(names)


def test_the_api_starts_batches_and_tells_outcomes(world: World, alice: Client) -> None:
    rows = fill(world, 2)
    start = f"/api/v1/bases/{world.base.uid}/batches"

    def post(url: str, body: dict[str, Any]) -> Any:
        return alice.post(url, body, content_type="application/json", headers=token(alice))

    body = {"verb": "tag", "ids": [row.uid for row in rows], "params": {"tags": ["x"]}}
    made = post(start, body)
    assert made.status_code == 202, made.content
    found = made.json()
    assert found["outcomes"] == {"waiting": 0, "done": 2, "skipped": 0, "failed": 0}
    items = alice.get(f"/api/v1/batches/{found['id']}/items").json()["results"]
    assert {item["outcome"] for item in items} == {"done"}
    undone = post(f"/api/v1/batches/{found['id']}/undo", {})
    assert undone.json()["outcomes"]["done"] == 2
    assert post(f"/api/v1/batches/{found['id']}/undo", {}).status_code == 409
    stale = {"verb": "delete", "filter": "", "expected": 1}
    assert post(start, stale).json()["code"] == "list_changed"
    assert post(start, {"verb": "delete"}).status_code == 422
    assert alice.get(f"/api/v1/bases/{world.base.uid}/tags").json() == [{"name": "x", "documents": 0}]


def token(client: Client) -> dict[str, str]:
    client.get("/")
    return {"X-CSRFToken": client.cookies["csrftoken"].value} if "csrftoken" in client.cookies else {}


def test_sensitive_bases_of_others_are_no_target(world: World, alice: Client) -> None:
    row = fill(world, 1)[0]
    Revision.objects.update(status="cancelled")
    hidden = bases.create(world.principal(world.mallory), name="Hidden", sensitive=True)
    page = text_of(alice.post(address(world, "documents/bulk/"), {"verb": "move", "ids": row.uid}))
    assert "Hidden" not in page
    data = {"asked": "yes", "verb": "move", "ids": row.uid, "base": hidden.uid, "name_taken": "refuse"}
    assert alice.post(address(world, "documents/bulk/"), data).status_code == 422
    assert Document.objects.get(pk=row.pk).base == world.base
    assert archive.is_over(Archive(expires_at=None)) is False
