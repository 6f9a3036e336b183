"""Who is reminded of which review, once, and what the list says."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from knowledge import bases, documents, review_dates, selection
from knowledge.access import editors_of, visible_bases
from knowledge.models import Document, Grant, Role
from knowledge.pages import listing
from portal.kernel import notify, people
from portal.kernel.errors import Invalid
from portal.kernel.models import Notification, User
from portal.kernel.principal import Principal, for_user
from tests.support.people import World, put


@pytest.fixture
def alice(world: World) -> Principal:
    return world.principal(world.alice)


def dated(world: World, name: str, days: int, owner: User | None = None) -> Document:
    alice = world.principal(world.alice)
    row = put(alice, world.base, name, f"# {name}\n\nwords").document
    day = timezone.localdate() + timedelta(days=days)
    return documents.describe(alice, row, review_date=day, owner=owner)


def told(user: User) -> list[str]:
    rows = Notification.objects.filter(user=user, kind__contains="review_").order_by("pk")
    return [notify.sentence(row.kind, row.params) for row in rows]


def test_each_review_is_told_once_when_due_and_once_when_overdue(world: World) -> None:
    row = dated(world, "a.md", 3)
    dated(world, "far.md", 100)
    assert review_dates.remind() == 1
    assert review_dates.remind() == 0
    assert told(world.alice) == ["a.md in Handbook is due for review."]
    Document.objects.filter(pk=row.pk).update(review_date=timezone.localdate() - timedelta(days=1))
    assert review_dates.remind() == 1
    assert review_dates.remind() == 0
    assert told(world.alice)[-1] == "The review of a.md in Handbook is overdue."


def test_a_new_date_is_reminded_of_anew(world: World, alice: Principal) -> None:
    row = dated(world, "a.md", -1)
    review_dates.remind()
    documents.describe(alice, row, review_date=timezone.localdate() + timedelta(days=2))
    assert review_dates.remind() == 1


def test_many_documents_are_one_line(world: World) -> None:
    for number in range(4):
        dated(world, f"{number}.md", 1)
    assert review_dates.remind() == 1
    assert told(world.alice) == ["4 documents in Handbook are due for review."]
    assert Notification.objects.get(kind="documents.review_due").link.endswith("/documents/?review=due")


def test_the_responsible_person_goes_before_whoever_brought_it_in(world: World, alice: Principal) -> None:
    bases.grant(alice, world.base, Role.EDITOR, user=world.mallory)
    dated(world, "a.md", 1, owner=world.mallory)
    review_dates.remind()
    assert (len(told(world.mallory)), len(told(world.alice))) == (1, 0)


def test_who_may_edit_no_longer_is_not_reminded(world: World, alice: Principal) -> None:
    grant = bases.grant(alice, world.base, Role.EDITOR, user=world.mallory)
    dated(world, "a.md", 1, owner=world.mallory)
    bases.revoke(alice, world.base, grant)
    review_dates.remind()
    assert (len(told(world.mallory)), len(told(world.alice))) == (0, 1)


def test_only_people_who_may_edit_become_responsible(world: World, alice: Principal) -> None:
    row = dated(world, "a.md", 1)
    for person in (world.bob, world.mallory, world.eve):
        with pytest.raises(Invalid):
            documents.describe(alice, row, owner=person)


def test_the_list_filters_by_review_and_its_counts_agree(world: World, alice: Principal) -> None:
    dated(world, "late.md", -3)
    dated(world, "soon.md", 3)
    dated(world, "far.md", 300)
    put(alice, world.base, "none.md", "# N\n\nwords")

    def names(review: str) -> list[str]:
        rows = selection.matching(alice, world.base, selection.Filters(review=review, sort="name"))
        return [row.name for row in rows]

    assert names("overdue") == ["late.md"]
    assert names("due") == ["soon.md"]
    assert names("set") == ["far.md", "late.md", "soon.md"]
    assert names("none") == ["none.md"]
    counts = listing.counts(alice, world.base)
    assert (counts.due, counts.overdue) == (1, 1)


def test_editors_of_a_base_are_those_who_may_edit_it(world: World, alice: Principal) -> None:
    """The rule is read from two ends; both must say the same of everybody."""
    bases.grant(alice, world.base, Role.EDITOR, department=world.company)
    bases.grant(alice, world.base, Role.EDITOR, user=world.mallory)
    Grant.objects.filter(base=world.base, user=world.mallory).update(expires_at=timezone.now() - timedelta(hours=1))
    idle = people.create_person("idle", "correct-horse-battery", display_name="Idle")
    people.set_membership(None, world.workspace, idle, department=world.sales)
    User.objects.filter(pk=idle.pk).update(is_active=False)
    for sensitive in (False, True):
        bases.describe(alice, world.base, sensitive=sensitive)
        world.base.refresh_from_db()
        found = set(editors_of(world.base))
        for person in (world.admin, world.alice, world.bob, world.mallory, world.eve):
            principal = for_user(person, door="web")
            may = visible_bases(principal, Role.EDITOR).filter(pk=world.base.pk).exists()
            assert (person in found) == may, (person, sensitive)
        assert idle not in found
