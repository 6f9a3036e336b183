from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from knowledge import asking, bases, query_log, threads
from knowledge.models import KnowledgeBase, QueryRecord
from knowledge.quality import unanswered
from knowledge.retrieval import RetrievalRequest
from portal.kernel import people
from portal.kernel.models import User
from tests.support.people import World, indexed


@pytest.fixture
def library(world: World) -> World:
    indexed(world.principal(world.alice), world.base, "leave.md", "# Leave\n\nTen days of annual leave in a year.\n")
    return world


def ask(world: World, user: User, text: str, *uids: str) -> QueryRecord | None:
    request = RetrievalRequest(text, base_uids=uids or (world.base.uid,))
    return asking.ask(world.principal(user), request, kind=QueryRecord.Kind.ASK, thread="t" * 16)[1]


def test_near_equal_wordings_are_one_group_with_a_count_and_no_name(library: World) -> None:
    for text in ("Where is the car park?", "where is the  car park", "请问停车场在哪里？", "停车场在哪里"):
        ask(library, library.bob, text)
    found = unanswered.groups(library.base)
    assert sorted(group.count for group in found) == [2, 2]
    client = Client()
    client.force_login(library.alice)
    page = client.get(f"/bases/{library.base.uid}/evaluation/unanswered/").content.decode()
    assert "car park" in page and "Bob" not in page
    body = client.get(f"/api/v1/bases/{library.base.uid}/unanswered/").json()
    assert {row["count"] for row in body} == {2} and "user" not in body[0]


def test_what_was_answered_is_not_listed_until_it_is_rated_unhelpful(library: World) -> None:
    record = ask(library, library.bob, "How many days of annual leave in a year?")
    assert record is not None and record.best is not None and record.best > 0.5
    assert unanswered.groups(library.base) == []
    threads.rate(library.principal(library.bob), record.thread, record.uid, False)
    assert [group.disliked for group in unanswered.groups(library.base)] == [1]


def test_only_those_who_manage_the_base_see_the_list(library: World) -> None:
    address = f"/bases/{library.base.uid}/evaluation/unanswered/"
    for user, code in ((library.bob, 403), (library.mallory, 404), (library.eve, 404), (library.alice, 200)):
        client = Client()
        client.force_login(user)
        assert client.get(address).status_code == code


def test_a_settled_group_comes_back_when_it_is_asked_again(library: World) -> None:
    ask(library, library.bob, "Where is the car park?")
    (group,) = unanswered.groups(library.base)
    unanswered.settle(library.principal(library.alice), library.base, [group.digest])
    assert unanswered.groups(library.base) == []
    ask(library, library.bob, "Where is the car park?")
    assert len(unanswered.groups(library.base)) == 1


# Who keeps questions


def wish(user: User, log: str) -> None:
    User.objects.filter(pk=user.pk).update(question_log=log)


def test_a_person_may_keep_their_history_to_themselves_or_keep_nothing(library: World) -> None:
    wish(library.bob, "private")
    record = ask(library, library.bob, "Where is the car park?")
    assert record is not None and not record.listed
    assert unanswered.groups(library.base) == []
    wish(library.bob, "off")
    assert ask(library, library.bob, "Where is the car park?") is None


def test_a_workspace_that_keeps_no_questions_overrules_its_bases(library: World) -> None:
    people.keep_questions(None, library.workspace, keep=False, days=None)
    assert ask(library, library.bob, "Where is the car park?") is None


def test_a_question_that_also_searched_a_sensitive_base_is_listed_nowhere(library: World) -> None:
    alice = library.principal(library.alice)
    closed = bases.create(alice, name="Closed", sensitive=True)
    indexed(alice, closed, "x.md", "# X\n\nNothing much.\n")
    record = ask(library, library.alice, "Am I on the list?", library.base.uid, closed.uid)
    assert record is not None and not record.listed
    assert sorted(record.searched_ids) == sorted([library.base.pk, closed.pk])
    alone = ask(library, library.alice, "Am I on the list?", closed.uid)
    assert alone is not None and alone.listed
    assert len(unanswered.groups(KnowledgeBase.objects.get(pk=closed.pk))) == 1


def test_questions_are_forgotten_after_the_workspaces_days(library: World) -> None:
    for _ in range(2):
        ask(library, library.bob, "Where is the car park?")
    old = QueryRecord.objects.order_by("pk").first()
    assert old is not None
    QueryRecord.objects.filter(pk=old.pk).update(at=timezone.now() - timedelta(days=8))
    assert query_log.sweep() == 0
    people.keep_questions(None, library.workspace, keep=True, days=7)
    assert query_log.sweep() == 1
