"""Requests read, and answers worded, in each provider's format: a row of `CHAT` is a format.

Formats: OpenAI (also Doubao, Wenxin, Yuanbao, vLLM, Ollama), Anthropic messages, Gemini generateContent.
Sources: the providers' public API references.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from portal.demo_model.answers import Answer
from portal.demo_model.behaviour import Behaviour
from portal.demo_model.prompts import Prompt, text_of

_AT = 1_700_000_000  # the same answer at any time

Frame = tuple[str, bytes]
"""("token" | "reasoning" | "other", bytes on the wire); pauses come before the first two."""


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """How one provider's chat looks. `frames` are the events of a stream in order."""

    read: Callable[[Mapping[str, Any]], Prompt]
    whole: Callable[[str, Answer, Behaviour], dict[str, Any]]
    frames: Callable[[str, Answer, Behaviour, bool], Iterator[Frame]]
    failure: Callable[[int], dict[str, Any]]


# -- OpenAI ---------------------------------------------------------------------------------------
_REASONS = {
    400: ("invalid_request_error", "invalid_value"),
    401: ("invalid_request_error", "invalid_api_key"),
    402: ("insufficient_quota", "insufficient_quota"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}


def openai_failure(status: int) -> dict[str, Any]:
    kind, code = _REASONS.get(status, ("server_error", "internal_error"))
    return {"error": {"message": f"refused with {status}", "type": kind, "param": None, "code": code}}


def openai_usage(answer: Answer, behaviour: Behaviour) -> dict[str, Any]:
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "total_tokens": answer.prompt_tokens + answer.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": min(behaviour.cached, answer.prompt_tokens)},
        "completion_tokens_details": {"reasoning_tokens": len(answer.reasoning)},
    }


def _read_openai(body: Mapping[str, Any]) -> Prompt:
    tools = {tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in body.get("tools") or ()}
    wanted = body.get("response_format") or {}
    schema = (wanted.get("json_schema") or {}).get("schema")
    choice = body.get("tool_choice")
    must = choice["function"]["name"] if isinstance(choice, Mapping) and "function" in choice else ""
    if choice == "none":
        tools = {}
    elif choice == "required" and tools:
        must = next(iter(tools))
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    messages = tuple((str(row.get("role")), text_of(row.get("content") or "")) for row in body["messages"])
    return Prompt(messages, tools, schema, limit, must, wanted.get("type") == "json_object")


def _openai_calls(answer: Answer) -> list[dict[str, Any]]:
    return [
        {
            "index": number,
            "id": f"call_{number + 1}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)},
        }
        for number, (name, arguments) in enumerate(answer.calls)
    ]


def _whole_openai(model: str, answer: Answer, behaviour: Behaviour) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.reasoning:
        message["reasoning_content"] = "".join(answer.reasoning)
    if answer.calls:
        message["tool_calls"] = [{k: v for k, v in call.items() if k != "index"} for call in _openai_calls(answer)]
    body = {
        "id": "chatcmpl-demo",
        "object": "chat.completion",
        "created": _AT,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": answer.finish}],
    }
    return body if behaviour.nousage else {**body, "usage": openai_usage(answer, behaviour)}


def _frames_openai(model: str, answer: Answer, behaviour: Behaviour, with_usage: bool) -> Iterator[Frame]:
    # Written by hand once, because a load test asks for thousands a second.
    head = f'data: {{"id":"chatcmpl-demo","object":"chat.completion.chunk","created":{_AT},"model":{json.dumps(model)},'

    def frame(delta: dict[str, Any], finish: str | None = None) -> bytes:
        row = {"index": 0, "delta": delta, "finish_reason": finish}
        return f'{head}"choices":[{json.dumps(row, ensure_ascii=False)}]}}\n\n'.encode()

    # The role comes with the first delta: an empty one would be taken for the first token.
    role: dict[str, Any] = {"role": "assistant"}
    for delta in answer.reasoning:
        yield "reasoning", frame({**role, "reasoning_content": delta})
        role = {}
    for token in answer.tokens:
        yield "token", frame({**role, "content": token})
        role = {}
    for call in _openai_calls(answer):
        arguments = call["function"]["arguments"]
        half = len(arguments) // 2
        opening = {**call, "function": {"name": call["function"]["name"], "arguments": arguments[:half]}}
        yield "token", frame({**role, "tool_calls": [opening]})
        rest = {"index": call["index"], "function": {"arguments": arguments[half:]}}
        yield "other", frame({"tool_calls": [rest]})
        role = {}
    yield "other", frame(role, answer.finish)
    if with_usage and not behaviour.nousage:
        usage = json.dumps(openai_usage(answer, behaviour))
        yield "other", f'{head}"choices":[],"usage":{usage}}}\n\n'.encode()
    yield "other", b"data: [DONE]\n\n"


