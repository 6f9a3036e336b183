"""Two people, a reviewer and a worker at one document at the same time: somebody waits, nothing is half done."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection, connections, transaction

from knowledge import lifecycle, verification
from knowledge.chunks import verbs
from knowledge.models import Chunk, ChunkVersion, Document, Revision
from portal.kernel.errors import ArchwayError, Conflict
from tests.support.people import World, indexed, make_world, put, work_through

pytestmark = pytest.mark.django_db(transaction=True)

TEXT = "# Valves\n\nValve V-7 opens at 4 bar. It is made of brass and hangs in hall three.\n"


@pytest.fixture
def world(transactional_db: None) -> Iterator[World]:
    yield make_world()


def passage_of(revision: Revision | None) -> Chunk:
    rows = Chunk.objects.filter(revision=revision, level="passage").order_by("ordinal")
    return rows.select_related("revision__document__base", "revision__space")[0]


def at_once(*acts: Callable[[], Any]) -> list[Any]:
    """What each act gave, or the error that it met; all begin together, each on a connection of its own."""
    start, found = threading.Barrier(len(acts)), [None] * len(acts)

    def run(place: int, act: Callable[[], Any]) -> None:
        try:
            start.wait(10)
            found[place] = act()
        except ArchwayError as error:
            found[place] = error  # type: ignore[call-overload]
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(acts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


def holds(document: Document) -> None:
    assert [finding for finding in verification.verify() if not finding.ok] == []


def test_of_edits_at_the_same_moment_one_is_stored_and_the_others_are_told(world: World) -> None:
    alice = world.principal(world.alice)
    document = indexed(alice, world.base, "a.md", TEXT)
    rows = [passage_of(document.active_revision) for _ in range(4)]
    found = at_once(
        *[lambda row=row, n=n: verbs.edit(alice, row, f"Valve number {n}.", version=1) for n, row in enumerate(rows)]
    )
    told = [error for error in found if isinstance(error, Conflict)]
    assert len(told) == 3 and {error.code for error in told} == {"chunk_changed"}
    assert passage_of(document.active_revision).version == 2
    assert ChunkVersion.objects.filter(chunk=rows[0].pk).count() == 2
    holds(document)


def test_an_approval_waits_for_an_edit_so_that_no_leaf_is_left_without_its_vector(world: World) -> None:
    alice = world.principal(world.alice)
    with transaction.atomic():
        received = put(alice, world.base, "a.md", TEXT)
        Revision.objects.filter(pk=received.revision.pk).update(  # type: ignore[union-attr]
            config={"splitting": {"review": "always"}}
        )
    revision = work_through(received.revision)
    assert revision.status == Revision.Status.REVIEW
    row = passage_of(revision)
    edited, approved = at_once(
        lambda: verbs.edit(alice, row, "Valve V-7 is titanium. " * 20, version=1),
        lambda: lifecycle.confirm(alice, revision),
    )
    assert approved is None
    assert work_through(revision).status == Revision.Status.INDEXED
    stored = passage_of(revision)
    assert ("titanium" in stored.text) == (not isinstance(edited, ArchwayError))
    holds(revision.document)


def test_an_edit_and_a_reindex_never_both_win(world: World) -> None:
    alice = world.principal(world.alice)
    document = indexed(alice, world.base, "a.md", TEXT)
    row = passage_of(document.active_revision)
    edited, queued = at_once(
        lambda: verbs.edit(alice, row, "Valve V-7 is titanium.", version=1),
        lambda: lifecycle.reindex(alice, document),
    )
    open_now = Revision.objects.filter(document=document, status="pending").exists()
    changed = passage_of(document.active_revision).version == 2
    assert isinstance(edited, Conflict) == (not changed)
    assert isinstance(queued, Conflict) == (not open_now)
    assert changed != open_now


def test_a_large_document_is_changed_quickly_at_its_beginning(world: World) -> None:
    alice = world.principal(world.alice)
    document = indexed(alice, world.base, "a.md", TEXT)
    revision = Revision.objects.select_related("document__base", "space").get(pk=document.active_revision_id or 0)
    with connection.cursor() as cursor:
        # 10,000 passages behind the first one, without leaves: what is measured is moving their places.
        cursor.execute(
            "INSERT INTO knowledge_chunk (revision_id, level, ordinal, text, prefix, heading_path, start, "
            '"end", token_count, sha256, enabled, version, words) '
            "SELECT %s, 'passage', n, 'Passage ' || n, '', '{}', 0, 0, 3, md5(n::text), true, 1, 0 "
            "FROM generate_series(1, 10000) n",
            [revision.pk],
        )
    change = verbs.add(alice, revision, "Before everything.")
    ordinals = Chunk.objects.filter(revision=revision, level="passage").order_by("ordinal")
    assert list(ordinals.values_list("ordinal", flat=True)) == list(range(10_002))
    verbs.undo(alice, revision, change.uid)
    assert list(ordinals.values_list("ordinal", flat=True)) == list(range(10_001))
