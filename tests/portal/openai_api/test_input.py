"""What a request may hold, and how the first thing that is wrong with it is named."""

from __future__ import annotations

from typing import Any

import pytest

from portal.openai_api import completion_input, messages
from portal.openai_api.errors import Refused

PICTURE = "data:image/png;base64,iVBORw0KGgo="


def read(**more: Any) -> completion_input.CompletionInput:
    return completion_input.read({"model": "m", "messages": [{"role": "user", "content": "Hi"}], **more})


def refused(**more: Any) -> str:
    with pytest.raises(Refused) as error:
        read(**more)
    return error.value.param


def test_parameters_of_openais_reach_the_gateway() -> None:
    given = read(
        max_tokens=5,
        max_completion_tokens=7,
        stop="END",
        seed=3,
        reasoning_effort="low",
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
        stream=True,
        stream_options={"include_usage": True},
        user="somebody",
        an_unknown_one=1,
    )
    request = given.request
    assert (request.max_tokens, request.stop, request.json_schema) == (7, ["END"], {"type": "object"})
    assert request.options == {"seed": 3, "reasoning_effort": "low"}
    assert (given.stream, given.with_usage) == (True, True)
    assert read(response_format={"type": "json_object"}).request.json_object


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"messages": "Hi"}, "messages"),
        ({"messages": ["Hi"]}, "messages[0]"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": []}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "file"}]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
        (
            {"messages": [{"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]}]},
            "messages[0].tool_calls[0]",
        ),
        ({"model": ""}, "model"),
        ({"tools": [{"type": "retrieval"}]}, "tools[0]"),
        ({"logprobs": True}, "logprobs"),
        ({"functions": [{}]}, "functions"),
        ({"modalities": ["audio"]}, "modalities"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"stream": "yes"}, "stream"),
        ({"max_tokens": 0}, "max_tokens"),
    ],
)
def test_what_is_wrong_is_named_by_its_place(more: dict[str, Any], param: str) -> None:
    assert refused(**more) == param


def test_a_body_that_is_no_object_is_refused() -> None:
    with pytest.raises(Refused) as error:
        completion_input.read([1])
    assert error.value.param == "body"


def test_pictures_are_taken_as_data_and_never_fetched() -> None:
    def said(url: str) -> Any:
        return [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url, "detail": "low"}}]}]

    (message,) = messages.checked(said(PICTURE))
    assert message["content"][0]["image_url"] == {"url": PICTURE, "detail": "low"}
    for url in ("http://169.254.169.254/latest", "https://example.com/a.png", "file:///etc/passwd", "data:text/html,x"):
        with pytest.raises(Refused):
            messages.checked(said(url))


def test_developers_speak_as_the_system_and_the_last_message_is_the_question() -> None:
    said = messages.checked([{"role": "developer", "content": "Rules"}, {"role": "user", "content": "What?"}])
    assert said[0]["role"] == "system"
    assert messages.question_of(said) == "What?"
    with pytest.raises(Refused):
        messages.question_of(said[:1])
