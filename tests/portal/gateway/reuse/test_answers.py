"""Answers used again, on a real Redis with search: by whom, when not, and what a store that fails costs."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from asgiref.sync import async_to_sync
from pytest_django import Settings

from portal.gateway import chat
from portal.gateway.accounting import Caller
from portal.gateway.chat_contract import ChatAnswer, ChatRequest
from portal.gateway.models import ModelEndpoint, UsageRecord
from portal.gateway.reuse import answers, metrics, purging
from portal.gateway.reuse import store as stores
from portal.gateway.reuse.scope import reuse_for
from portal.kernel.errors import Denied
from portal.kernel.models import User, bump_acl
from tests.support.model_server import ModelServer
from tests.support.models import chat_endpoint
from tests.support.people import World
from tests.support.search_redis import search_redis

pytestmark = pytest.mark.slow

HOW_LONG = "How do I book a meeting room?"
LIKE_IT = "How can I book a meeting room?"
STAMPS = (("base", 1),)
DEADLINE = stores.STORE_SECONDS


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with search_redis(tmp_path_factory.mktemp("search")) as url:
        yield url


@pytest.fixture
def cached(address: str, settings: Settings, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with redis.Redis.from_url(address) as client:
        client.flushall()
    settings.CACHE_REDIS_URL = address
    # A busy machine must not turn hits into misses; one test below is about the deadlines themselves.
    monkeypatch.setattr(stores, "STORE_SECONDS", 20.0)
    monkeypatch.setattr(stores, "EMBED_SECONDS", 20.0)


@pytest.fixture
def endpoint(models: ModelServer, world: World) -> ModelEndpoint:
    return chat_endpoint(models)


Ask = Callable[..., ChatAnswer]


@pytest.fixture
def ask(world: World, endpoint: ModelEndpoint) -> Ask:
    """Asks as somebody, with leave to use an answer again, and waits until the new one is kept."""

    def asked(user: User, question: str, *, system: str = "Be short.", stamps: Any = STAMPS, **more: Any) -> ChatAnswer:
        caller = Caller(world.principal(user), "test")
        said = [{"role": "system", "content": system}, {"role": "user", "content": question}]
        reuse = reuse_for(caller.principal, question, stamps)

        async def one() -> ChatAnswer:
            assert await stores.store().opened()
            answer = await chat.acomplete(caller, endpoint, ChatRequest(said, **more), reuse=reuse)
            await answers.all_kept()
            return answer

        return async_to_sync(one)()

    return asked


def test_a_question_that_means_the_same_is_answered_from_the_cache_at_no_cost(
    cached: None, ask: Ask, world: World, models: ModelServer
) -> None:
    first = ask(world.alice, HOW_LONG)
    again = ask(world.alice, LIKE_IT)
    assert (first.cached, again.cached) == (False, True)
    assert again.text == first.text
    assert again.usage.total == 0
    assert len(models.seen) == 1
    record = UsageRecord.objects.get(uid=again.record)
    assert (record.outcome, record.user) == ("cached", world.alice)
    assert record.cost == record.tokens_in == record.tokens_out == 0


def test_nobody_else_is_served_what_was_kept_for_alice(cached: None, ask: Ask, world: World) -> None:
    ask(world.alice, HOW_LONG)
    for other in (world.bob, world.mallory, world.eve):
        assert not ask(other, HOW_LONG).cached


def test_nothing_kept_before_a_grant_changed_or_a_base_changed_is_served(cached: None, ask: Ask, world: World) -> None:
    ask(world.alice, HOW_LONG)
    assert ask(world.alice, HOW_LONG).cached
    bump_acl(world.workspace.pk)
    assert not ask(world.alice, HOW_LONG).cached
    assert ask(world.alice, HOW_LONG).cached
    assert not ask(world.alice, HOW_LONG, stamps=(("base", 2),)).cached


@pytest.mark.parametrize(
    "more",
    [
        {"system": "Be long."},
        {"temperature": 0.7},
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]},
    ],
)
def test_another_way_of_asking_is_another_answer(cached: None, ask: Ask, world: World, more: Any) -> None:
    ask(world.alice, HOW_LONG)
    assert not ask(world.alice, HOW_LONG, **more).cached


def test_a_question_with_another_number_is_asked_anew_and_counted(cached: None, ask: Ask, world: World) -> None:
    before = counted(world)
    ask(world.alice, "Who approves purchases under 500 euros?")
    assert not ask(world.alice, "Who approves purchases under 600 euros?").cached
    assert ask(world.alice, "Who approves purchases under 500 euros").cached
    after = counted(world)
    assert after["hit"] - before["hit"] == 1
    assert after["miss"] + after["refused"] - before["miss"] - before["refused"] == 2


def counted(world: World) -> dict[str, int]:
    from django.utils import timezone

    day = timezone.localdate()
    return metrics.by_day([day], world.workspace.pk).get(day) or dict.fromkeys(metrics.OUTCOMES, 0)


def test_an_admin_empties_the_workspaces_cache_and_no_other(cached: None, ask: Ask, world: World) -> None:
    ask(world.alice, HOW_LONG)
    ask(world.eve, HOW_LONG)
    with pytest.raises(Denied):
        purging.purge(world.principal(world.alice))
    assert purging.purge(world.principal(world.admin)) == 1
    assert not ask(world.alice, HOW_LONG).cached
    assert ask(world.eve, HOW_LONG).cached


def test_kept_answers_end_within_the_time_that_is_set(
    cached: None, ask: Ask, world: World, address: str, settings: Settings
) -> None:
    settings.ARCHWAY = {**settings.ARCHWAY, "CACHE_SECONDS": 3600}
    ask(world.alice, HOW_LONG)
    assert ask(world.alice, HOW_LONG).cached
    with redis.Redis.from_url(address) as client:
        lives = [client.ttl(name) for name in client.scan_iter("*")]
    assert lives
    assert all(0 < int(life) <= 3600 for life in lives)


def test_an_answer_with_tool_calls_or_one_cut_short_is_not_kept(
    cached: None, world: World, models: ModelServer
) -> None:
    caller = Caller(world.principal(world.alice), "test")
    reuse = reuse_for(caller.principal, HOW_LONG)
    request = ChatRequest([{"role": "user", "content": HOW_LONG}])

    async def twice(endpoint: ModelEndpoint) -> bool:
        assert await stores.store().opened()
        await chat.acomplete(caller, endpoint, request, reuse=reuse)
        await answers.all_kept()
        return (await chat.acomplete(caller, endpoint, request, reuse=reuse)).cached

    assert not async_to_sync(twice)(chat_endpoint(models, "demo+finish=length"))
    assert async_to_sync(twice)(chat_endpoint(models, "demo+tag=whole"))


def test_a_store_that_hangs_is_left_at_its_deadline_and_the_model_answers(
    cached: None,
    world: World,
    endpoint: ModelEndpoint,
    models: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert DEADLINE == 0.05
    monkeypatch.setattr(stores, "STORE_SECONDS", DEADLINE)
    caller = Caller(world.principal(world.alice), "test")
    reuse = reuse_for(caller.principal, HOW_LONG)
    assert reuse is not None
    order: list[str] = []

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Takes the question and never says a word: whoever waits for it waits for good."""
        await reader.read(1)
        order.append("store asked")
        await reader.read()
        writer.close()

    async def asked_twice() -> list[ChatAnswer]:
        store = stores.store()
        assert await store.opened()
        server = await asyncio.start_server(mute, "127.0.0.1", 0)
        redirect(store, server.sockets[0].getsockname()[1])
        found = []
        for _ in range(2):
            request = ChatRequest([{"role": "user", "content": HOW_LONG}])
            found.append(await chat.acomplete(caller, endpoint, request, reuse=reuse))
            order.append("answered")
        await store._cache.llmcache._async_redis_client.aclose()
        server.close()
        return found

    found = async_to_sync(asked_twice)()
    assert [answer.cached for answer in found] == [False, False]
    # The answer came while the store was still silent, and once it was slow it is left alone.
    assert order == ["store asked", "answered", "answered"]
    assert "the answer cache is away: slow" in caplog.messages
    assert len(models.seen) == 2
    assert set(UsageRecord.objects.values_list("outcome", flat=True)) == {"ok"}


