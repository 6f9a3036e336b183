"""Answers by a model that are given again: to the same person, from the same passages, and to nobody else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from asgiref.sync import async_to_sync
from pytest_django import Settings

from knowledge import bases
from knowledge.answering.contract import Answer, AnswerRequest
from knowledge.answering.preparing import prepare
from knowledge.answering.reuse import reuse_of
from knowledge.answering.writing import written
from knowledge.models import Grant, KnowledgeBase
from knowledge.retrieval.contract import RetrievalRequest
from portal.gateway.models import UsageRecord
from portal.gateway.reuse import answers
from portal.gateway.reuse import store as stores
from portal.kernel.models import User
from tests.support.model_server import ModelServer
from tests.support.models import chat_endpoint
from tests.support.people import World, indexed
from tests.support.search_redis import search_redis

pytestmark = pytest.mark.slow
QUESTION = "How many days of annual leave do employees have?"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with search_redis(tmp_path_factory.mktemp("search")) as url:
        yield url


@pytest.fixture
def place(
    address: str, settings: Settings, monkeypatch: pytest.MonkeyPatch, written_by_model: World, models: ModelServer
) -> World:
    """A base that a model answers from, where answers are kept."""
    with redis.Redis.from_url(address) as client:
        client.flushall()
    settings.CACHE_REDIS_URL = address
    # A busy machine must not turn hits into misses.
    monkeypatch.setattr(stores, "STORE_SECONDS", 20.0)
    monkeypatch.setattr(stores, "EMBED_SECONDS", 20.0)
    chat_endpoint(models, is_default=True)
    return written_by_model


def ask(world: World, user: User, question: str = QUESTION) -> Answer:
    """The answer as the API writes it."""
    prepared = prepare(world.principal(user), AnswerRequest(RetrievalRequest(question, (world.base.uid,))))

    async def last() -> dict[str, object]:
        assert await stores.store().opened()
        data: dict[str, object] = {}
        async for event in written(prepared):
            data = event.data
        await answers.all_kept()
        return data

    return Answer(**async_to_sync(last)())  # type: ignore[arg-type]


def test_the_same_question_of_the_same_person_is_not_asked_twice(place: World, models: ModelServer) -> None:
    first, again = ask(place, place.alice), ask(place, place.alice)
    assert (first.cached, again.cached) == (False, True)
    assert (again.text, again.citations) == (first.text, first.citations)
    assert len(models.seen) == 1
    assert sorted(UsageRecord.objects.values_list("outcome", flat=True)) == ["cached", "ok"]


def test_bob_is_never_served_what_was_kept_for_alice(place: World) -> None:
    assert not ask(place, place.alice).cached
    assert not ask(place, place.bob).cached
    assert ask(place, place.bob).cached


def test_nothing_kept_outlives_a_grant_or_a_document(place: World) -> None:
    alice = place.principal(place.alice)
    ask(place, place.alice)
    bases.revoke(alice, place.base, Grant.objects.get(base=place.base, user=place.bob))
    assert not ask(place, place.alice).cached
    assert ask(place, place.alice).cached
    indexed(alice, place.base, "more.md", "# Parking\n\nThe car park closes at nine in the evening.\n")
    assert not ask(place, place.alice).cached


def test_a_sensitive_base_and_one_that_forbids_it_keep_nothing(place: World) -> None:
    request = AnswerRequest(RetrievalRequest(QUESTION, (place.base.uid,)))
    prepared = prepare(place.principal(place.alice), request)
    assert reuse_of(prepared) is not None
    place.base.refresh_from_db()
    forbidding = {"processing": "model_opt", "reuse": False}
    bases.save_settings(
        place.principal(place.alice), place.base, "answering", forbidding, version=place.base.config_version
    )
    assert reuse_of(prepared) is None
    KnowledgeBase.objects.filter(pk=place.base.pk).update(sensitive=True, config={})
    assert reuse_of(prepared) is None


def test_nobody_who_lost_the_base_may_use_an_answer_again(place: World) -> None:
    prepared = prepare(place.principal(place.bob), AnswerRequest(RetrievalRequest(QUESTION, (place.base.uid,))))
    assert reuse_of(prepared) is not None
    bases.revoke(place.principal(place.alice), place.base, Grant.objects.get(base=place.base, user=place.bob))
    assert reuse_of(prepared) is None
