"""Chat through the gateway: each provider's format, whole and streamed, against a server that speaks it."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing

import pytest
from asgiref.sync import async_to_sync
from pytest_django import Settings

from portal.gateway import chat
from portal.gateway.chat import Caller, ChatAnswer, ChatPart, ChatRequest, ToolCall
from portal.gateway.models import ModelEndpoint
from portal.kernel.errors import Invalid
from tests.support.model_server import ModelServer
from tests.support.models import chat_endpoint

HELLO = ChatRequest([{"role": "user", "content": "Hello there"}])
PROVIDERS = ["openai", "anthropic", "gemini", "doubao", "wenxin", "yuanbao", "openai_compatible", "archway"]
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a town.",
        "parameters": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
    },
}
SCHEMA = {
    "type": "object",
    "properties": {"questions": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}},
    "required": ["questions"],
    "additionalProperties": False,
}


def streamed(caller: Caller, endpoint: ModelEndpoint, request: ChatRequest) -> tuple[list[ChatPart], ChatAnswer]:
    parts = list(chat.stream(caller, endpoint, request))
    assert parts[-1].answer is not None
    return parts[:-1], parts[-1].answer


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_provider_answers_whole_and_streamed_alike(models: ModelServer, caller: Caller, provider: str) -> None:
    endpoint = chat_endpoint(models, "demo+cached=1", provider=provider)
    whole = chat.complete(caller, endpoint, HELLO)
    parts, answer = streamed(caller, endpoint, HELLO)
    assert "Hello there" in whole.text
    assert "".join(part.text for part in parts) == answer.text == whole.text
    assert len(parts) > 3
    assert answer.finish == whole.finish == "stop"
    for one in (whole, answer):
        assert (one.usage.tokens_in, one.usage.cached, one.usage.estimated) == (2, 1, False)
        assert one.usage.tokens_out == pytest.approx(len(parts), abs=1)


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini", "doubao", "wenxin"])
def test_tool_calls_come_whole_and_in_pieces_alike(models: ModelServer, caller: Caller, provider: str) -> None:
    endpoint = chat_endpoint(models, "demo+tools=2", provider=provider)
    request = ChatRequest([{"role": "user", "content": "Weather in Berlin?"}], tools=[WEATHER])
    whole = chat.complete(caller, endpoint, request)
    parts, answer = streamed(caller, endpoint, request)
    assert [(call.name, json.loads(call.arguments)) for call in answer.tool_calls] == [
        (call.name, json.loads(call.arguments)) for call in whole.tool_calls
    ]
    assert len(whole.tool_calls) == 2
    assert "town" in json.loads(whole.tool_calls[0].arguments)
    assert all(call.id for call in (*answer.tool_calls, *whole.tool_calls))
    assert answer.finish == whole.finish == "tool_calls"
    pieces = [piece for part in parts for piece in part.tool_calls]
    assert "".join(piece.arguments for piece in pieces if piece.index == 0) == answer.tool_calls[0].arguments


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
def test_a_model_answers_from_what_its_tools_brought(models: ModelServer, caller: Caller, provider: str) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"town": "Berlin"}'}}
    request = ChatRequest(
        [
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": "Weather in Berlin?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "12 degrees"},
        ],
        tools=[WEATHER],
    )
    answer = chat.complete(caller, chat_endpoint(models, "demo+tools=1", provider=provider), request)
    assert "12 degrees" in answer.text
    assert answer.tool_calls == ()


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini", "doubao", "wenxin", "yuanbao"])
def test_reasoning_is_kept_apart_from_the_answer(models: ModelServer, caller: Caller, provider: str) -> None:
    endpoint = chat_endpoint(models, "demo+reasoning=3+tokens=4", provider=provider)
    whole = chat.complete(caller, endpoint, HELLO)
    parts, answer = streamed(caller, endpoint, HELLO)
    assert whole.reasoning == answer.reasoning == "step 1 step 2 step 3 "
    assert whole.text == answer.text == "word1 word2 word3 word4 "
    assert [bool(part.reasoning) for part in parts] == [True] * 3 + [False] * 4


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        *((provider, "demo") for provider in ("openai", "anthropic", "gemini", "doubao", "wenxin", "archway")),
        # These take a schema of their own; LiteLLM writes it into the text for those that do not.
        ("gemini", "gemini-2.5-flash/demo"),
        ("anthropic", "claude-sonnet-4-5/demo"),
    ],
)
def test_an_answer_fits_the_schema_that_was_asked_for(
    models: ModelServer, caller: Caller, provider: str, model: str
) -> None:
    request = ChatRequest([{"role": "user", "content": "Travel costs are paid within 30 days."}], json_schema=SCHEMA)
    answer = chat.complete(caller, chat_endpoint(models, model, provider=provider), request)
    questions = json.loads(answer.text)["questions"]
    assert len(questions) == 2
    assert "Travel costs" in questions[0]


def test_passages_of_the_prompt_are_cited_by_number(models: ModelServer, caller: Caller) -> None:
    text = (
        '<passage id="1">Cats sleep long.</passage>\n<passage id="2">Travel costs are paid within 30 days. '
        "Keep the receipts.</passage>\n\nQuestion: When are travel costs paid?"
    )
    answer = chat.complete(caller, chat_endpoint(models), ChatRequest([{"role": "user", "content": text}]))
    assert answer.text == "[demo model] Travel costs are paid within 30 days. [2]"


def test_what_the_request_and_the_endpoint_ask_for_reaches_the_provider(models: ModelServer, caller: Caller) -> None:
    endpoint = chat_endpoint(models, "demo+echo", parameters={"temperature": 0.3, "seed": 7}, max_output_tokens=50)
    chat.complete(caller, endpoint, HELLO)
    chat.complete(caller, endpoint, ChatRequest(HELLO.messages, temperature=0.9, stop=["END"], max_tokens=9000))
    first, second = (seen.body for seen in models.seen)
    assert (first["temperature"], first["seed"], first["max_tokens"]) == (0.3, 7, 50)
    assert (second["temperature"], second["stop"], second["max_tokens"]) == (0.9, ["END"], 50)


def test_parameters_can_not_smuggle_an_address_or_a_key(models: ModelServer, caller: Caller) -> None:
    endpoint = chat_endpoint(models, parameters={"api_base": "http://evil.example"})
    with pytest.raises(Invalid) as caught:
        chat.complete(caller, endpoint, HELLO)
    assert caught.value.code == "parameters_invalid"
    assert models.seen == []


def test_asyncio_gets_the_same_answer(models: ModelServer, caller: Caller) -> None:
    endpoint = chat_endpoint(models, "demo+tokens=3")

    async def both() -> tuple[ChatAnswer, list[ChatPart]]:
        whole = await chat.acomplete(caller, endpoint, HELLO)
        async with aclosing(chat.astream(caller, endpoint, HELLO)) as parts:
            return whole, [part async for part in parts]

    whole, parts = async_to_sync(both)()
    assert whole.text == "word1 word2 word3 "
    assert [part.text for part in parts[:-1]] == ["word1 ", "word2 ", "word3 "]


def test_tokens_arrive_while_the_answer_is_still_written(models: ModelServer, caller: Caller) -> None:
    endpoint = chat_endpoint(models, "demo+stall=2+tokens=9", timeout_seconds=1)
    parts = chat.stream(caller, endpoint, HELLO)
    assert [next(parts).text, next(parts).text] == ["word1 ", "word2 "]
    parts.close()
    (seen,) = models.wait_for(lambda seen: len(seen) == 1)
    assert seen.ended == "gone"


def test_leaving_a_stream_hangs_up_on_the_provider(models: ModelServer, caller: Caller) -> None:
    endpoint = chat_endpoint(models, "demo+gap=20+tokens=5000")

    async def read_two() -> None:
        async with aclosing(chat.astream(caller, endpoint, HELLO)) as parts:
            await anext(parts)
            await anext(parts)

    async_to_sync(read_two)()
    (seen,) = models.wait_for(lambda seen: len(seen) == 1)
    assert seen.ended == "gone"


def test_cancelling_a_waiting_task_hangs_up_on_the_provider(models: ModelServer, caller: Caller) -> None:
    endpoint = chat_endpoint(models, "demo+hang")

    async def cancel() -> None:
        task = asyncio.ensure_future(chat.acomplete(caller, endpoint, HELLO))
        await asyncio.to_thread(models.wait_until_running, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async_to_sync(cancel)()
    (seen,) = models.wait_for(lambda seen: len(seen) == 1)
    assert seen.ended == "gone"


def test_a_tool_call_without_arguments_is_a_tool_call(models: ModelServer, caller: Caller) -> None:
    tool = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
    answer = chat.complete(caller, chat_endpoint(models, "demo+tools=1"), ChatRequest(HELLO.messages, tools=[tool]))
    assert answer.tool_calls == (ToolCall("call_1", "now", "{}"),)


def test_the_demo_model_says_what_it_is(models: ModelServer, caller: Caller, settings: Settings) -> None:
    settings.ARCHWAY = {**settings.ARCHWAY, "DEMO_MODEL_URL": models.url}
    endpoint = chat_endpoint("http://unused.example", "demo", provider="demo")
    answer = chat.complete(caller, endpoint, HELLO)
    assert answer.demo
    assert answer.text.startswith("[demo model]")
