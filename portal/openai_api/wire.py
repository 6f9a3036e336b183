"""Answers in OpenAI's shape: one object, or the chunks of a stream as server-sent events."""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from portal.gateway.accounting import TokenUsage
from portal.gateway.chat_contract import ChatPart, ToolCallDelta
from portal.kernel.errors import ArchwayError
from portal.kernel.models import new_uid
from portal.openai_api import errors
from portal.openai_api.contract import Citation, Finished, Pieces

DONE = b"data: [DONE]\n\n"
_MARK = re.compile(r"\[(\d{1,3})\]")


class Wire:
    """One answer of the model that was asked for as `model`."""

    def __init__(self, model: str) -> None:
        self._frame: dict[str, Any] = {
            "id": f"chatcmpl-{new_uid()}",
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": None,
        }

    def whole(self, end: Finished) -> dict[str, Any]:
        """The `chat.completion` object."""
        message: dict[str, Any] = {"role": "assistant", "content": end.text or None, "refusal": None}
        if end.reasoning:
            message["reasoning_content"] = end.reasoning
        if end.tool_calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in end.tool_calls
            ]
        if end.citations:
            message["annotations"] = marks_of(end.text, end.citations)
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": end.finish}
        return {
            **self._frame,
            "object": "chat.completion",
            "choices": [choice],
            "usage": usage_of(end.usage),
            **_added(end),
        }

    async def events(self, first: ChatPart | Finished, rest: Pieces, *, with_usage: bool) -> AsyncGenerator[bytes]:
        """The events of a stream. What fails after the first one comes as an event with `error`, and ends it."""
        empty = {"usage": None} if with_usage else {}
        yield self._event({"role": "assistant", "content": ""}, **empty)
        try:
            async with aclosing(_after(first, rest)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Finished):
                        for event in self._end(piece, with_usage=with_usage, empty=empty):
                            yield event
                    else:
                        yield self._event(_delta(piece), **empty)
        except ArchwayError as error:
            yield _data(errors.body_of(error))
            return
        yield DONE

    def _end(self, end: Finished, *, with_usage: bool, empty: dict[str, Any]) -> list[bytes]:
        delta = {"annotations": marks_of(end.text, end.citations)} if end.citations else {}
        events = [self._event(delta, finish=end.finish, **empty, **_added(end))]
        if with_usage:
            chunk = {**self._frame, "object": "chat.completion.chunk", "choices": [], "usage": usage_of(end.usage)}
            events.append(_data(chunk))
        return events

    def _event(self, delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _data({**self._frame, "object": "chat.completion.chunk", "choices": [choice], **more})


def marks_of(text: str, citations: Sequence[Citation]) -> list[dict[str, Any]]:
    """OpenAI's `url_citation` for each `[n]` in the text; places are in characters."""
    by_number = {citation.number: citation for citation in citations}
    return [
        {
            "type": "url_citation",
            "url_citation": {
                "start_index": mark.start(),
                "end_index": mark.end(),
                "title": by_number[int(mark[1])].title,
                "url": by_number[int(mark[1])].url,
            },
        }
        for mark in _MARK.finditer(text)
        if int(mark[1]) in by_number
    ]


def usage_of(usage: TokenUsage) -> dict[str, Any]:
    """OpenAI's `usage`."""
    return {
        "prompt_tokens": usage.tokens_in,
        "completion_tokens": usage.tokens_out,
        "total_tokens": usage.total,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    }


async def _after(first: ChatPart | Finished, rest: Pieces) -> Pieces:
    async with aclosing(rest):
        yield first
        async for piece in rest:
            yield piece


def _added(end: Finished) -> dict[str, Any]:
    added: dict[str, Any] = {"archway": dict(end.more)} if end.more else {}
    if end.citations:
        added["citations"] = [citation.as_json() for citation in end.citations]
    return added


def _delta(part: ChatPart) -> dict[str, Any]:
    delta: dict[str, Any] = {}
    if part.text:
        delta["content"] = part.text
    if part.reasoning:
        delta["reasoning_content"] = part.reasoning
    if part.tool_calls:
        delta["tool_calls"] = [_call(call) for call in part.tool_calls]
    return delta


def _call(call: ToolCallDelta) -> dict[str, Any]:
    function: dict[str, Any] = {"arguments": call.arguments}
    piece: dict[str, Any] = {"index": call.index, "function": function}
    if call.name:
        function["name"] = call.name
    if call.id:
        piece |= {"id": call.id, "type": "function"}
    return piece


def _data(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"
