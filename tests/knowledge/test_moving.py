"""Moving to another base: what goes along, whose grants apply, what copies of the text may still be read."""

from __future__ import annotations

import pytest

from knowledge import asking, bases, documents, moving, notices, statistics, tags
from knowledge.access import visible_documents
from knowledge.intake import Duplicate
from knowledge.models import ChunkVector, Document, KnowledgeBase, QueryRecord, Revision, Role
from knowledge.retrieval import retrieve
from knowledge.retrieval.contract import RetrievalRequest
from knowledge.verification import verify
from portal.kernel import notify
from portal.kernel.errors import Conflict, Invalid
from portal.kernel.models import AuditEntry, Notification
from portal.kernel.principal import Principal
from tests.knowledge.pages.desk import browser
from tests.support.people import World, indexed, put, work_through
from tests.support.slow_model import SteppedProvider, use


@pytest.fixture
def alice(world: World) -> Principal:
    return world.principal(world.alice)


@pytest.fixture
def target(alice: Principal) -> KnowledgeBase:
    return bases.create(alice, name="Board")


def test_revisions_chunks_and_vectors_go_along(world: World, alice: Principal, target: KnowledgeBase) -> None:
    row = indexed(alice, world.base, "a.md", "# A\n\nThe xylograph is in the attic.", "old")
    indexed(alice, world.base, "a.md", "# A\n\nThe xylograph is in the cellar.", "old")
    vectors = set(ChunkVector.objects.values_list("pk", flat=True))
    assert moving.move(alice, row, target) is None
    moved = Document.objects.get(pk=row.pk)
    assert (moved.base, moved.folder, moved.uid) == (target, "old", row.uid)
    assert set(Revision.objects.filter(document=row).values_list("base", flat=True)) == {target.pk}
    assert set(ChunkVector.objects.values_list("pk", flat=True)) == vectors
    found = retrieve(alice, RetrievalRequest("xylograph", base_uids=(target.uid,)))
    assert "cellar" in found.hits[0].text
    assert not retrieve(alice, RetrievalRequest("xylograph", base_uids=(world.base.uid,))).hits
    assert all(finding.ok for finding in verify()), [finding for finding in verify() if not finding.ok]


def test_word_statistics_move_with_it(world: World, alice: Principal, target: KnowledgeBase) -> None:
    row = indexed(alice, world.base, "a.md", "# A\n\nThe xylograph is in the attic.")
    moving.move(alice, row, target)
    for base in (world.base, target):
        assert statistics.stored(base.pk) == statistics.recount(base.pk)
    assert "xylograph" in statistics.recount(target.pk)
    assert not statistics.recount(world.base.pk)


def test_grants_of_the_target_apply_at_once(world: World, alice: Principal, target: KnowledgeBase) -> None:
    row = indexed(alice, world.base, "a.md", "# A\n\nThe xylograph is in the attic.")
    bob, mallory = world.principal(world.bob), world.principal(world.mallory)
    bases.grant(alice, target, Role.VIEWER, user=world.mallory)
    assert retrieve(bob, RetrievalRequest("xylograph")).hits
    moving.move(alice, row, target)
    assert not retrieve(bob, RetrievalRequest("xylograph")).hits
    assert not visible_documents(bob).exists()
    assert retrieve(mallory, RetrievalRequest("xylograph")).hits


def test_answers_and_notices_that_hold_its_text_close_with_it(
    world: World, alice: Principal, target: KnowledgeBase
) -> None:
    row = indexed(alice, world.base, "a.md", "# A\n\nThe xylograph is in the attic.")
    other = indexed(alice, world.base, "b.md", "# B\n\nLunch is at noon.")
    bob = world.principal(world.bob)
    _, record = asking.ask(bob, RetrievalRequest("xylograph", top_k=1), kind=QueryRecord.Kind.ASK)
    _, lunch = asking.ask(bob, RetrievalRequest("lunch at noon", top_k=1), kind=QueryRecord.Kind.ASK)
    assert record is not None
    assert lunch is not None
    for document in (row, other):
        link = f"/bases/{world.base.uid}/documents/{document.uid}/"
        ids = [world.base.pk]
        notify.tell([world.bob], "revision.review", workspace_id=1, base_ids=ids, link=link, document=document.name)
    Notification.objects.update(workspace_id=world.workspace.pk)
    moving.move(alice, row, target)
    assert asking.readable_record(bob, record.uid) is None
    assert asking.readable_record(bob, lunch.uid)
    assert [notice.params["document"] for notice in notices.readable(bob).filter(kind="revision.review")] == ["b.md"]