# -- Anthropic ------------------------------------------------------------------------------------
_ANTHROPIC_REASONS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_EMPTY: dict[str, dict[str, Any]] = {
    "thinking": {"thinking": "", "signature": ""},
    "text": {"text": ""},
    "tool_use": {"input": {}},
}
_STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


def _anthropic_failure(status: int) -> dict[str, Any]:
    kind = _ANTHROPIC_REASONS.get(status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": f"refused with {status}"}}


def _read_anthropic(body: Mapping[str, Any]) -> Prompt:
    tools = {tool["name"]: tool.get("input_schema") or {} for tool in body.get("tools") or () if "name" in tool}
    messages = [("system", text_of(body.get("system") or ""))] if body.get("system") else []
    for row in body["messages"]:
        content = row["content"]
        results = isinstance(content, list) and any(part.get("type") == "tool_result" for part in content)
        messages.append(("tool" if results else str(row["role"]), text_of(content)))
    choice = body.get("tool_choice") or {}
    must = str(choice.get("name", "")) or (next(iter(tools), "") if choice.get("type") == "any" else "")
    wanted = ((body.get("output_config") or {}).get("format") or body.get("output_format") or {}).get("schema")
    return Prompt(tuple(messages), tools, wanted, body.get("max_tokens"), must)


def _anthropic_usage(answer: Answer, behaviour: Behaviour) -> dict[str, Any]:
    cached = min(behaviour.cached, answer.prompt_tokens)
    return {
        "input_tokens": answer.prompt_tokens - cached,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": answer.completion_tokens,
    }


def _anthropic_blocks(answer: Answer) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if answer.reasoning:
        blocks.append({"type": "thinking", "thinking": "".join(answer.reasoning), "signature": "demo"})
    if answer.tokens:
        blocks.append({"type": "text", "text": answer.text})
    for number, (name, arguments) in enumerate(answer.calls, start=1):
        blocks.append({"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": arguments})
    return blocks


def _anthropic_message(model: str, **more: Any) -> dict[str, Any]:
    return {"id": "msg_demo", "type": "message", "role": "assistant", "model": model, "stop_sequence": None, **more}


def _whole_anthropic(model: str, answer: Answer, behaviour: Behaviour) -> dict[str, Any]:
    return _anthropic_message(
        model,
        content=_anthropic_blocks(answer),
        stop_reason=_STOPS.get(answer.finish, answer.finish),
        usage=_anthropic_usage(answer, behaviour),
    )


def _frames_anthropic(model: str, answer: Answer, behaviour: Behaviour, with_usage: bool) -> Iterator[Frame]:
    def event(kind: str, **data: Any) -> bytes:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **data}, ensure_ascii=False)}\n\n".encode()

    usage = _anthropic_usage(answer, behaviour)
    start = _anthropic_message(model, content=[], stop_reason=None, usage={**usage, "output_tokens": 0})
    yield "other", event("message_start", message=start)
    for index, block in enumerate(_anthropic_blocks(answer)):
        kind = block["type"]
        empty = _EMPTY[kind]
        yield "other", event("content_block_start", index=index, content_block={**block, **empty})
        deltas: Iterator[tuple[str, dict[str, Any]]]
        if kind == "thinking":
            deltas = (("reasoning", {"type": "thinking_delta", "thinking": part}) for part in answer.reasoning)
        elif kind == "text":
            deltas = (("token", {"type": "text_delta", "text": token}) for token in answer.tokens)
        else:
            arguments = json.dumps(block["input"], ensure_ascii=False)
            deltas = iter([("token", {"type": "input_json_delta", "partial_json": arguments})])
        for pause, delta in deltas:
            yield pause, event("content_block_delta", index=index, delta=delta)
        yield "other", event("content_block_stop", index=index)
    stop = {"stop_reason": _STOPS.get(answer.finish, answer.finish), "stop_sequence": None}
    final = {} if behaviour.nousage else {"usage": {"output_tokens": usage["output_tokens"]}}
    yield "other", event("message_delta", delta=stop, **final)
    yield "other", event("message_stop")


