"""One verb on many documents: the selection, an outcome for each, cancelling, undo, and who may."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest
from django.utils import timezone

from knowledge import background, bases, batches, documents, lifecycle, moving
from knowledge.access import access_batch
from knowledge.batches import Selection
from knowledge.models import Archive, Batch, Document, Grant, KnowledgeBase, Revision, Role
from portal.kernel import keys
from portal.kernel.errors import Conflict, Invalid, NotFound
from portal.kernel.models import AuditEntry, new_uid
from portal.kernel.principal import Principal, for_key
from tests.support.people import World, indexed, put


@pytest.fixture
def alice(world: World) -> Principal:
    return world.principal(world.alice)


def fill(world: World, count: int, folder: str = "") -> list[Document]:
    principal = world.principal(world.alice)
    rows = [put(principal, world.base, f"doc-{n:03}.md", f"# {folder} {n}\n\nWords", folder) for n in range(count)]
    return [row.document for row in rows]


def of(*rows: Document) -> Selection:
    return Selection(ids=tuple(row.uid for row in rows))


def done(principal: Principal, base: KnowledgeBase, verb: str, chosen: Selection, /, **params: Any) -> Batch:
    """A batch worked through in this process, however large."""
    batch = batches.start(principal, base, verb, chosen, params)
    while batches.work(batch.pk):
        pass
    return Batch.objects.get(pk=batch.pk)


def outcome(batch: Batch) -> dict[str, tuple[str, str]]:
    """(outcome, code) of each document by name."""
    return {item.name: (item.outcome, item.code) for item in batch.items.all()}


def test_a_selection_is_fixed_when_the_batch_is_started(world: World, alice: Principal) -> None:
    fill(world, 3)
    batch = batches.start(alice, world.base, "disable", Selection(scope="all", filter="q=doc", expected=3))
    put(alice, world.base, "doc-late.md", "# Late\n\nWords")
    batches.work(batch.pk)
    assert Document.objects.get(name="doc-late.md").enabled
    assert Document.objects.filter(enabled=False).count() == 3


def test_all_that_match_but_those_left_out(world: World, alice: Principal) -> None:
    rows = fill(world, 6)
    chosen = Selection(scope="all", filter="", exclude=(rows[2].uid,), expected=6)
    batch = done(alice, world.base, "tag", chosen, tags=["x"])
    assert batch.total == 5
    assert not Document.objects.get(pk=rows[2].pk).tags
    assert batch.selection == {"scope": "all", "filter": "", "excluded": 1}


def test_more_than_was_shown_is_refused(world: World, alice: Principal) -> None:
    fill(world, 3)
    for expected in (2, None):
        with pytest.raises(Conflict):
            batches.start(alice, world.base, "delete", Selection(scope="all", filter="", expected=expected))


def test_each_document_has_its_outcome_and_its_reason(world: World, alice: Principal) -> None:
    ready = indexed(alice, world.base, "ready.md", "# A\n\none")
    busy = fill(world, 1)[0]
    gone = indexed(alice, world.base, "gone.md", "# G\n\ngone")
    batch = batches.start(alice, world.base, "reindex", of(ready, busy, gone))
    documents.delete(alice, gone)
    batches.work(batch.pk)
    batch.refresh_from_db()
    assert outcome(batch) == {
        "ready.md": ("done", ""),
        "doc-000.md": ("failed", "revision_open"),
        "gone.md": ("skipped", "bin_changed"),
    }
    assert batch.status == "done"
    assert batches.outcomes(batch) == batches.Outcomes(waiting=0, done=1, skipped=1, failed=1)


def test_what_is_so_already_is_skipped(world: World, alice: Principal) -> None:
    rows = fill(world, 2)
    documents.set_enabled(alice, rows[0], False)
    batch = done(alice, world.base, "disable", of(*rows))
    assert outcome(batch)["doc-000.md"] == ("skipped", "unchanged")
    assert outcome(batch)["doc-001.md"] == ("done", "")


def test_a_batch_goes_on_slice_by_slice_and_does_nothing_twice(world: World, alice: Principal, settings: Any) -> None:
    settings.ARCHWAY = {**settings.ARCHWAY, "SLICE_SECONDS": 0.0}
    rows = fill(world, 4)
    batch = batches.start(alice, world.base, "tag", of(*rows), {"tags": ["x"]})
    assert batches.work(batch.pk)
    assert batches.outcomes(batch).done == 1
    slices = 1
    while batches.work(batch.pk):
        slices += 1
    assert slices >= 3
    assert batches.outcomes(batch).done == 4
    assert AuditEntry.objects.filter(action="document.describe").count() == 4


def test_a_cancelled_batch_keeps_what_is_done_and_says_what_was_not_reached(
    world: World, alice: Principal, settings: Any
) -> None:
    settings.ARCHWAY = {**settings.ARCHWAY, "SLICE_SECONDS": 0.0}
    rows = fill(world, 3)
    batch = batches.start(alice, world.base, "tag", of(*rows), {"tags": ["x"]})
    batches.work(batch.pk)
    batch.refresh_from_db()
    background.cancel(alice, batch)
    batch.refresh_from_db()
    assert batch.status == "cancelled"
    assert batches.outcomes(batch) == batches.Outcomes(waiting=2, done=1)
    assert not batches.work(batch.pk)
    with pytest.raises(Conflict):
        background.cancel(alice, batch)


def test_a_worker_that_lost_its_claim_writes_nothing(world: World, alice: Principal) -> None:
    batch = batches.start(alice, world.base, "tag", of(*fill(world, 1)), {"tags": ["x"]})
    turn = background.claim(batch)
    assert turn is not None
    assert background.claim(batch) is None
    Batch.objects.filter(pk=batch.pk).update(heartbeat_at=timezone.now() - timedelta(hours=1))
    assert background.claim(batch) is not None
    with pytest.raises(Conflict):
        turn.at(1, always=True)


def test_work_whose_workers_are_lost_again_and_again_is_given_up(world: World, alice: Principal) -> None:
    batch = batches.start(alice, world.base, "tag", of(*fill(world, 1)), {"tags": ["x"]})
    for _ in range(background.MAX_LOST + 1):
        background.claim(batch)
        Batch.objects.filter(pk=batch.pk).update(heartbeat_at=timezone.now() - timedelta(hours=1))
    batch.refresh_from_db()
    assert (batch.status, batch.error_code) == ("failed", "worker_timeout")


UNDONE: list[tuple[str, dict[str, Any]]] = [
    ("disable", {}),
    ("tag", {"tags": ["new", "kept"]}),
    ("untag", {"tags": ["kept"]}),
    ("folder", {"folder": "a/b"}),
    ("review", {"date": "2030-01-31"}),
    ("owner", {}),
    ("delete", {}),
    ("move", {}),
]


@pytest.mark.parametrize(("verb", "params"), UNDONE, ids=[verb for verb, _ in UNDONE])
def test_undo_brings_back_what_was_before(world: World, alice: Principal, verb: str, params: dict[str, Any]) -> None:
    row = indexed(alice, world.base, "a.md", "# A\n\nalpha")
    documents.describe(alice, row, tags=["kept"], review_date=date(2029, 5, 1), folder="home")
    other = bases.create(alice, name="Other")
    given = {"move": {"base": other.uid}, "owner": {"owner": world.alice.uid}}.get(verb, params)

    def state() -> tuple[Any, ...]:
        now = Document.objects.get(pk=row.pk)
        return now.base_id, now.folder, now.tags, now.review_date, now.owner_id, now.enabled, now.deleted_at is None

    before = state()
    batch = done(alice, world.base, verb, of(row), **given)
    assert state() != before
    assert batches.may_undo(batch)
    undoing = batches.begin(batches.undo(alice, batch))
    assert outcome(undoing) == {"a.md": ("done", "")}
    assert state() == before
    assert not batches.may_undo(batch)
    with pytest.raises(Conflict):
        batches.undo(alice, batch)


def test_undo_leaves_what_somebody_changed_meanwhile(world: World, alice: Principal) -> None:
    row = fill(world, 1)[0]
    batch = done(alice, world.base, "tag", of(row), tags=["batch"])
    documents.describe(alice, row, tags=["batch", "mine"])
    batches.begin(batches.undo(alice, batch))
    assert Document.objects.get(pk=row.pk).tags == ["mine"]


def test_work_that_can_not_be_taken_back_offers_no_undo(world: World, alice: Principal) -> None:
    row = indexed(alice, world.base, "a.md", "# A\n\nalpha")
    assert not batches.may_undo(done(alice, world.base, "reindex", of(row)))


def test_what_failed_is_tried_again_by_itself(world: World, alice: Principal) -> None:
    ready, busy = indexed(alice, world.base, "a.md", "# A\n\nalpha"), fill(world, 1)[0]
    first = done(alice, world.base, "reindex", of(ready, busy))
    lifecycle.cancel(alice, Revision.objects.get(document=busy))
    second = batches.begin(batches.again(alice, first))
    assert outcome(second) == {"doc-000.md": ("done", "")}


def test_re_splitting_with_own_settings_stays_with_the_document(world: World, alice: Principal) -> None:
    row = indexed(alice, world.base, "a.md", "# A\n\nalpha\n\n# B\n\nbeta")
    done(alice, world.base, "resplit", of(row), splitting={"passage_tokens": 60})
    newest = Revision.objects.get(document=row, number=2)
    assert newest.own_splitting
    assert newest.config["splitting"]["passage_tokens"] == 60
    with pytest.raises(Invalid):
        batches.start(alice, world.base, "resplit", of(row), {"splitting": {"passage_tokens": 1}})


def test_the_recycle_bin_is_emptied_or_restored_at_once(world: World, alice: Principal) -> None:
    rows = fill(world, 3)
    done(alice, world.base, "delete", of(*rows))
    done(alice, world.base, "restore", of(rows[0]))
    assert Document.objects.get(pk=rows[0].pk).deleted_at is None
    batch = done(alice, world.base, "purge", Selection(scope="bin", expected=2))
    assert outcome(batch) == {"doc-001.md": ("done", ""), "doc-002.md": ("done", "")}
    assert list(Document.objects.all()) == [rows[0]]


def test_nobody_selected_nonsense_and_strangers(world: World, alice: Principal) -> None:
    row = fill(world, 1)[0]
    eves = put(world.principal(world.eve), world.eves_base, "e.md", "# E\n\nsecret").document
    for verb, chosen, params in (
        ("explode", of(row), {}),
        ("tag", of(row), {"tags": [" "]}),
        ("tag", of(), {"tags": ["x"]}),
        ("disable", of(eves), {}),
        ("review", of(row), {"date": "31.12."}),
        ("owner", of(row), {"owner": world.bob.uid}),
        ("owner", of(row), {"owner": world.eve.uid}),
        ("move", of(row), {"base": world.base.uid}),
    ):
        with pytest.raises(Invalid):
            batches.start(alice, world.base, verb, chosen, params)
    with pytest.raises(NotFound):
        batches.start(alice, world.base, "move", of(row), {"base": world.eves_base.uid})


def test_a_role_that_is_taken_away_stops_the_rest(world: World, alice: Principal, settings: Any) -> None:
    settings.ARCHWAY = {**settings.ARCHWAY, "SLICE_SECONDS": 0.0}
    rows = fill(world, 2)
    grant = bases.grant(alice, world.base, Role.EDITOR, user=world.mallory)
    batch = batches.start(world.principal(world.mallory), world.base, "tag", of(*rows), {"tags": ["x"]})
    batches.work(batch.pk)
    bases.revoke(alice, world.base, grant)
    while batches.work(batch.pk):
        pass
    assert outcome(batch) == {"doc-000.md": ("done", ""), "doc-001.md": ("failed", "role_too_small")}


def test_a_batch_of_a_key_has_no_more_rights_than_the_key(world: World, alice: Principal) -> None:
    row = fill(world, 1)[0]
    key, _ = keys.create(alice, name="k", scopes=["kb:write"])
    batch = batches.start(for_key(key), world.base, "tag", of(row), {"tags": ["x"]})
    keys.revoke(alice, key)
    batches.work(batch.pk)
    batch.refresh_from_db()
    assert (batch.status, batch.error_code) == ("failed", "key_invalid")
    assert not Document.objects.get(pk=row.pk).tags


def test_batches_are_seen_by_those_who_may_edit_the_base(world: World, alice: Principal) -> None:
    batch = done(alice, world.base, "tag", of(*fill(world, 1)), tags=["x"])
    assert access_batch(alice, batch.uid) == batch
    for person in (world.bob, world.mallory, world.eve):
        with pytest.raises(NotFound):
            access_batch(world.principal(person), batch.uid)
    Grant.objects.filter(base=world.base, user=world.bob).update(role=Role.EDITOR)
    assert access_batch(world.principal(world.bob), batch.uid) == batch


def test_start_and_end_stand_in_the_audit_log(world: World, alice: Principal) -> None:
    batch = done(alice, world.base, "tag", of(*fill(world, 2)), tags=["x"])
    started = AuditEntry.objects.get(action="batch.start", object_id=batch.uid)
    ended = AuditEntry.objects.get(action="batch.done", object_id=batch.uid)
    assert (started.detail["verb"], started.detail["documents"]) == ("tag", 2)
    assert ended.detail["documents_done"] == 2
    assert ended.base_ids == [world.base.pk]


def test_a_batch_of_more_than_a_thousand_goes_past_those_that_are_gone(
    world: World, alice: Principal, settings: Any
) -> None:
    settings.ARCHWAY = {**settings.ARCHWAY, "SLICE_SECONDS": 60}
    rows = Document.objects.bulk_create(
        Document(base=world.base, source_key=f"{n:04}.md", name=f"{n:04}.md", uid=new_uid()) for n in range(1_010)
    )
    batch = batches.start(alice, world.base, "disable", Selection(scope="all", expected=1_010))
    documents.delete(alice, rows[3])
    documents.delete(alice, rows[4])
    documents.purge(alice, Document.objects.get(pk=rows[4].pk))
    other = bases.create(alice, name="Other")
    moving.move(alice, rows[5], other)
    while batches.work(batch.pk):
        pass
    batch.refresh_from_db()
    found = outcome(batch)
    assert (batch.status, batch.done, len(found)) == ("done", 1_010, 1_010)
    odd = {name: one for name, one in found.items() if one[0] != "done"}
    assert set(odd) == {"0003.md", "0004.md", "0005.md"} and all(code for _, code in odd.values())
    assert Document.objects.filter(base=world.base, enabled=False).count() == 1_007
    assert Document.objects.get(pk=rows[5].pk).enabled


def test_work_that_ended_long_ago_leaves_its_lists_and_nothing_else(world: World, alice: Principal) -> None:
    rows = fill(world, 2)
    old = done(alice, world.base, "disable", of(*rows))
    undo = batches.undo(alice, old)
    while batches.work(undo.pk):
        pass
    waiting = batches.start(alice, world.base, "tag", of(*rows), {"tags": ["x"]})
    long_ago = timezone.now() - timedelta(days=91)
    Batch.objects.filter(pk=old.pk).update(finished_at=long_ago)
    Batch.objects.filter(pk=waiting.pk).update(status="queued", finished_at=None, created_at=long_ago)
    kept = {"workspace": world.workspace, "created_by": world.alice, "status": "done", "finished_at": long_ago}
    over = Archive.objects.create(**kept, kind="export", base=world.base)
    fetched = Archive.objects.create(**kept, kind="export", base=world.base, file="exports/still-there")
    assert background.forget_ended() == 2
    assert set(Batch.objects.values_list("pk", flat=True)) == {undo.pk, waiting.pk}
    assert list(Archive.objects.values_list("pk", flat=True)) == [fetched.pk] and over.pk
    assert Document.objects.filter(pk__in=[row.pk for row in rows]).count() == 2
    assert AuditEntry.objects.filter(action="batch.start").exists()