def test_an_old_address_leads_to_the_new_place_for_those_who_may(
    world: World, alice: Principal, target: KnowledgeBase
) -> None:
    row = indexed(alice, world.base, "a.md", "# A\n\nThe xylograph is in the attic.")
    moving.move(alice, row, target)
    old = f"/bases/{world.base.uid}/documents/{row.uid}/"
    response = browser(world.alice).get(old, {"rev": "1", "chunk": "c_5"})
    assert response.status_code == 302
    assert response["Location"] == f"/bases/{target.uid}/documents/{row.uid}/?rev=1&chunk=c_5"
    assert browser(world.bob).get(old).status_code == 404


def test_both_bases_audit_logs_tell_of_it(world: World, alice: Principal, target: KnowledgeBase) -> None:
    row = indexed(alice, world.base, "a.md", "# A\n\nalpha")
    moving.move(alice, row, target)
    out = AuditEntry.objects.get(action="document.move_out")
    into = AuditEntry.objects.get(action="document.move_in")
    assert (out.base_ids, into.base_ids) == ([world.base.pk], [target.pk])


def test_a_taken_name_is_refused_or_numbered_and_equal_bytes_are_never_doubled(
    world: World, alice: Principal, target: KnowledgeBase
) -> None:
    row = indexed(alice, world.base, "a.md", "# A\n\nalpha")
    indexed(alice, target, "a.md", "# Other\n\nbeta")
    with pytest.raises(Conflict, match="there already"):
        moving.move(alice, row, target)
    moving.move(alice, row, target, name_taken="keep_both")
    assert Document.objects.get(pk=row.pk).source_key == "a (2).md"
    same = indexed(alice, world.base, "copy.md", "# Other\n\nbeta")
    with pytest.raises(Duplicate):
        moving.move(alice, same, target)


def test_work_that_is_under_way_is_not_moved(world: World, alice: Principal, target: KnowledgeBase) -> None:
    busy = put(alice, world.base, "a.md", "# A\n\nalpha").document
    with pytest.raises(Conflict) as refused:
        moving.move(alice, busy, target)
    assert refused.value.code == "revision_open"
    with pytest.raises(Invalid):
        moving.move(alice, indexed(alice, world.base, "b.md", "# B\n\nbeta"), world.eves_base)


def test_tags_join_the_vocabulary_of_the_target(world: World, alice: Principal, target: KnowledgeBase) -> None:
    tags.create(alice, target, "HR")
    row = documents.describe(alice, indexed(alice, world.base, "a.md", "# A\n\nalpha"), tags=["hr", "new"])
    moving.move(alice, row, target)
    assert Document.objects.get(pk=row.pk).tags == ["HR", "new"]
    assert tags.names_of(target) == ["HR", "new"]


@pytest.mark.django_db(transaction=True)  # the account book writes beside the caller's transaction
def test_with_another_model_chunks_stay_and_only_vectors_are_made(world: World, alice: Principal) -> None:
    with SteppedProvider() as provider:
        target = bases.create(alice, name="Other model")
        use(provider, target)
        row = indexed(alice, world.base, "a.md", "# A\n\nThe xylograph is in the attic.")
        queued = moving.move(alice, row, target)
        assert queued is not None
        # Meanwhile it is found by its words.
        found = retrieve(alice, RetrievalRequest("xylograph", base_uids=(target.uid,), mode="keywords"))
        assert found.hits
        work_through(queued)
        moved = Document.objects.select_related("active_revision").get(pk=row.pk)
        assert moved.active_revision == queued
        texts = [
            list(revision.chunks.order_by("level", "ordinal").values_list("text", flat=True))
            for revision in Revision.objects.filter(document=row)
        ]
        assert texts[0] == texts[1]
        assert ChunkVector.objects.filter(revision=queued, space=queued.space).exists()
        assert all(finding.ok for finding in verify()), [finding for finding in verify() if not finding.ok]
