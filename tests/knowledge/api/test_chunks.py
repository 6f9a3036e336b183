"""Passages, previews and reviews over REST: what a program sends, and what it gets when somebody was quicker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from django.test import Client

from knowledge import bases
from knowledge.models import Chunk, Document, Revision
from portal.kernel import keys
from portal.kernel.models import Notification
from tests.support.people import World, indexed, put, work_through

TEXT = """# Pumps

Pump P-100 runs at 40 bar and is checked every month by the night shift. The foreman signs the sheet and hangs it up.

# Valves

Valve V-7 opens at 4 bar. See https://example.org/v7 or write to valves@example.org. It hangs beside the red ladder.
"""

# A split in which nothing comes out as before.
WHOLE = {"mode": "separators", "separators": ["Never"], "passage_tokens": 400, "leaf_tokens": 300}


@dataclass
class Desk:
    world: World
    client: Client

    def send(self, method: str, path: str, body: Any = None) -> Any:
        answer = getattr(self.client, method)(f"/api/v1{path}", body or {}, content_type="application/json")
        answer.body = answer.json() if answer.content else None
        return answer

    def passages(self, document: Document) -> list[Chunk]:
        document.refresh_from_db()
        return list(Chunk.objects.filter(revision=document.active_revision, level="passage").order_by("ordinal"))


def client_of(world: World, name: str, *scopes: str) -> Client:
    _, secret = keys.create(world.principal(getattr(world, name)), name=name, scopes=list(scopes))
    return Client(headers={"Authorization": f"Bearer {secret}"})


@pytest.fixture
def desk(world: World) -> Desk:
    alice = world.principal(world.alice)
    bases.save_settings(alice, world.base, "splitting", {"passage_tokens": 60, "leaf_tokens": 40})
    world.base.refresh_from_db()
    return Desk(world, client_of(world, "alice", "kb:read", "kb:write"))


@pytest.fixture
def document(desk: Desk) -> Document:
    return indexed(desk.world.principal(desk.world.alice), desk.world.base, "plant.md", TEXT)


def test_a_passage_is_edited_with_its_version_and_answers_with_its_leaves(desk: Desk, document: Document) -> None:
    passage = desk.passages(document)[1]
    answer = desk.send("patch", f"/chunks/{passage.pk}", {"version": 1, "text": "Valve V-7 is titanium."})
    assert answer.status_code == 200
    (row,) = answer.body["passages"]
    assert (row["id"], row["version"], row["text"]) == (passage.pk, 2, "Valve V-7 is titanium.")
    assert [leaf["text"] for leaf in row["leaves"]] == ["Valve V-7 is titanium."]
    late = desk.send("patch", f"/chunks/{passage.pk}", {"version": 1, "text": "Too late."})
    assert (late.status_code, late.body["code"]) == (409, "chunk_changed")
    versions = desk.send("get", f"/chunks/{passage.pk}/versions").body
    assert [(one["number"], one["verb"], one["edited_by"]) for one in versions] == [
        (1, "made", None),
        (2, "edit", "Alice"),
    ]
    both = desk.send("patch", f"/chunks/{passage.pk}", {"version": 2, "text": "V-7 again.", "enabled": False})
    assert (both.body["passages"][0]["enabled"], both.body["passages"][0]["version"]) == (False, 4)
    same = desk.send("patch", f"/chunks/{passage.pk}", {"version": 4, "text": "V-7 again."})
    assert same.body["change"] is None and same.body["passages"][0]["version"] == 4


def test_split_merge_add_remove_restore_and_undo(desk: Desk, document: Document) -> None:
    first, second = desk.passages(document)
    revision = document.active_revision
    assert revision is not None
    cut = desk.send("post", f"/chunks/{second.pk}/split", {"version": 1, "position": second.text.index("See ")}).body
    head, tail = cut["passages"]
    assert head["id"] == second.pk and tail["ordinal"] == 2
    merged = desk.send("post", f"/chunks/{second.pk}/merge", {"version": 2, "next_version": 1}).body
    assert merged["passages"][0]["text"] == second.text and merged["passages"][1]["removed"]
    added = desk.send("post", f"/revisions/{revision.uid}/passages", {"text": "By hand.", "after": first.pk})
    assert (added.status_code, added.body["passages"][0]["ordinal"]) == (201, 1)
    hand = added.body["passages"][0]
    assert desk.send("delete", f"/chunks/{hand['id']}", {"version": 1}).body["passages"][0]["removed"]
    back = desk.send("post", f"/chunks/{hand['id']}/restore", {"version": 2, "to": 1}).body
    assert back["passages"][0]["removed"] is False
    undone = desk.send("post", f"/revisions/{revision.uid}/undo", {"change": back["change"]}).body
    assert undone["passages"][0]["removed"] is True
    assert [row.text for row in desk.passages(document)] == [first.text, second.text]


def test_a_leaf_is_edited_through_its_passage(desk: Desk, document: Document) -> None:
    passage = desk.passages(document)[0]
    leaves = desk.send("get", f"/chunks/{passage.pk}").body["leaves"]
    of_leaf = desk.send("get", f"/chunks/{leaves[-1]['id']}").body
    assert of_leaf["id"] == passage.pk
    answer = desk.send("patch", f"/chunks/{leaves[-1]['id']}", {"version": 1, "text": "Nobody signs it."})
    assert "Nobody signs it." in answer.body["passages"][0]["text"]
    for path, body in (("split", {"position": 3}), ("merge", {}), ("restore", {"to": 1})):
        leaf = answer.body["passages"][0]["leaves"][0]["id"]
        refused = desk.send("post", f"/chunks/{leaf}/{path}", {"version": 2, **body})
        assert (refused.status_code, refused.body["code"]) == (409, "not_a_passage")


def test_only_editors_change_and_readers_see_the_history(desk: Desk, document: Document) -> None:
    passage = desk.passages(document)[0]
    desk.send("patch", f"/chunks/{passage.pk}", {"version": 1, "text": "P-100 was changed."})
    bob = Desk(desk.world, client_of(desk.world, "bob", "kb:read", "kb:write"))
    assert bob.send("get", f"/chunks/{passage.pk}/versions").status_code == 200
    assert bob.send("patch", f"/chunks/{passage.pk}", {"version": 2, "text": "x"}).status_code == 403
    mallory = Desk(desk.world, client_of(desk.world, "mallory", "kb:read", "kb:write"))
    assert mallory.send("get", f"/chunks/{passage.pk}/versions").status_code == 404
    reader = Desk(desk.world, client_of(desk.world, "alice", "kb:read"))
    assert reader.send("patch", f"/chunks/{passage.pk}", {"version": 2, "text": "x"}).status_code == 403
    elsewhere = indexed(desk.world.principal(desk.world.alice), desk.world.base, "other.md", "# O\n\nOther words.")
    other = elsewhere.active_revision
    assert other is not None
    body = {"text": "Strange.", "after": passage.pk}
    assert desk.send("post", f"/revisions/{other.uid}/passages", body).status_code == 404


def test_a_preview_stores_nothing_and_says_what_is_left_out(desk: Desk, document: Document) -> None:
    revision = document.active_revision
    assert revision is not None
    before = [row.pk for row in desk.passages(document)]
    splitting = {"remove_urls": True, "remove_emails": True, "remove_patterns": ["beside the red \\w+"]}
    body = {"splitting": splitting, "first": 0, "limit": 5}
    found = desk.send("post", f"/revisions/{revision.uid}/preview", body).body
    assert {row["rule"]: (row["count"], row["examples"]) for row in found["removed"]} == {
        "beside the red \\w+": (1, ["beside the red ladder"]),
        "urls": (1, ["https://example.org/v7"]),
        "emails": (1, ["valves@example.org"]),
    }
    assert found["figures"]["passages"] == len(found["passages"])
    shown = found["passages"][-1]
    assert "Valve" in shown["text"] and "example.org" not in shown["text"]
    assert shown["leaves"][0]["searched"].startswith("plant\n")
    rest = desk.send("post", f"/revisions/{revision.uid}/preview", {"first": 1, "limit": 1}).body
    assert [row["ordinal"] for row in rest["passages"]] == [1] and rest["figures"]["passages"] == 2
    assert found["whole"] and found["lost"] == []
    assert [row.pk for row in desk.passages(document)] == before
    bad = desk.send("post", f"/revisions/{revision.uid}/preview", {"splitting": {"patterns": ["("]}})
    assert (bad.status_code, bad.body["code"]) == (422, "bad_pattern")
    unknown = desk.send("post", f"/revisions/{revision.uid}/preview", {"splitting": {"sise": 3}})
    assert (unknown.status_code, unknown.body["code"]) == (422, "settings_invalid")


def reviewed(desk: Desk, name: str, text: str = TEXT) -> Revision:
    """A document whose uploader asked to look at it first, though the base says never."""
    from django.core.files.uploadedfile import SimpleUploadedFile

    answer = desk.client.post(
        f"/api/v1/bases/{desk.world.base.uid}/documents",
        {"file": SimpleUploadedFile(name, text.encode()), "review": "true"},
    )
    assert answer.status_code == 201
    return work_through(Revision.objects.get(uid=answer.json()["revision"]["id"]))


def test_an_upload_may_ask_for_a_review_though_the_base_does_not(desk: Desk) -> None:
    revision = reviewed(desk, "a.md")
    assert revision.status == Revision.Status.REVIEW
    told = Notification.objects.get(user=desk.world.alice, kind="revision.review")
    assert told.link.endswith(f"/documents/{revision.document.uid}/chunks/")
    assert desk.send("post", f"/revisions/{revision.uid}/confirm").status_code == 200
    assert work_through(revision).status == Revision.Status.INDEXED


def test_a_waiting_revision_is_split_again_without_another_upload(desk: Desk) -> None:
    revision = reviewed(desk, "a.md")
    before = Chunk.objects.filter(revision=revision, level="leaf").count()
    wanted = {"mode": "separators", "separators": ["."], "remove_urls": True}
    previewed = desk.send("post", f"/revisions/{revision.uid}/preview", {"splitting": wanted, "limit": 100}).body
    answer = desk.send("post", f"/revisions/{revision.uid}/resplit", {"splitting": wanted})
    assert (answer.status_code, answer.body["status"]) == (200, "pending")
    assert work_through(revision).status == Revision.Status.REVIEW
    stored = Chunk.objects.filter(revision=revision, level="passage").order_by("ordinal")
    assert [row.text for row in stored] == [row["text"] for row in previewed["passages"]]
    assert Chunk.objects.filter(revision=revision, level="leaf").count() == revision.chunk_count != before
    assert not any("https" in row.text for row in stored)
    assert revision.own_splitting
    desk.send("post", f"/revisions/{revision.uid}/confirm")
    assert work_through(revision).status == Revision.Status.INDEXED
    late = desk.send("post", f"/revisions/{revision.uid}/resplit", {"splitting": wanted})
    assert (late.status_code, late.body["code"]) == (409, "not_in_review")


def test_a_reindex_splits_as_was_chosen_for_the_document(desk: Desk) -> None:
    revision = reviewed(desk, "a.md")
    desk.send("post", f"/revisions/{revision.uid}/resplit", {"splitting": {"mode": "separators", "separators": ["."]}})
    work_through(revision)
    desk.send("post", f"/revisions/{revision.uid}/confirm")
    work_through(revision)
    texts = [row.text for row in Chunk.objects.filter(revision=revision, level="passage").order_by("ordinal")]
    again = desk.send("post", f"/documents/{revision.document.uid}/reindex")
    fresh = work_through(Revision.objects.get(uid=again.body["id"]))
    assert fresh.status == Revision.Status.INDEXED
    assert [row.text for row in Chunk.objects.filter(revision=fresh, level="passage").order_by("ordinal")] == texts
    plain = desk.send("post", f"/documents/{revision.document.uid}/reindex", {"as_base": True})
    last = work_through(Revision.objects.get(uid=plain.body["id"]))
    assert Chunk.objects.filter(revision=last, level="passage").count() == 2 and not last.own_splitting


def test_several_waiting_documents_are_decided_at_once(desk: Desk) -> None:
    rows = [reviewed(desk, f"{name}.md", f"{TEXT}\n{name} words") for name in "abc"]
    path = f"/bases/{desk.world.base.uid}/review"
    assert [row["id"] for row in desk.send("get", path).body] == [row.uid for row in rows]
    body = {"revisions": [rows[0].uid, rows[1].uid], "action": "resplit", "splitting": {"passage_tokens": 300}}
    assert {row["code"] for row in desk.send("post", path, body).body} == {None}
    for row in rows[:2]:
        assert work_through(row).config["splitting"]["passage_tokens"] == 300
    answers = desk.send(
        "post", path, {"revisions": [*(row.uid for row in rows), "nosuchrevision00"], "action": "confirm"}
    ).body
    assert [row["code"] for row in answers] == [None, None, None, "not_found"]
    assert {work_through(row).status for row in rows} == {Revision.Status.INDEXED}


def test_what_was_sent_back_waits_for_its_review_again_when_it_is_restarted(desk: Desk) -> None:
    revision = reviewed(desk, "a.md")
    desk.send("post", f"/bases/{desk.world.base.uid}/review", {"revisions": [revision.uid], "action": "discard"})
    revision.refresh_from_db()
    assert revision.status == Revision.Status.CANCELLED
    desk.send("post", f"/revisions/{revision.uid}/retry")
    revision.refresh_from_db()
    assert revision.status == Revision.Status.REVIEW
    assert Chunk.objects.filter(revision=revision).exists()


def test_passages_are_changed_during_a_review_and_a_new_split_asks_first(desk: Desk) -> None:
    revision = reviewed(desk, "a.md")
    passage = Chunk.objects.filter(revision=revision, level="passage").order_by("ordinal")[0]
    desk.send("patch", f"/chunks/{passage.pk}", {"version": 1, "text": "Pump P-100 is at rest."})
    refused = desk.send("post", f"/revisions/{revision.uid}/resplit", {"splitting": WHOLE})
    assert (refused.status_code, refused.body["code"]) == (409, "edits_lost")
    desk.send("post", f"/revisions/{revision.uid}/confirm")
    assert work_through(revision).status == Revision.Status.INDEXED
    found = desk.send("post", "/search", {"query": "pump at rest", "mode": "embedding"}).body
    assert found["hits"][0]["text"] == "Pump P-100 is at rest."
    assert "&v=2#" in found["hits"][0]["citation"]


def test_edits_are_listed_and_those_that_a_reindex_would_lose_are_refused(desk: Desk, document: Document) -> None:
    passage = desk.passages(document)[0]
    desk.send("patch", f"/chunks/{passage.pk}", {"version": 1, "text": "P-100 was changed."})
    lost = desk.send("get", f"/documents/{document.uid}/edits").body
    assert lost == [{"kind": "edited", "chunk": passage.pk, "ordinal": 0, "text": "P-100 was changed."}]
    assert document.active_revision is not None
    seen = desk.send("post", f"/revisions/{document.active_revision.uid}/preview", {"splitting": WHOLE}).body
    assert (seen["lost"], seen["kept"]) == (lost, [])
    refused = desk.send("post", f"/documents/{document.uid}/reindex", {"splitting": WHOLE})
    assert (refused.status_code, refused.body["code"]) == (409, "edits_lost")
    assert desk.send("post", f"/revisions/{document.active_revision.uid}/preview", {}).body["kept"] == lost
    assert desk.send("post", f"/documents/{document.uid}/reindex").status_code == 201


def test_a_base_that_asks_for_reviews_gets_them(desk: Desk) -> None:
    alice = desk.world.principal(desk.world.alice)
    bases.save_settings(alice, desk.world.base, "splitting", {"review": "always"})
    desk.world.base.refresh_from_db()
    assert work_through(put(alice, desk.world.base, "b.md", TEXT).revision).status == Revision.Status.REVIEW
