"""One try at one endpoint for an answer, through LiteLLM: streamed or whole, in the same parts."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from typing import Any

from portal.gateway import clients, failures
from portal.gateway.accounting import Line, TokenUsage
from portal.gateway.calls import AttemptFailed
from portal.gateway.chat_contract import ChatAnswer, ChatPart, ChatRequest, ToolCall, ToolCallDelta
from portal.gateway.models import ModelEndpoint
from portal.gateway.providers import checked_parameters, litellm_name
from portal.gateway.token_estimate import EstimatedTokenCounter
from portal.kernel.errors import ArchwayError
from portal.kernel.secrets import Secret

logger = logging.getLogger(__name__)

_COUNTER = EstimatedTokenCounter(0)
# Roles and separators of a message, in tokens, on the safe side.
_AROUND_MESSAGE = 8
_PICTURE = 1600


class Completion:
    """An operation of `calls.Call`: the parts of an answer, and what was seen of it."""

    tries = 3

    def __init__(self, request: ChatRequest, *, streamed: bool) -> None:
        self._request = request
        self._streamed = streamed
        self._tokens_in: int | None = None
        self._begin()

    def _begin(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, ToolCallDelta] = {}
        self._finish = ""
        self._counted: TokenUsage | None = None

    # -- what `calls.Call` asks ---------------------------------------------------------------
    def need(self, endpoint: ModelEndpoint) -> TokenUsage:
        return TokenUsage(self._estimated_in(), self._longest(endpoint), estimated=True)

    def patience(self, endpoint: ModelEndpoint) -> float:
        return endpoint.first_token_seconds if self._streamed else endpoint.total_seconds

    def usage(self) -> TokenUsage:
        if self._counted is not None:
            return self._counted
        written = [*self._text, *self._reasoning, *(call.arguments for call in self._calls.values())]
        tokens_out = sum(_COUNTER.count(["".join(written)])) if written else 0
        return TokenUsage(self._estimated_in(), tokens_out, estimated=True)

    async def attempt(self, endpoint: ModelEndpoint, secret: Secret) -> AsyncGenerator[ChatPart]:
        self._begin()
        litellm = await clients.runtime()
        answer: Any = None
        trip = clients.watched_trip()
        try:
            answer = await litellm.acompletion(**self._arguments(endpoint, secret))
            if self._streamed:
                async for chunk in answer:
                    if part := self._chunk(chunk):
                        yield part
            else:
                yield self._message(answer, endpoint)
        except ArchwayError:
            raise
        except Exception as error:  # noqa: BLE001  # the edge to a library that raises anything
            failure = failures.failure_of(error, endpoint.name, sent=trip.began)
            # Never the error itself, whose words are the provider's, and may hold keys or text.
            logger.info("%s: %s of %s", failure.code, type(error).__name__, endpoint.uid)
            raise AttemptFailed(failure, failures.retry_after(error)) from None
        finally:
            if self._streamed and answer is not None:
                # Leaving the loop is not enough: the connection is closed here, and the provider stops writing.
                await answer.aclose()
        if not (self._text or self._reasoning or self._calls):
            blocked = self._finish == "content_filter"
            raise AttemptFailed(failures.blocked(endpoint.name) if blocked else failures.bad_answer(endpoint.name))

    # -- the answer ---------------------------------------------------------------------------
    def answer(self, line: Line) -> ChatAnswer:
        """All that came, once the call has ended well."""
        calls = tuple(ToolCall(call.id, call.name, call.arguments) for _, call in sorted(self._calls.items()))
        return ChatAnswer(
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            tool_calls=calls,
            finish=self._finish or ("tool_calls" if calls else "stop"),
            usage=line.usage,
            cost=line.cost,
            model=line.endpoint.model_name,
            endpoint=line.endpoint.uid,
            record=line.uid,
            seconds=line.seconds,
            first_token_seconds=line.first_token_seconds,
            fell_back=line.endpoint.pk != line.asked.pk,
            demo=line.endpoint.is_demo,
        )

    # -- the request --------------------------------------------------------------------------
    def _arguments(self, endpoint: ModelEndpoint, secret: Secret) -> dict[str, Any]:
        request = self._request
        given: dict[str, Any] = {
            **checked_parameters(endpoint.parameters),
            **request.options,
            "model": litellm_name(endpoint),
            "messages": [dict(message) for message in request.messages],
            "max_tokens": self._longest(endpoint),
            "stream": self._streamed,
            **clients.arguments(endpoint, secret),
        }
        if self._streamed:
            given["stream_options"] = {"include_usage": True}
        if request.tools:
            given["tools"] = [dict(tool) for tool in request.tools]
            if request.tool_choice is not None:
                given["tool_choice"] = request.tool_choice
        for name in ("temperature", "top_p"):
            if (value := getattr(request, name)) is not None:
                given[name] = value
        if request.stop:
            given["stop"] = list(request.stop)
        if request.json_schema is not None:
            schema = {"name": "answer", "schema": dict(request.json_schema), "strict": True}
            given["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif request.json_object:
            given["response_format"] = {"type": "json_object"}
        return given

    def _longest(self, endpoint: ModelEndpoint) -> int:
        return min(self._request.max_tokens or endpoint.max_output_tokens, endpoint.max_output_tokens)

    def _estimated_in(self) -> int:
        if self._tokens_in is None:
            self._tokens_in = estimated_tokens(self._request)
        return self._tokens_in

    # -- what comes back ----------------------------------------------------------------------
    def _chunk(self, chunk: Any) -> ChatPart | None:
        if (usage := _held(chunk, "usage")) is not None:
            self._counted = _usage(usage)
        if not chunk.choices:
            return None
        choice = chunk.choices[0]
        self._finish = choice.finish_reason or self._finish
        delta = choice.delta
        text = delta.content or ""
        reasoning = _held(delta, "reasoning_content") or ""
        pieces = tuple(self._piece(call) for call in _held(delta, "tool_calls") or ())
        if text:
            self._text.append(text)
        if reasoning:
            self._reasoning.append(reasoning)
        return ChatPart(text, reasoning, pieces) if text or reasoning or pieces else None

    def _message(self, answer: Any, endpoint: ModelEndpoint) -> ChatPart:
        if (usage := getattr(answer, "usage", None)) is not None:
            self._counted = _usage(usage)
        if not answer.choices:
            raise AttemptFailed(failures.bad_answer(endpoint.name))
        choice = answer.choices[0]
        self._finish = choice.finish_reason or ""
        message = choice.message
        text = message.content or ""
        reasoning = getattr(message, "reasoning_content", None) or ""
        self._text, self._reasoning = [text] if text else [], [reasoning] if reasoning else []
        pieces = tuple(self._piece(call, index) for index, call in enumerate(message.tool_calls or ()))
        return ChatPart(text, reasoning, pieces)

    def _piece(self, call: Any, index: int | None = None) -> ToolCallDelta:
        place = call.index if index is None else index
        function = call.function
        piece = ToolCallDelta(place or 0, call.id or "", function.name or "", function.arguments or "")
        known = self._calls.get(piece.index, ToolCallDelta(piece.index))
        self._calls[piece.index] = ToolCallDelta(
            piece.index, known.id or piece.id, known.name or piece.name, known.arguments + piece.arguments
        )
        return piece


def estimated_tokens(request: ChatRequest) -> int:
    """At least as many tokens as the prompt has for nearly every model; tools and schema count too."""
    texts: list[str] = []
    extra = 0
    for message in request.messages:
        extra += _AROUND_MESSAGE
        content = message.get("content")
        parts = content if isinstance(content, list) else [content]
        for part in parts:
            if isinstance(part, str):
                texts.append(part)
            elif isinstance(part, dict) and part.get("type") == "text":
                texts.append(str(part.get("text", "")))
            elif part:
                extra += _PICTURE
        texts += [str(call) for call in message.get("tool_calls") or ()]
    texts += [str(tool) for tool in request.tools]
    if request.json_schema is not None:
        texts.append(str(request.json_schema))
    return extra + sum(_COUNTER.count(texts))


def _held(model: Any, name: str) -> Any:
    """An attribute that most of LiteLLM's chunks lack: asking for it costs more than all the rest of a token."""
    value = model.__dict__.get(name)
    if value is None and (extra := model.__pydantic_extra__):
        value = extra.get(name)
    return value


def _usage(usage: Any) -> TokenUsage | None:
    """What the provider says; None when it says nothing, which LiteLLM hands on as zeros."""
    if not usage.prompt_tokens and not usage.completion_tokens:
        return None
    details = getattr(usage, "prompt_tokens_details", None)
    cached = getattr(details, "cached_tokens", None) or 0
    tokens_in = usage.prompt_tokens or 0
    return TokenUsage(tokens_in, usage.completion_tokens or 0, min(cached, tokens_in))
