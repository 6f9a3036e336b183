"""OpenAI's own SDK and LiteLLM as clients of a running portal, with a key that reaches one base."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from knowledge import bases
from knowledge.models import KnowledgeBase, Role
from portal.gateway import litellm_runtime
from portal.gateway.embedding import ensure_local_endpoint
from portal.gateway.models import ModelEndpoint, UsageRecord
from portal.kernel import keys
from tests.support.model_server import ModelServer
from tests.support.models import chat_endpoint, endpoint
from tests.support.people import World, indexed
from tests.support.requests import answer, connected
from tests.support.running import Web, until, web

pytestmark = [pytest.mark.flow, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

QUESTION = "How long may a traveller stay in a hotel?"
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a town.",
        "parameters": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
    },
}


@pytest.fixture(scope="module")
def portal(environment: dict[str, str]) -> Iterator[Web]:
    with web(environment) as running:
        yield running


@dataclass(frozen=True)
class Place:
    """Bob's key for the Handbook alone, though he also sees the Diary; two chat models."""

    world: World
    portal: Web
    secret: str
    diary: KnowledgeBase
    chat: ModelEndpoint
    model: str
    base: str

    @property
    def address(self) -> str:
        return f"{self.portal.url}/v1"

    def client(self, **more: Any) -> OpenAI:
        return OpenAI(base_url=self.address, api_key=self.secret, max_retries=0, **more)

    def another(self, model: str, **more: Any) -> str:
        """Another chat model of the installation; its name."""
        row = chat_endpoint(self.chat.base_url.removesuffix("/v1"), model, **more)
        return f"chat-{row.uid}"


@pytest.fixture
def place(world: World, portal: Web, models: ModelServer) -> Place:
    alice = world.principal(world.alice)
    indexed(alice, world.base, "Travel.md", "# Travel\n\nA traveller may stay in a hotel for twelve nights.\n")
    diary = bases.create(alice, name="Diary")
    bases.grant(alice, diary, Role.VIEWER, user=world.bob)
    ensure_local_endpoint()
    chat = chat_endpoint(models, "demo+cached=1", name="Small Talk", is_default=True)
    _, secret = keys.create(
        world.principal(world.bob), name="one base", scopes=["chat", "kb:read"], base_ids=[world.base.pk]
    )
    return Place(world, portal, secret, diary, chat, f"chat-small-talk-{chat.uid}", f"base-handbook-{world.base.uid}")


def test_the_list_of_models_holds_what_the_key_reaches_and_nothing_else(place: Place) -> None:
    client = place.client()
    names = [model.id for model in client.models.list()]
    assert names[:2] == ["bases", place.base]
    assert place.model in names
    assert any(name.startswith("embedding-multilingual-e5-small-") for name in names)
    assert not any(place.diary.uid in name for name in names)
    assert client.models.retrieve(place.base).id == place.base
    hidden, absent = f"base-diary-{place.diary.uid}", "base-diary-" + "z" * 16
    for name in (hidden, absent, f"bases-{place.world.base.uid}+{place.diary.uid}"):
        with pytest.raises(openai.NotFoundError) as error:
            client.models.retrieve(name)
        assert error.value.code == "model_not_found"
        with pytest.raises(openai.NotFoundError) as error:
            client.chat.completions.create(model=name, messages=[{"role": "user", "content": QUESTION}])
        assert error.value.code == "model_not_found"


def test_a_chat_model_answers_whole_with_usage_and_limits_in_the_headers(place: Place) -> None:
    raw = place.client().chat.completions.with_raw_response.create(
        model="Small Talk",
        messages=[
            {"role": "developer", "content": "Be short."},
            {"role": "user", "content": "First"},
            {"role": "assistant", "content": "Yes"},
            {"role": "user", "content": [{"type": "text", "text": "Hello there"}]},
        ],
        seed=7,
        temperature=0.1,
    )
    answer = raw.parse()
    assert answer.model == place.model
    assert "Hello there" in (answer.choices[0].message.content or "")
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 1
    assert int(raw.headers["x-ratelimit-limit-requests"]) == 120
    assert int(raw.headers["x-ratelimit-remaining-requests"]) == 119
    assert raw.headers["x-request-id"] == answer._request_id
    record = UsageRecord.objects.get()
    assert (record.user, record.door, record.purpose, record.outcome) == (place.world.bob, "api_key", "api chat", "ok")
    assert record.key is not None
    assert record.tokens_in == answer.usage.prompt_tokens


