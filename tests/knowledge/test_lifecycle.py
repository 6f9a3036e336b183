"""States, claims, attempts and what survives whom."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from knowledge import bases, documents, lifecycle
from knowledge.ingestion import pipeline
from knowledge.models import Attempt, Chunk, ChunkVector, Document, Grant, Revision, Role
from knowledge.pages import listing
from portal.kernel.errors import Conflict, Invalid, Unavailable
from portal.kernel.models import AuditEntry, Notification
from tests.support.people import World, indexed, put, work_through

Status = Revision.Status
TEXT = "# Leave\n\nAnnual leave is fifteen days a year.\n\n# Travel\n\nTrains are booked by the office.\n"


def pending(world: World, name: str = "rules.md", text: str = TEXT) -> Revision:
    revision = put(world.principal(world.alice), world.base, name, text).revision
    assert revision is not None
    return revision


def test_a_document_goes_from_queued_to_searchable(world: World) -> None:
    revision = pending(world)
    assert revision.status == Status.PENDING
    work_through(revision)
    assert revision.status == Status.INDEXED
    document = Document.objects.get(pk=revision.document_id)
    assert document.active_revision_id == revision.pk
    leaves = Chunk.objects.filter(revision=revision, level="leaf").count()
    assert leaves == revision.chunk_count == ChunkVector.objects.filter(revision=revision).count() > 0
    attempt = Attempt.objects.get(revision=revision)
    assert attempt.outcome == Attempt.Outcome.DONE
    assert {"parsing", "vectorizing"} <= set(attempt.seconds)


def test_only_one_of_two_claims_gets_the_revision(world: World) -> None:
    revision = pending(world)
    first = lifecycle.claim("one", revision.pk)
    assert first is not None
    assert lifecycle.claim("two", revision.pk) is None


def test_a_worker_that_lost_its_claim_writes_nothing(world: World) -> None:
    revision = pending(world)
    stale = lifecycle.claim("one", revision.pk)
    assert stale is not None
    Revision.objects.filter(pk=revision.pk).update(heartbeat_at=timezone.now() - timedelta(minutes=10))
    lifecycle.sweep()
    Revision.objects.filter(pk=revision.pk).update(not_before=None)
    fresh = lifecycle.claim("two", revision.pk)
    assert fresh is not None
    assert fresh.number > stale.number
    pipeline.work(stale)
    assert not Chunk.objects.filter(revision=revision).exists()
    moves: list[Callable[[], object]] = [
        lambda: lifecycle.progress(stale, 1, 2, "page"),
        lambda: lifecycle.advance(stale, Status.SEGMENTING),
        lambda: lifecycle.publish(stale),
        lambda: lifecycle.set_aside(stale),
        lambda: lifecycle.fail(stale, Invalid("x")),
    ]
    for move in moves:
        with pytest.raises(Conflict) as caught:
            move()
        assert caught.value.code == "claim_lost"
    pipeline.work(fresh)
    assert work_through(revision).status == Status.INDEXED


def test_a_silent_worker_is_given_up_after_the_time_to_live_and_tried_three_times(world: World) -> None:
    revision = pending(world)
    for attempt in range(1, 4):
        Revision.objects.filter(pk=revision.pk).update(not_before=None)
        assert lifecycle.claim("w", revision.pk)
        Revision.objects.filter(pk=revision.pk).update(heartbeat_at=timezone.now() - timedelta(minutes=10))
        assert lifecycle.sweep() == 1
        revision.refresh_from_db()
        assert revision.attempts == attempt
    assert (revision.status, revision.error_code) == (Status.FAILED, "worker_timeout")
    assert Attempt.objects.filter(revision=revision, outcome=Attempt.Outcome.LOST).count() == 3
    assert Notification.objects.filter(user=world.alice, kind="revision.failed").exists()


def test_a_worker_that_gives_signs_of_life_is_left_alone(world: World) -> None:
    revision = pending(world)
    assert lifecycle.claim("w", revision.pk)
    assert lifecycle.sweep() == 0


def test_retry_after_failure_goes_on_without_doubling_chunks(world: World) -> None:
    revision = pending(world)
    claim = lifecycle.claim("w", revision.pk)
    assert claim
    lifecycle.fail(claim, Invalid("Broken on purpose.", code="on_purpose"))
    revision.refresh_from_db()
    assert (revision.status, revision.error_code) == (Status.FAILED, "on_purpose")
    lifecycle.retry(world.principal(world.alice), revision)
    work_through(revision)
    assert revision.status == Status.INDEXED
    # The number of an attempt only grows, so that pages can tell a new one's progress from the old one's.
    assert (revision.attempts, revision.tries) == (2, 1)
    ordinals = list(Chunk.objects.filter(revision=revision, level="leaf").values_list("ordinal", flat=True))
    assert len(ordinals) == len(set(ordinals)) == revision.chunk_count


def test_what_helps_by_trying_again_is_tried_again_by_itself(world: World) -> None:
    revision = pending(world)
    claim = lifecycle.claim("w", revision.pk)
    assert claim
    lifecycle.fail(claim, Unavailable("Away.", code="away"))
    revision.refresh_from_db()
    assert revision.status == Status.PENDING
    assert revision.not_before is not None


def test_waiting_for_a_model_counts_as_no_attempt(world: World) -> None:
    revision = pending(world)
    claim = lifecycle.claim("w", revision.pk)
    assert claim
    lifecycle.set_aside(claim, not_before_seconds=15)
    revision.refresh_from_db()
    assert (revision.attempts, revision.claimed_by) == (1, "")
    Revision.objects.filter(pk=revision.pk).update(not_before=None)
    assert lifecycle.claim("w", revision.pk)
    revision.refresh_from_db()
    assert revision.attempts == 1


def test_cancel_is_immediate_when_nobody_works_on_it(world: World) -> None:
    revision = pending(world)
    lifecycle.cancel(world.principal(world.alice), revision)
    revision.refresh_from_db()
    assert revision.status == Status.CANCELLED
    assert lifecycle.claim("w", revision.pk) is None


def test_cancel_reaches_a_worker_at_its_next_step(world: World) -> None:
    revision = pending(world)
    claim = lifecycle.claim("w", revision.pk)
    assert claim
    lifecycle.cancel(world.principal(world.alice), revision)
    with pytest.raises(lifecycle.Cancelled):
        lifecycle.progress(claim, 1, 2, "page")
    pipeline.work(claim)
    revision.refresh_from_db()
    assert revision.status == Status.CANCELLED
    assert revision.document.active_revision is None


def test_review_holds_the_document_back_until_it_is_confirmed(world: World) -> None:
    alice = world.principal(world.alice)
    splitting = {**world.base.config["splitting"], "review": "always"}
    bases.save_settings(alice, world.base, "splitting", splitting)
    world.base.refresh_from_db()
    revision = work_through(pending(world))
    assert revision.status == Status.REVIEW
    assert not ChunkVector.objects.filter(revision=revision).exists()
    assert Notification.objects.filter(user=world.alice, kind="revision.review").exists()
    lifecycle.confirm(alice, revision)
    assert work_through(revision).status == Status.INDEXED


def test_the_old_revision_serves_until_the_new_one_is_published(world: World) -> None:
    alice = world.principal(world.alice)
    document = indexed(alice, world.base, "rules.md", TEXT)
    first = document.active_revision
    second = put(alice, world.base, "rules.md", TEXT + "\nMore.\n").revision
    assert second is not None
    document.refresh_from_db()
    assert document.active_revision == first
    work_through(second)
    document.refresh_from_db()
    assert document.active_revision == second


def test_rollback_and_forward_again(world: World) -> None:
    alice = world.principal(world.alice)
    document = indexed(alice, world.base, "rules.md", TEXT)
    first = document.active_revision
    assert first is not None
    document = indexed(alice, world.base, "rules.md", TEXT + "\nMore.\n")
    lifecycle.activate(alice, document, first)
    document.refresh_from_db()
    assert document.active_revision == first
    assert AuditEntry.objects.filter(action="document.activate", object_id=document.uid).exists()


def test_reindex_makes_a_new_revision_and_embeds_only_what_is_new(world: World) -> None:
    alice = world.principal(world.alice)
    document = indexed(alice, world.base, "rules.md", TEXT)
    revision = lifecycle.reindex(alice, document)
    work_through(revision)
    assert (revision.number, revision.status) == (2, Status.INDEXED)
    with pytest.raises(Conflict):
        lifecycle.retry(alice, revision)


def test_a_document_has_one_open_revision_at_a_time(world: World) -> None:
    revision = pending(world)
    with pytest.raises(Conflict) as caught:
        lifecycle.reindex(world.principal(world.alice), revision.document)
    assert caught.value.code == "revision_open"


def test_a_file_without_text_ends_as_such_and_is_never_searchable(world: World) -> None:
    revision = work_through(pending(world, "blank.md", "   \n\n"))
    assert (revision.status, revision.error_code) == (Status.NO_TEXT, "no_text")
    assert revision.document.active_revision is None


def test_every_move_is_in_the_audit_log_with_its_actor(world: World) -> None:
    alice = world.principal(world.alice)
    document = indexed(alice, world.base, "rules.md", TEXT)
    documents.set_enabled(alice, document, False)
    documents.delete(alice, document)
    documents.restore(alice, document)
    documents.delete(alice, document)
    documents.purge(alice, document)
    actions = list(AuditEntry.objects.filter(object_id=document.uid).order_by("id").values_list("action", "actor_id"))
    assert [action for action, _ in actions] == [
        "document.create",
        "document.disable",
        "document.delete",
        "document.restore",
        "document.delete",
        "document.purge",
    ]
    assert {actor for _, actor in actions} == {world.alice.pk}
    assert not Chunk.objects.filter(revision__document_id=document.pk).exists()
    assert not ChunkVector.objects.exists()


def test_several_documents_that_wait_for_a_review_are_one_line_in_each_bell(world: World) -> None:
    alice = world.principal(world.alice)
    Grant.objects.filter(base=world.base, user=world.bob).update(role=Role.OWNER)
    bases.save_settings(alice, world.base, "splitting", {**world.base.config["splitting"], "review": "always"})
    world.base.refresh_from_db()
    for number in range(3):
        work_through(pending(world, f"r{number}.md", f"# R {number}\n\nWords."))
    for person in (world.alice, world.bob):
        notice = Notification.objects.get(user=person, kind__startswith="revision")
        assert (notice.kind, notice.params["n"]) == ("revisions.review", 3)
        assert notice.link == f"/bases/{world.base.uid}/review/"
    Notification.objects.update(read_at=timezone.now())
    work_through(pending(world, "late.md", "# Late\n\nWords."))
    assert Notification.objects.get(user=world.alice, read_at=None).kind == "revision.review"
    counted = listing.counts(alice, world.base)
    assert (counted.review, counted.attention) == (4, 4)
