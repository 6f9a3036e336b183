"""Which work is next."""

from __future__ import annotations

from django.db import transaction

from knowledge import bases, lifecycle, schedule
from knowledge.models import Revision, Role
from knowledge.schedule import Capacity
from tests.support.people import World, put

WIDE = Capacity(per_person=10, heavy_slots=10)


def upload(world: World, who: str, name: str) -> Revision:
    user = getattr(world, who)
    revision = put(world.principal(user), world.base, name, f"text of {name}").revision
    assert revision is not None
    return revision


def pick(capacity: Capacity = WIDE) -> int | None:
    with transaction.atomic():
        return schedule.next_revision(capacity)


def test_somebody_with_nothing_running_comes_before_a_long_queue(world: World) -> None:
    bases.grant(world.principal(world.alice), world.base, Role.EDITOR, user=world.bob)
    alices = [upload(world, "alice", f"a{number}.txt") for number in range(5)]
    assert lifecycle.claim("w", alices[0].pk)
    bobs = upload(world, "bob", "b.txt")
    assert pick() == bobs.pk


def test_turns_alternate_between_people(world: World) -> None:
    bases.grant(world.principal(world.alice), world.base, Role.EDITOR, user=world.bob)
    for number in range(3):
        upload(world, "alice", f"a{number}.txt")
    for number in range(3):
        upload(world, "bob", f"b{number}.txt")
    turns = []
    for _ in range(6):
        claim = lifecycle.claim("w")
        assert claim
        row = Revision.objects.get(pk=claim.revision_id)
        turns.append(row.created_by_id)
        lifecycle.finish(claim, Revision.Status.NO_TEXT)
    assert turns[:2] == [world.alice.pk, world.bob.pk]
    assert set(turns[2:4]) == set(turns[:2])


def test_a_tiny_document_does_not_wait_for_the_end_of_the_same_persons_huge_one(world: World) -> None:
    huge = upload(world, "alice", "huge.txt")
    claim = lifecycle.claim("w", huge.pk)
    assert claim
    lifecycle.set_aside(claim)
    tiny = upload(world, "alice", "tiny.txt")
    assert pick() == tiny.pk


def test_a_person_never_has_more_running_than_the_cap(world: World) -> None:
    rows = [upload(world, "alice", f"a{number}.txt") for number in range(3)]
    capacity = Capacity(per_person=2, heavy_slots=10)
    for row in rows[:2]:
        assert lifecycle.claim("w", row.pk)
    assert pick(capacity) is None


def test_long_parses_leave_a_slot_free(world: World) -> None:
    rows = [upload(world, "alice", f"a{number}.txt") for number in range(2)]
    Revision.objects.update(size=schedule.HEAVY_BYTES + 1)
    assert lifecycle.claim("w", rows[0].pk)
    assert pick(Capacity(per_person=10, heavy_slots=1)) is None
    assert pick(Capacity(per_person=10, heavy_slots=2)) == rows[1].pk
