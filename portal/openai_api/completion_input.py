"""The body of `/v1/chat/completions`, checked. What we can not honour and would change the answer is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from portal.gateway.chat_contract import ChatRequest, Message
from portal.openai_api import messages
from portal.openai_api.errors import Refused

_NAME = re.compile(r"^[A-Za-z0-9_.\-]{1,128}$")
_MOST_TOOLS = 128
# Sent on to the provider as they are, where it knows them.
_PASSED_ON = ("seed", "presence_penalty", "frequency_penalty", "parallel_tool_calls", "reasoning_effort")

Shape = TypeVar("Shape", bound=BaseModel)


class _Input(BaseModel):
    # Unknown fields are ignored: clients send new ones before servers know them.
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class _StreamOptions(_Input):
    include_usage: bool = False


class _Body(_Input):
    model: str = Field(min_length=1, max_length=300)
    messages: list[Any]
    stream: bool | None = False
    stream_options: _StreamOptions | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    stop: str | list[str] | None = None
    n: int | None = 1
    response_format: dict[str, Any] | None = None
    logprobs: bool | None = False
    functions: list[Any] | None = None
    modalities: list[str] | None = None
    seed: int | None = None
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    parallel_tool_calls: bool | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None


@dataclass(frozen=True, slots=True)
class CompletionInput:
    """What is asked of which model, and how the answer shall come."""

    model: str
    messages: list[Message]
    request: ChatRequest
    stream: bool
    with_usage: bool

    @property
    def question(self) -> str:
        """The user's last message. Raises `Refused` when the last message is another."""
        return messages.question_of(self.messages)


def read(body: Any) -> CompletionInput:
    """Raises `Refused` (parameter_invalid), naming the parameter."""
    given = checked(_Body, body)
    for name, wanted in (("n", given.n not in {None, 1}), ("logprobs", given.logprobs), ("functions", given.functions)):
        if wanted:
            raise Refused('The parameter "%(name)s" is not supported here.', param=name, name=name)
    if given.modalities and given.modalities != ["text"]:
        raise Refused('The parameter "%(name)s" is not supported here.', param="modalities", name="modalities")
    said = messages.checked(given.messages)
    return CompletionInput(
        model=given.model,
        messages=said,
        request=_request(given, said),
        stream=bool(given.stream),
        with_usage=bool(given.stream_options and given.stream_options.include_usage),
    )


def checked(shape: type[Shape], body: Any) -> Shape:
    """`body` as `shape`. Raises `Refused` for the first thing that is wrong."""
    if not isinstance(body, Mapping):
        raise Refused("The request body must be a JSON object.", param="body")
    try:
        return shape.model_validate(dict(body))
    except ValidationError as error:
        first = error.errors()[0]
        # Of a union pydantic names the branch as well; the parameter is what comes before it.
        param = str(first["loc"][0])
        raise Refused("%(name)s: %(problem)s", param=param, name=param, problem=first["msg"]) from None


def _request(given: _Body, said: list[Message]) -> ChatRequest:
    stop = [given.stop] if isinstance(given.stop, str) else given.stop or []
    schema, any_json = _format(given.response_format)
    return ChatRequest(
        messages=said,
        tools=_tools(given.tools or []),
        tool_choice=_choice(given.tool_choice),
        temperature=given.temperature,
        top_p=given.top_p,
        max_tokens=given.max_completion_tokens or given.max_tokens,
        stop=stop,
        json_schema=schema,
        json_object=any_json,
        options={name: value for name in _PASSED_ON if (value := getattr(given, name)) is not None},
    )


def _tools(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if len(tools) > _MOST_TOOLS:
        raise Refused("Send at most %(most)s tools.", param="tools", most=_MOST_TOOLS)
    for number, tool in enumerate(tools):
        function = tool.get("function")
        name = function.get("name") if isinstance(function, Mapping) else None
        if tool.get("type") != "function" or not isinstance(name, str) or not _NAME.match(name):
            raise Refused("A tool is a function with a name.", param=f"tools[{number}]")
    return tools


def _choice(choice: str | dict[str, Any] | None) -> str | dict[str, Any] | None:
    if choice is None or choice in ("none", "auto", "required"):
        return choice
    function = choice.get("function") if isinstance(choice, dict) else None
    if isinstance(function, Mapping) and isinstance(function.get("name"), str):
        return choice
    raise Refused("Choose none, auto, required, or name a function.", param="tool_choice")


def _format(wanted: dict[str, Any] | None) -> tuple[Mapping[str, Any] | None, bool]:
    """(a schema that the answer must fit, whether any JSON will do)."""
    kind = (wanted or {"type": "text"}).get("type")
    if wanted is None or kind == "text":
        return None, False
    if kind == "json_object":
        return None, True
    described = wanted.get("json_schema")
    schema = described.get("schema") if isinstance(described, Mapping) else None
    if kind == "json_schema" and isinstance(schema, Mapping):
        return schema, False
    raise Refused("The format is text, json_object, or json_schema with a schema.", param="response_format")
