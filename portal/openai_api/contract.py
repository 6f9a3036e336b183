"""What an answer is made of before it takes OpenAI's shape, whoever gave it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from portal.gateway.accounting import TokenUsage
from portal.gateway.chat_contract import ChatAnswer, ChatPart, ToolCall


@dataclass(frozen=True, slots=True)
class Citation:
    """A passage that an answer names as `[number]`. `url` opens it for whoever may see it, and for nobody else."""

    number: int
    title: str
    url: str
    base: str
    document: str
    revision: str
    chunk: int
    version: int
    sha256: str
    place: str
    text: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of an answer, and all of it. `more` is what we add to OpenAI's fields, under `archway`."""

    text: str
    finish: str = "stop"
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: TokenUsage = field(default_factory=TokenUsage)
    citations: tuple[Citation, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)


Pieces = AsyncGenerator[ChatPart | Finished]


def finished(answer: ChatAnswer, citations: tuple[Citation, ...] = ()) -> Finished:
    """The end of a chat model's answer."""
    more = {
        "record": answer.record,
        "endpoint": answer.endpoint,
        "fell_back": answer.fell_back,
        "demo": answer.demo,
        "cached": answer.cached,
        "cost": str(answer.cost),
    }
    return Finished(answer.text, answer.finish, answer.reasoning, answer.tool_calls, answer.usage, citations, more)
