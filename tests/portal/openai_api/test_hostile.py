"""Requests that are wrong, huge or malicious: answered in OpenAI's shape, and no harm to who asks after them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from portal.gateway.models import UsageRecord
from tests.portal.openai_api.test_door import ask, with_key
from tests.support.model_server import ModelServer
from tests.support.models import chat_endpoint
from tests.support.people import World

HELLO = {"role": "user", "content": "Hello"}


def tool(**function: Any) -> dict[str, Any]:
    return {"tools": [{"type": "function", "function": {"name": "look", **function}}]}


# Requests that name no fault of the server: answered, or refused with a code of ours.
ODD: dict[str, dict[str, Any]] = {
    "a schema that is a word": tool(parameters="nonsense"),
    "a schema that is a list": tool(parameters=[1, 2]),
    "a schema without a type": tool(parameters={"properties": {"a": {}}}),
    "a schema that names itself": tool(parameters={"type": "object", "properties": {"a": {"$ref": "#"}}}),
    "a schema that names nothing": tool(parameters={"$ref": "#/$defs/missing"}),
    "a schema of an unknown type": tool(parameters={"type": "array of things", "items": 3}),
    "a description that is a number": tool(description=7, parameters={"type": "object", "properties": {}}),
    "a choice of a tool that is not there": {
        "tool_choice": {"type": "function", "function": {"name": "other"}},
        **tool(parameters={"type": "object", "properties": {}}),
    },
    "a format with an odd schema": {
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": 5}}}
    },
    "a system message only": {"messages": [{"role": "system", "content": "Be kind."}]},
    "an answer before any question": {"messages": [{"role": "assistant", "content": "Yes."}, HELLO]},
    "a tool's result without a call": {"messages": [{"role": "tool", "tool_call_id": "x", "content": "1"}, HELLO]},
    "arguments that are no JSON": {
        "messages": [
            HELLO,
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "x", "type": "function", "function": {"name": "look", "arguments": "{{"}}],
            },
            {"role": "tool", "tool_call_id": "x", "content": "1"},
        ]
    },
    "an empty text": {"messages": [{"role": "user", "content": ""}]},
    "a picture that is none": {
        "messages": [
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}
        ]
    },
    "many tokens": {"max_tokens": 10**30},
    "a huge seed": {"seed": 10**30},
    "metadata of another kind": {"metadata": {"base_id": "1", "__class__": "x" * 600}, "filters": {"metadata": [1]}},
    "a NUL": {"messages": [{"role": "user", "content": "a\x00b"}], "stop": ["\x00"]},
    "a million characters": {"messages": [{"role": "user", "content": "word " * 200_000}]},
}


@pytest.mark.parametrize("provider", ["openai_compatible", "anthropic", "gemini"])
def test_odd_requests_break_nothing_and_count_against_nobody(world: World, models: ModelServer, provider: str) -> None:
    chat_endpoint(models, "demo+tokens=3", provider=provider, name="odd", context_size=2_000_000)
    client = with_key(world, world.bob, per_minute=1000)
    wrong = {}
    for name, more in ODD.items():
        response = ask(client, "odd", **more)
        error = response.json().get("error")
        if response.status_code >= 500 or (error is not None and set(error) != {"message", "type", "param", "code"}):
            wrong[name] = (response.status_code, error)
    assert wrong == {}
    tried = [record.attempts for record in UsageRecord.objects.all() if len(record.attempts) > 1]
    assert tried == [], "a request that can not succeed is not asked twice"
    assert ask(client, "odd").status_code == 200


def test_half_a_character_is_mended_and_asked(world: World, models: ModelServer) -> None:
    chat_endpoint(models, "demo+tokens=3", name="odd")
    body = json.dumps({"model": "odd", "messages": [{"role": "user", "content": "a\ud83d"}]})
    response = with_key(world, world.bob).post("/v1/chat/completions", body, content_type="application/json")
    assert response.status_code == 200
    sent = models.wait_for(lambda seen: len(seen) == 1)[0]
    assert sent.body["messages"][0]["content"] == "a�"