def test_a_stream_brings_the_same_text_and_the_usage_last(place: Place) -> None:
    said: Any = [{"role": "user", "content": "Hello there"}]
    client = place.client()
    whole = client.chat.completions.create(model=place.model, messages=said)
    chunks = list(
        client.chat.completions.create(
            model=place.model, messages=said, stream=True, stream_options={"include_usage": True}
        )
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert len(chunks) > 4
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage == whole.usage
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert len({chunk.id for chunk in chunks}) == 1
    without = list(client.chat.completions.create(model=place.model, messages=said, stream=True))
    assert all(chunk.choices for chunk in without)


def test_tools_go_through_and_their_results_come_back(place: Place) -> None:
    client = place.client()
    model = place.another("demo+tools=1")
    said: Any = [{"role": "user", "content": "What is the weather in Ulm?"}]
    answer = client.chat.completions.create(model=model, messages=said, tools=[TOOL])
    calls: Any = answer.choices[0].message.tool_calls
    (call,) = calls
    assert answer.choices[0].finish_reason == "tool_calls"
    assert call.type == "function"
    assert call.function.name == "weather"
    assert "town" in json.loads(call.function.arguments)
    with client.chat.completions.stream(model=model, messages=said, tools=[TOOL]) as stream:
        final = stream.get_final_completion()
    calls = final.choices[0].message.tool_calls
    (streamed,) = calls
    assert streamed.function.arguments == call.function.arguments
    said += [
        answer.choices[0].message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "It snows."},
    ]
    last = client.chat.completions.create(model=model, messages=said, tools=[TOOL])
    assert "It snows." in (last.choices[0].message.content or "")


