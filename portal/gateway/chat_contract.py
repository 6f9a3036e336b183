"""What is asked of a chat model and what comes back: frozen values, in OpenAI's words where it has some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from portal.gateway.accounting import TokenUsage

Message = Mapping[str, Any]
"""One message in OpenAI's shape: role (system, user, assistant, tool), content (text or parts), tool calls."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A question to a chat model.

    `tools` and `tool_choice` are in OpenAI's shape. `max_tokens` None means the endpoint's own limit, which is
    also the most that is ever asked for. `json_schema` asks for an answer that fits it; providers differ in how
    strictly they obey, so check what comes.
    """

    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: str | Mapping[str, Any] | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop: Sequence[str] = ()
    json_schema: Mapping[str, Any] | None = None
    # "json_object" for any JSON; `json_schema` says more.
    json_object: bool = False
    # Other parameters in OpenAI's words (seed, reasoning_effort, …); providers that do not know one are not sent it.
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the model wants called. `arguments` is JSON as the model wrote it, perhaps invalid."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of a tool call; pieces of the same `index` belong together, and their arguments are joined."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """A whole answer.

    `finish` is stop, length, tool_calls or content_filter. Times are in seconds; `cost` is in the installation's
    currency. `endpoint` is the uid of who answered, which may be a fallback (`fell_back`). `demo`: the answer is
    the demo model's and must be shown as such. `record` is the uid in the account book.
    """

    text: str
    reasoning: str
    tool_calls: tuple[ToolCall, ...]
    finish: str
    usage: TokenUsage
    cost: Decimal
    model: str
    endpoint: str
    record: str
    seconds: float
    first_token_seconds: float | None
    fell_back: bool = False
    demo: bool = False
    # Used again: it was given to an earlier question, and cost nothing now.
    cached: bool = False


@dataclass(frozen=True, slots=True)
class ChatPart:
    """A piece of an answer: text, reasoning or pieces of tool calls; the last part has nothing but `answer`."""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCallDelta, ...] = field(default=())
    answer: ChatAnswer | None = None
