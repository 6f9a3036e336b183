"""Quotas: counted for the right people, safe when many ask at once, and never lost with Redis."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from asgiref.sync import async_to_sync
from pytest_django import Settings

from portal.gateway import chat, quotas, scripts
from portal.gateway.chat import Caller, ChatRequest
from portal.gateway.loops import PerLoop
from portal.gateway.models import ModelEndpoint, Quota, UsageRecord
from portal.kernel import keys
from portal.kernel.errors import ArchwayError, TooMany
from portal.kernel.events import client
from portal.kernel.models import Notification
from portal.kernel.principal import for_key
from tests.support.model_server import ModelServer
from tests.support.models import chat_endpoint
from tests.support.people import World

HELLO = ChatRequest([{"role": "user", "content": "Hello there"}], max_tokens=98)


@pytest.fixture(autouse=True)
def fresh_accounts() -> None:
    quotas.forget_accounts()


def quota(world: World, limit: float, **more: object) -> Quota:
    given: dict[str, object] = {"subject": "workspace", "unit": "tokens", "period": "day", **more}
    made = Quota.objects.create(workspace=world.workspace, limit=Decimal(str(limit)), **given)
    quotas.forget_accounts()
    return made


def spend(caller: Caller, endpoint: ModelEndpoint, calls: int = 1) -> None:
    for _ in range(calls):
        chat.complete(caller, endpoint, HELLO)


def test_a_used_up_quota_stops_with_the_time_of_its_reset(models: ModelServer, caller: Caller, world: World) -> None:
    quota(world, 150)
    endpoint = chat_endpoint(models, "demo+tokens=98")
    spend(caller, endpoint, 2)  # the second goes over: it was let in with room left, and nobody else at work
    with pytest.raises(TooMany) as caught:
        spend(caller, endpoint)
    assert caught.value.code == "quota_exceeded"
    assert 0 < caught.value.retry_after <= 86_400
    assert "Workspace" in str(caught.value)
    assert len(models.seen) == 2
    assert UsageRecord.objects.latest("id").outcome == UsageRecord.Outcome.REFUSED


@pytest.mark.django_db(transaction=True)
def test_of_two_hundred_calls_at_once_room_for_fifty_lets_fifty_pass(models: ModelServer, world: World) -> None:
    caller = Caller(world.principal(world.alice), "ask")
    endpoint = chat_endpoint(models, "demo+tokens=98+ttft=20")
    quota(world, 50 * 100)  # each takes 2 + 98 tokens

    async def ask() -> str:
        try:
            await chat.acomplete(caller, endpoint, HELLO)
        except ArchwayError as error:
            return error.code
        return "ok"

    async def all_at_once() -> list[str]:
        return await asyncio.gather(*(ask() for _ in range(200)))

    answers = async_to_sync(all_at_once)()
    assert answers.count("ok") in {50, 51}
    assert set(answers) == {"ok", "quota_exceeded"}
    assert UsageRecord.objects.count() == 200
    assert UsageRecord.objects.filter(outcome="ok").count() == answers.count("ok")


@pytest.mark.parametrize("unit", ["tokens", "money"])
def test_money_and_tokens_are_counted_alike(models: ModelServer, caller: Caller, world: World, unit: str) -> None:
    quota(world, 100 if unit == "tokens" else 0.98, unit=unit)
    endpoint = chat_endpoint(models, "demo+tokens=98", output_price=Decimal(10_000))
    spend(caller, endpoint)
    with pytest.raises(TooMany):
        spend(caller, endpoint)


def test_a_department_pays_for_those_below_it_and_nobody_pays_for_others(models: ModelServer, world: World) -> None:
    endpoint = chat_endpoint(models, "demo+tokens=98")
    quota(world, 100, subject="department", department=world.company)
    bob, mallory = (Caller(world.principal(user), "ask") for user in (world.bob, world.mallory))
    spend(bob, endpoint)  # of Sales, which is below Company
    with pytest.raises(TooMany):
        spend(Caller(world.principal(world.alice), "ask"), endpoint)
    spend(mallory, endpoint, 2)  # of no department


def test_a_persons_and_a_keys_quota_stop_that_person_and_that_key(models: ModelServer, world: World) -> None:
    endpoint = chat_endpoint(models, "demo+tokens=98")
    alice = world.principal(world.alice)
    key, _ = keys.create(alice, name="k", scopes=["chat"])
    quota(world, 100, subject="key", key=key)
    quota(world, 250, subject="person", user=world.alice)
    through_key = Caller(for_key(key), "ask")
    spend(through_key, endpoint)
    with pytest.raises(TooMany):
        spend(through_key, endpoint)
    spend(Caller(alice, "ask"), endpoint, 2)  # the third of hers was let in with fifty left
    with pytest.raises(TooMany):
        spend(Caller(alice, "ask"), endpoint)
    spend(Caller(world.principal(world.bob), "ask"), endpoint)


def test_a_call_that_fails_gives_back_what_it_reserved(models: ModelServer, caller: Caller, world: World) -> None:
    made = quota(world, 150)
    bad = chat_endpoint(models, "demo+fail=401")
    for _ in range(5):
        with pytest.raises(ArchwayError) as caught:
            chat.complete(caller, bad, HELLO)
        assert caught.value.code == "model_auth_failed"
    key = quotas.counter_key(made, datetime.now(UTC))
    assert client().hgetall(key) == {b"used": b"0", b"reserved": b"0"}
    spend(caller, chat_endpoint(models, "demo+tokens=98"))


def test_counters_that_redis_has_lost_are_made_from_the_account_book(
    models: ModelServer, caller: Caller, world: World
) -> None:
    made = quota(world, 250)
    endpoint = chat_endpoint(models, "demo+tokens=98")
    spend(caller, endpoint, 2)
    client().delete(quotas.counter_key(made, datetime.now(UTC)))
    spend(caller, endpoint)
    with pytest.raises(TooMany):
        spend(caller, endpoint)


def test_without_redis_the_account_book_alone_stops_calls(
    models: ModelServer, caller: Caller, world: World, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    quota(world, 150)
    endpoint = chat_endpoint(models, "demo+tokens=98")
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    monkeypatch.setattr(scripts, "_clients", PerLoop(scripts._new_client))
    spend(caller, endpoint, 2)
    with pytest.raises(TooMany) as caught:
        spend(caller, endpoint)
    assert caught.value.code == "quota_exceeded"


def test_admins_are_told_once_when_the_line_is_crossed_and_once_at_the_end(
    models: ModelServer, caller: Caller, world: World
) -> None:
    quota(world, 400, warn_percent=50)
    endpoint = chat_endpoint(models, "demo+tokens=98")
    spend(caller, endpoint, 4)
    told = list(Notification.objects.filter(user=world.admin).order_by("id").values_list("kind", flat=True))
    assert told == ["quota.warning", "quota.reached"]
    assert not Notification.objects.filter(user=world.mallory).exists()


def test_a_month_ends_with_its_last_day_and_a_day_with_midnight_of_the_time_zone(
    settings: Settings, world: World
) -> None:
    settings.TIME_ZONE = "Asia/Shanghai"
    month, day = quota(world, 1, period="month"), quota(world, 1)
    now = datetime(2026, 12, 31, 17, 0, tzinfo=UTC)  # the first of January in Shanghai
    assert quotas.counter_key(month, now).endswith(":20270101")
    assert quotas.counter_key(day, now).endswith(":20270101")
    assert quotas.counter_key(month, datetime(2026, 12, 31, 15, 0, tzinfo=UTC)).endswith(":20261201")
    assert quotas.period_end(day) > quotas.period_start(day)


def test_a_killed_workers_reservation_ends_by_itself(models: ModelServer, caller: Caller, world: World) -> None:
    made = quota(world, 150)
    key = quotas.counter_key(made, datetime.now(UTC))
    client().hset(key, mapping={"used": 0, "reserved": 140})
    client().zadd(f"{key}:open", {"dead:140": 1.0})  # its lease ended long ago
    spend(caller, chat_endpoint(models, "demo+tokens=98"))
    assert client().hget(key, "reserved") == b"0"


def test_waiting_for_others_ends(
    models: ModelServer, caller: Caller, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas.reserve, "__kwdefaults__", {"patience": 0.1})
    quota(world, 150)
    endpoint = chat_endpoint(models, "demo+stall=1+tokens=98")
    parts = chat.stream(caller, endpoint, HELLO)
    next(parts)
    with pytest.raises(TooMany):
        chat.complete(caller, endpoint, HELLO)
    parts.close()