def test_a_base_answers_with_numbers_and_addresses_of_its_passages(place: Place) -> None:
    client = place.client()
    said: Any = [{"role": "user", "content": QUESTION}]
    completion = client.chat.completions.create(model=place.base, messages=said)
    message = completion.choices[0].message
    assert "twelve nights" in (message.content or "")
    marks: Any = message.annotations
    mark = marks[0]
    assert (message.content or "")[mark.url_citation.start_index : mark.url_citation.end_index] == "[1]"
    assert mark.url_citation.url.startswith(f"{place.portal.url}/bases/{place.world.base.uid}/documents/")
    extra: Any = completion.model_extra
    (citation,) = extra["citations"]
    assert citation["number"] == 1
    assert "twelve nights" in citation["text"]
    # The address asks for a session, like every page.
    assert httpx.get(mark.url_citation.url).status_code == 302
    chunks = list(client.chat.completions.create(model=place.base, messages=said, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == message.content
    last: Any = chunks[-1]
    assert last.model_extra["citations"] == extra["citations"]


def test_many_streams_run_at_once_and_asynchronously(place: Place) -> None:
    model = place.another("demo+ttft=50+gap=5+tokens=20")

    async def one(client: AsyncOpenAI) -> str:
        stream = await client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": "Go"}], stream=True
        )
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async def all_of_them() -> list[str]:
        async with AsyncOpenAI(base_url=place.address, api_key=place.secret, max_retries=0) as client:
            return await asyncio.gather(*(one(client) for _ in range(20)))

    answers = asyncio.run(all_of_them())
    assert len(answers) == 20
    assert all(answer.split()[-1] == "word20" for answer in answers)
    assert until(lambda: UsageRecord.objects.filter(outcome="ok").count() == 20)


@pytest.mark.parametrize(("behaviour", "stream"), [("demo+hang", True), ("demo+hang", False), ("demo+stall=3", True)])
def test_hanging_up_reaches_the_provider(place: Place, models: ModelServer, behaviour: str, stream: bool) -> None:
    model = place.another(behaviour)
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "Go"}], "stream": stream}).encode()
    with connected(place.portal) as line:
        line.sendall(
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: {place.portal.host}\r\nAuthorization: Bearer {place.secret}"
            f"\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        models.wait_until_running(1)
        if "stall" in behaviour:
            response = answer(line)
            assert response.status == 200
            assert any(b"demo" in event for event in iter(response.readline, b""))
            response.close()  # it holds the socket open
    models.wait_for(lambda seen: [each.ended for each in seen] == ["gone"])
    until(lambda: UsageRecord.objects.exists(), "the call is in the account book")
    assert UsageRecord.objects.values_list("outcome", "code").get() == ("cancelled", "")


def test_vectors_come_as_numbers_and_as_base64(place: Place, models: ModelServer) -> None:
    client = place.client()
    texts = ["A hotel in town", "酒店"]
    numbers = client.embeddings.create(model="multilingual-e5-small", input=texts, encoding_format="float")
    packed = client.embeddings.create(model="multilingual-e5-small", input=texts)
    assert [row.index for row in numbers.data] == [0, 1]
    assert len(numbers.data[0].embedding) == 384
    assert numbers.data[1].embedding == pytest.approx(packed.data[1].embedding, abs=1e-6)
    assert numbers.usage.prompt_tokens > 4
    raw = httpx.post(
        f"{place.address}/embeddings",
        json={"model": "multilingual-e5-small", "input": "A hotel in town", "encoding_format": "base64"},
        headers={"Authorization": f"Bearer {place.secret}"},
    ).json()
    unpacked = struct.unpack("<384f", base64.b64decode(raw["data"][0]["embedding"]))
    assert unpacked == pytest.approx(numbers.data[0].embedding, abs=1e-6)
    with pytest.raises(openai.BadRequestError) as error:
        client.embeddings.create(model="multilingual-e5-small", input=texts, dimensions=100)
    assert error.value.code == "dimensions_not_supported"
    with pytest.raises(openai.BadRequestError) as error:
        client.embeddings.create(model="multilingual-e5-small", input=[[1, 2, 3]])
    assert error.value.code == "tokens_not_supported"
    provider = endpoint(models, "demo+tag=text-embedding-3", provider="openai", kind="embedding")
    short = client.embeddings.create(model=f"embedding-{provider.uid}", input="Hello there, hotel", dimensions=63)
    assert len(short.data[0].embedding) == 63
    assert sum(number**2 for number in short.data[0].embedding) == pytest.approx(1, abs=1e-5)
    assert until(lambda: UsageRecord.objects.filter(purpose="api embedding", kind="embedding").exists())


def test_litellm_as_a_client_asks_models_bases_and_embeddings(place: Place) -> None:
    litellm = litellm_runtime.load()
    common = {"api_base": place.address, "api_key": place.secret}
    said = [{"role": "user", "content": QUESTION}]
    answer = litellm.completion(model=f"openai/{place.model}", messages=said, **common)
    assert QUESTION in answer.choices[0].message.content
    assert answer.usage.total_tokens > 0
    parts = list(litellm.completion(model=f"openai/{place.base}", messages=said, stream=True, **common))
    assert "twelve nights" in "".join(part.choices[0].delta.content or "" for part in parts)

    async def streamed() -> str:
        stream = await litellm.acompletion(model=f"openai/{place.model}", messages=said, stream=True, **common)
        return "".join([part.choices[0].delta.content or "" async for part in stream])

    assert QUESTION in asyncio.run(streamed())
    tools = litellm.completion(model=f"openai/{place.another('demo+tools=1')}", messages=said, tools=[TOOL], **common)
    assert tools.choices[0].message.tool_calls[0].function.name == "weather"
    vectors = litellm.embedding(model="openai/multilingual-e5-small", input=["Hotel"], **common)
    assert len(vectors.data[0]["embedding"]) == 384
    with pytest.raises(litellm.NotFoundError):
        litellm.completion(model=f"openai/base-diary-{place.diary.uid}", messages=said, **common)
    with pytest.raises(litellm.AuthenticationError):
        litellm.completion(model=f"openai/{place.model}", messages=said, **{**common, "api_key": "kb_wrong"})


def test_errors_are_those_that_the_sdk_knows(place: Place) -> None:
    client = place.client()
    said: Any = [{"role": "user", "content": "Go"}]

    def ask(model: str, **more: Any) -> Any:
        return client.chat.completions.create(model=model, messages=more.pop("messages", said), **more)

    with pytest.raises(openai.AuthenticationError) as wrong:
        OpenAI(base_url=place.address, api_key="kb_wrong", max_retries=0).models.list()
    assert wrong.value.code == "invalid_api_key"
    for more, param in (
        ({"n": 2}, "n"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "alien", "content": "x"}]}, "messages[0].role"),
        ({"temperature": 9}, "temperature"),
        ({"tool_choice": "always", "tools": [TOOL]}, "tool_choice"),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/x.png"}}],
                    }
                ]
            },
            "messages[0].content[0].image_url.url",
        ),
    ):
        with pytest.raises(openai.BadRequestError) as refused:
            ask(place.model, **more)
        assert refused.value.param == param
        assert refused.value.type == "invalid_request_error"
    with pytest.raises(openai.InternalServerError) as broken:
        ask(place.another("demo+fail=401"))
    assert (broken.value.status_code, broken.value.code) == (502, "model_auth_failed")
    assert broken.value.response.headers["x-should-retry"] == "false"
    with pytest.raises(openai.RateLimitError):
        ask(place.another("demo+fail=429+after=90"), stream=True)
    with pytest.raises(openai.APIError, match="broke off"):
        list(ask(place.another("demo+cut=3"), stream=True))
    _, reader = keys.create(place.world.principal(place.world.bob), name="reader", scopes=["kb:read"])
    with pytest.raises(openai.PermissionDeniedError):
        OpenAI(base_url=place.address, api_key=reader, max_retries=0).chat.completions.create(
            model=place.base, messages=said
        )
    missing = httpx.post(f"{place.address}/images/generations", headers={"Authorization": f"Bearer {place.secret}"})
    assert missing.status_code == 404
    assert httpx.get(f"{place.address}/files").json()["error"]["code"] == "invalid_api_key"