def test_a_store_that_is_down_fails_no_answer_and_is_asked_once(
    cached: None,
    world: World,
    endpoint: ModelEndpoint,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        settings.CACHE_REDIS_URL = f"redis://127.0.0.1:{closed.getsockname()[1]}/0"
        caller = Caller(world.principal(world.alice), "test")
        reuse = reuse_for(caller.principal, HOW_LONG)

        async def asked_twice() -> list[ChatAnswer]:
            assert not await stores.store().opened()
            request = ChatRequest([{"role": "user", "content": HOW_LONG}])
            return [await chat.acomplete(caller, endpoint, request, reuse=reuse) for _ in range(2)]

        assert [answer.cached for answer in async_to_sync(asked_twice)()] == [False, False]
    assert sum("the answer cache is away" in message for message in caplog.messages) == 1


def redirect(store: stores.Store, port: int) -> None:
    """Points the store's clients at another server of the same machine."""
    from redis.asyncio import Redis

    llm = store._cache.llmcache
    llm._aindex = None
    llm._async_redis_client = Redis(host="127.0.0.1", port=port, socket_timeout=60)
    llm._owns_async_redis_client = True


def test_a_long_text_and_an_empty_one_are_no_questions(world: World) -> None:
    alice = world.principal(world.alice)
    assert reuse_for(alice, "  ") is None
    assert reuse_for(alice, "x" * 3000) is None


def test_streams_use_answers_again_too(cached: None, ask: Ask, world: World, endpoint: ModelEndpoint) -> None:
    first = ask(world.alice, HOW_LONG)
    caller = Caller(world.principal(world.alice), "test")
    said = [{"role": "system", "content": "Be short."}, {"role": "user", "content": HOW_LONG}]
    reuse = reuse_for(caller.principal, HOW_LONG, STAMPS)

    async def streamed() -> list[Any]:
        assert await stores.store().opened()
        return [part async for part in chat.astream(caller, endpoint, ChatRequest(said), reuse=reuse)]

    parts = async_to_sync(streamed)()
    assert "".join(part.text for part in parts) == first.text
    assert parts[-1].answer.cached