# -- Gemini ---------------------------------------------------------------------------------------
_GEMINI_REASONS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}
_GEMINI_REASONS |= {402: "FAILED_PRECONDITION", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}
_GEMINI_STOPS = {"stop": "STOP", "length": "MAX_TOKENS", "tool_calls": "STOP"}


def _gemini_failure(status: int) -> dict[str, Any]:
    reason = _GEMINI_REASONS.get(status, "UNKNOWN")
    return {"error": {"code": status, "message": f"refused with {status}", "status": reason}}


def _read_gemini(body: Mapping[str, Any]) -> Prompt:
    tools: dict[str, Mapping[str, Any]] = {}
    for tool in body.get("tools") or ():
        for row in tool.get("functionDeclarations") or tool.get("function_declarations") or ():
            tools[row["name"]] = row.get("parametersJsonSchema") or row.get("parameters") or {}
    system = body.get("systemInstruction") or body.get("system_instruction")
    messages = [("system", text_of(system))] if system else []
    for row in body["contents"]:
        parts = row.get("parts") or ()
        results = [part for part in parts if "functionResponse" in part or "function_response" in part]
        if results:
            messages.append(("tool", json.dumps(results, ensure_ascii=False)))
        else:
            role = "assistant" if row.get("role") == "model" else "user"
            messages.append((role, text_of(parts)))
    config = body.get("generationConfig") or body.get("generation_config") or {}
    names = ("responseJsonSchema", "response_json_schema", "responseSchema", "response_schema")
    schema = next((config[name] for name in names if config.get(name)), None)
    limit = config.get("maxOutputTokens") or config.get("max_output_tokens")
    mime = config.get("responseMimeType") or config.get("response_mime_type") or ""
    choice = body.get("toolConfig") or body.get("tool_config") or {}
    calling = choice.get("functionCallingConfig") or choice.get("function_calling_config") or {}
    must = next(iter(tools), "") if calling.get("mode") == "ANY" else ""
    if calling.get("mode") == "NONE":
        tools = {}
    return Prompt(tuple(messages), tools, schema, limit, must, mime == "application/json")


def _gemini_body(model: str, parts: list[dict[str, Any]], finish: str = "", **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
    if finish:
        candidate["finishReason"] = _GEMINI_STOPS.get(finish, finish.upper())
    return {"candidates": [candidate], "modelVersion": model, "responseId": "demo", **more}


def _gemini_usage(answer: Answer, behaviour: Behaviour) -> dict[str, Any]:
    if behaviour.nousage:
        return {}
    usage = {
        "promptTokenCount": answer.prompt_tokens,
        "candidatesTokenCount": answer.completion_tokens - len(answer.reasoning),
        "thoughtsTokenCount": len(answer.reasoning),
        "totalTokenCount": answer.prompt_tokens + answer.completion_tokens,
        "cachedContentTokenCount": min(behaviour.cached, answer.prompt_tokens),
    }
    return {"usageMetadata": usage}


def _gemini_calls(answer: Answer) -> list[dict[str, Any]]:
    return [{"functionCall": {"name": name, "args": arguments}} for name, arguments in answer.calls]


def _whole_gemini(model: str, answer: Answer, behaviour: Behaviour) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if answer.reasoning:
        parts.append({"text": "".join(answer.reasoning), "thought": True})
    if answer.tokens:
        parts.append({"text": answer.text})
    parts += _gemini_calls(answer)
    return _gemini_body(model, parts, answer.finish, **_gemini_usage(answer, behaviour))


def _frames_gemini(model: str, answer: Answer, behaviour: Behaviour, with_usage: bool) -> Iterator[Frame]:
    def event(body: dict[str, Any]) -> bytes:
        return f"data: {json.dumps(body, ensure_ascii=False)}\n\n".encode()

    for part in answer.reasoning:
        yield "reasoning", event(_gemini_body(model, [{"text": part, "thought": True}]))
    for token in answer.tokens:
        yield "token", event(_gemini_body(model, [{"text": token}]))
    if answer.calls:
        yield "token", event(_gemini_body(model, _gemini_calls(answer)))
    yield "other", event(_gemini_body(model, [{"text": ""}], answer.finish, **_gemini_usage(answer, behaviour)))


CHAT: dict[str, ChatFormat] = {
    "openai": ChatFormat(_read_openai, _whole_openai, _frames_openai, openai_failure),
    "anthropic": ChatFormat(_read_anthropic, _whole_anthropic, _frames_anthropic, _anthropic_failure),
    "gemini": ChatFormat(_read_gemini, _whole_gemini, _frames_gemini, _gemini_failure),
}
