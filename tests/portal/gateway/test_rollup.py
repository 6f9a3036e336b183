"""Usage by day, and the calls that nobody could record."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone
from pytest_django import Settings

from portal.gateway import chat, quotas, rollup
from portal.gateway.chat import Caller, ChatRequest
from portal.gateway.models import UsageDay, UsageRecord
from portal.kernel.events import client
from tests.support.model_server import ModelServer
from tests.support.models import chat_endpoint
from tests.support.people import World

HELLO = ChatRequest([{"role": "user", "content": "Hello there"}])


def record(world: World, **more: object) -> UsageRecord:
    given: dict[str, object] = {
        "workspace": world.workspace,
        "user": world.alice,
        "kind": "chat",
        "purpose": "ask",
        "model_name": "m",
        "outcome": "ok",
        **more,
    }
    return UsageRecord.objects.create(**given)


def test_a_day_is_summed_up_and_summed_up_again_alike(world: World) -> None:
    for outcome in ("ok", "ok", "error", "cancelled"):
        record(world, outcome=outcome, tokens_in=10, tokens_out=5, tokens_cached=2, cost=Decimal("0.1"))
    record(world, user=world.bob)
    record(world, at=timezone.now() - timedelta(days=1))
    for _ in range(2):
        rollup.roll_up()
        today = UsageDay.objects.get(day=timezone.localdate(), user=world.alice)
        assert (today.calls, today.failures) == (4, 1)
        assert (today.tokens_in, today.tokens_out, today.tokens_cached, today.cost) == (40, 20, 8, Decimal("0.4"))
        assert UsageDay.objects.count() == 3


def test_old_records_go_and_their_sums_stay(world: World, settings: Settings) -> None:
    settings.ARCHWAY = {**settings.ARCHWAY, "USAGE_DAYS": 30}
    old = timezone.now() - timedelta(days=31)
    record(world, at=old)
    UsageDay.objects.create(day=timezone.localdate(old), workspace=world.workspace, kind="chat", purpose="ask", calls=1)
    kept = record(world)
    assert rollup.forget_old() == 1
    rollup.roll_up()
    assert UsageRecord.objects.get() == kept
    assert UsageDay.objects.filter(day=timezone.localdate(old)).exists()


def test_the_call_of_a_killed_process_is_recorded_once(
    models: ModelServer, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = chat_endpoint(models, "demo+tokens=1", input_price=Decimal(1_000_000))
    monkeypatch.setattr("portal.gateway.calls.GRACE_SECONDS", -endpoint.total_seconds)  # its lease ends at once

    async def die() -> None:
        from portal.gateway.calls import Call
        from portal.gateway.completion import Completion
        from portal.gateway.loops import OwnLoop

        call = Call(caller, endpoint, Completion(HELLO, streamed=True), OwnLoop(), fall_back=False)
        await call._admit()
        assert call._noting is not None
        await call._noting  # and nothing else ever happens

    async_to_sync(die)()
    assert rollup.record_lost() >= 1
    lost = UsageRecord.objects.get(user=caller.principal.user_id)
    assert (lost.outcome, lost.code, lost.estimated) == ("lost", "process_ended", True)
    assert lost.tokens_in > 0
    assert lost.cost > 0
    assert rollup.record_lost() == 0


def test_a_call_that_ended_is_not_lost(models: ModelServer, caller: Caller) -> None:
    before = client().hlen("limit:calls")
    chat.complete(caller, chat_endpoint(models, "demo+tokens=1"), HELLO)
    assert client().hlen("limit:calls") == before
    assert async_to_sync(quotas.lost_calls)() == {}
