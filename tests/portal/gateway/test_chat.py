"""Chat through the gateway: each provider's format, whole and streamed, against a server that speaks it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from portal.gateway import chat
from portal.gateway.chat import Caller, ChatAnswer, ChatPart, ChatRequest
from portal.gateway.models import ModelEndpoint
from tests.support.model_server import ModelServer
from tests.support.models import chat_endpoint
from tests.support.people import World

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


@pytest.fixture(scope="module")
def models() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def caller(world: World) -> Caller:
    return Caller(world.principal(world.alice), "ask")


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
