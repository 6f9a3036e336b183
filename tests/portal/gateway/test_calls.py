"""What happens around a call: tries, fallbacks, the breaker, places, and the record that is always written."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from decimal import Decimal

import pytest
from asgiref.sync import async_to_sync

from portal.gateway import accounting, admission, calls, chat, quotas
from portal.gateway.accounting import Line
from portal.gateway.chat import Caller, ChatAnswer, ChatRequest
from portal.gateway.models import EndpointFallback, ModelEndpoint, UsageRecord
from portal.kernel.errors import ArchwayError, Unavailable
from tests.support.model_server import ModelServer
from tests.support.models import chat_endpoint
from tests.support.people import World

HELLO = ChatRequest([{"role": "user", "content": "Hello there"}])
OUTCOME = UsageRecord.Outcome


def behind(endpoint: ModelEndpoint, *fallbacks: ModelEndpoint) -> ModelEndpoint:
    for position, fallback in enumerate(fallbacks):
        EndpointFallback.objects.create(endpoint=endpoint, fallback=fallback, position=position)
    return endpoint


def test_what_passes_is_tried_again(models: ModelServer, caller: Caller) -> None:
    answer = chat.complete(caller, chat_endpoint(models, "demo+fail=500+times=2+tokens=1"), HELLO)
    assert answer.text == "word1 "
    record = UsageRecord.objects.get()
    assert (record.outcome, record.code) == (OUTCOME.OK, "")
    assert [attempt["code"] for attempt in record.attempts] == ["model_failed"] * 2


def test_what_a_person_must_mend_is_not_tried_again(models: ModelServer, caller: Caller) -> None:
    with pytest.raises(ArchwayError):
        chat.complete(caller, chat_endpoint(models, "demo+fail=401"), HELLO)
    assert len(models.seen) == 1


def test_the_pause_that_a_provider_asks_for_is_kept(models: ModelServer, caller: Caller) -> None:
    began = time.monotonic()
    answer = chat.complete(caller, chat_endpoint(models, "demo+fail=429+after=1+times=1+tokens=1"), HELLO)
    assert answer.text == "word1 "
    assert time.monotonic() - began >= 1
    assert len(models.seen) == 2


def test_a_pause_that_is_too_long_is_not_waited_for_and_is_kept_by_everybody(
    models: ModelServer, caller: Caller
) -> None:
    endpoint = chat_endpoint(models, "demo+fail=429+after=120")
    with pytest.raises(Unavailable) as first:
        chat.complete(caller, endpoint, HELLO)
    with pytest.raises(Unavailable) as second:
        chat.complete(caller, endpoint, HELLO)
    assert (first.value.code, second.value.code) == ("model_rate_limited", "model_resting")
    assert len(models.seen) == 1


def test_another_model_answers_when_the_first_can_not(models: ModelServer, caller: Caller) -> None:
    broken, locked = chat_endpoint(models, "demo+fail=500"), chat_endpoint(models, "demo+fail=401")
    good = chat_endpoint(models, "demo+tokens=2", input_price=Decimal(1))
    answer = chat.complete(caller, behind(broken, locked, good), HELLO)
    assert answer.text == "word1 word2 "
    assert answer.fell_back
    assert answer.endpoint == good.uid
    record = UsageRecord.objects.get()
    assert record.endpoint == good
    assert record.cost == Decimal("0.000002")
    assert [attempt["code"] for attempt in record.attempts] == ["model_failed", "model_failed", "model_auth_failed"]


def test_when_nobody_can_the_failure_is_that_of_the_model_that_was_asked_for(
    models: ModelServer, caller: Caller
) -> None:
    endpoint = behind(chat_endpoint(models, "demo+fail=401"), chat_endpoint(models, "demo+fail=500"))
    with pytest.raises(ArchwayError) as caught:
        chat.complete(caller, endpoint, HELLO)
    assert caught.value.code == "model_auth_failed"
    record = UsageRecord.objects.get()
    assert record.endpoint == endpoint


def test_a_refused_question_is_asked_of_nobody_else(models: ModelServer, caller: Caller) -> None:
    endpoint = behind(chat_endpoint(models, "demo+fail=400"), chat_endpoint(models, "demo"))
    with pytest.raises(ArchwayError) as caught:
        chat.complete(caller, endpoint, HELLO)
    assert caught.value.code == "model_refused"
    assert len(models.seen) == 1


def test_nothing_is_asked_again_once_a_token_was_delivered(models: ModelServer, caller: Caller) -> None:
    endpoint = behind(chat_endpoint(models, "demo+cut=1+tokens=5"), chat_endpoint(models, "demo+tokens=5"))
    parts = chat.stream(caller, endpoint, HELLO)
    assert next(parts).text == "word1 "
    with pytest.raises(Unavailable) as caught:
        next(parts)
    assert caught.value.code == "model_cut_off"
    assert len(models.seen) == 1


def test_a_model_of_another_workspace_never_stands_in(models: ModelServer, caller: Caller, world: World) -> None:
    theirs = chat_endpoint(models, "demo", workspace=world.elsewhere)
    with pytest.raises(ArchwayError):
        chat.complete(caller, behind(chat_endpoint(models, "demo+fail=401"), theirs), HELLO)
    assert len(models.seen) == 1


def test_after_five_failures_nobody_asks_for_a_while_then_one_tries(
    models: ModelServer, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(admission, "OPEN_SECONDS", 1)
    endpoint = chat_endpoint(models, "demo+fail=500+times=5+tokens=1")
    codes = []
    for _ in range(3):
        with pytest.raises(Unavailable) as caught:
            chat.complete(caller, endpoint, HELLO)
        codes.append(caught.value.code)
    assert codes == ["model_failed", "model_resting", "model_resting"]
    assert len(models.seen) == 5
    threading.Event().wait(1.1)  # the breaker's own clock runs in Redis
    assert chat.complete(caller, endpoint, HELLO).text == "word1 "
    assert chat.complete(caller, endpoint, HELLO).text == "word1 "


@pytest.mark.django_db(transaction=True)
def test_no_more_calls_at_once_than_the_endpoint_allows(models: ModelServer, caller: Caller) -> None:
    endpoint = chat_endpoint(models, "demo+ttft=40+tokens=1", max_running=2)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: _in_thread(caller, endpoint), range(8)))
    assert len(answers) == 8
    assert models.application.most_running == 2


@pytest.mark.django_db(transaction=True)
def test_a_place_that_does_not_become_free_is_an_answer_too(
    models: ModelServer, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "WAIT_SECONDS", 0.2)
    endpoint = chat_endpoint(models, "demo+stall=1+tokens=5", max_running=1)
    parts = chat.stream(caller, endpoint, HELLO)
    next(parts)
    with pytest.raises(Unavailable) as caught:
        chat.complete(caller, endpoint, HELLO)
    assert caught.value.code == "model_busy"
    parts.close()


def test_no_more_calls_a_minute_than_the_endpoint_allows(
    models: ModelServer, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "WAIT_SECONDS", 0.0)
    endpoint = chat_endpoint(models, "demo+tokens=1", per_minute=3)
    for _ in range(3):
        chat.complete(caller, endpoint, HELLO)
    with pytest.raises(Unavailable) as caught:
        chat.complete(caller, endpoint, HELLO)
    assert caught.value.code in {"model_rate_reached", "model_busy"}
    assert len(models.seen) == 3


def test_the_record_says_who_asked_what_for_and_what_it_cost(models: ModelServer, world: World) -> None:
    endpoint = chat_endpoint(
        models,
        "demo+tokens=10+cached=1+ttft=30",
        input_price=Decimal(2),
        cached_price=Decimal(1),
        output_price=Decimal(10),
        call_price=Decimal("0.5"),
    )
    caller = Caller(world.principal(world.bob), "questions", agent="a" * 16, run="r" * 16)
    answer = chat.complete(caller, endpoint, HELLO)
    record = UsageRecord.objects.get(uid=answer.record)
    assert (record.user, record.department, record.workspace) == (world.bob, world.sales, world.workspace)
    assert (record.purpose, record.agent, record.run, record.door) == ("questions", "a" * 16, "r" * 16, "web")
    assert (record.tokens_in, record.tokens_cached, record.tokens_out) == (2, 1, 10)
    assert record.cost == answer.cost == Decimal("0.500103")
    assert record.first_token_ms is not None
    assert 30 <= record.first_token_ms <= record.milliseconds
    assert record.outcome == OUTCOME.OK


@pytest.mark.parametrize("how", ["closed", "cancelled by the loop"])
def test_a_stream_that_is_left_is_recorded_with_what_had_come(models: ModelServer, caller: Caller, how: str) -> None:
    endpoint = chat_endpoint(models, "demo+stall=3+tokens=9", output_price=Decimal(1))
    if how == "closed":
        parts = chat.stream(caller, endpoint, HELLO)
        assert [next(parts).text for _ in range(3)]
        parts.close()
    else:

        async def leave() -> None:
            async with aclosing(chat.astream(caller, endpoint, HELLO)) as parts:
                for _ in range(3):
                    await anext(parts)

        async_to_sync(leave)()
    record = UsageRecord.objects.get()
    assert record.outcome == OUTCOME.CANCELLED
    assert record.estimated
    assert record.tokens_out >= 3
    assert record.cost > 0


def test_tokens_are_estimated_when_the_provider_does_not_say(models: ModelServer, caller: Caller) -> None:
    answer = chat.complete(caller, chat_endpoint(models, "demo+nousage+tokens=10"), HELLO)
    assert answer.usage.estimated
    assert answer.usage.tokens_in > 0
    assert answer.usage.tokens_out > 0


def _in_thread(caller: Caller, endpoint: ModelEndpoint) -> ChatAnswer:
    from django.db import connection

    try:
        return chat.complete(caller, endpoint, HELLO)
    finally:
        connection.close()


@pytest.mark.django_db(transaction=True)
def test_calls_that_end_together_leave_a_record_each_also_when_one_of_them_is_special(world: World) -> None:
    owner = Caller(world.principal(world.alice), "test")
    endpoint = ModelEndpoint.objects.create(name="m", kind="chat", provider="openai_compatible", model_name="m")
    gone = ModelEndpoint.objects.create(name="gone", kind="chat", provider="openai_compatible", model_name="gone")
    left = ModelEndpoint.objects.get(pk=gone.pk)
    account = quotas.account_of(owner.principal)
    lines = [Line(owner, endpoint, endpoint), Line(owner, left, left), Line(owner, endpoint, endpoint)]
    accounting.write(lines[2], account)
    gone.delete()
    accounting.write_all([(line, account) for line in lines])
    assert set(UsageRecord.objects.values_list("uid", flat=True)) == {line.uid for line in lines}
    assert UsageRecord.objects.get(uid=lines[1].uid).endpoint_id is None
