"""The messages of a request, checked: roles, content parts, tool calls; and what of them is the question."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from portal.gateway.chat_contract import Message
from portal.openai_api.errors import Refused

MOST = 2000
# `developer` is OpenAI's newer word for `system`; other providers know only the older.
_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_PICTURE = re.compile(r"^data:image/(png|jpe?g|gif|webp);base64,[A-Za-z0-9+/=\s]+$")


def checked(given: Any) -> list[Message]:
    """The messages as the gateway takes them. Raises `Refused`, which names the place."""
    if not isinstance(given, list) or not given:
        raise Refused("Send at least one message.", param="messages")
    if len(given) > MOST:
        raise Refused("Send at most %(most)s messages.", param="messages", most=MOST)
    return [_message(message, f"messages[{place}]") for place, message in enumerate(given)]


def question_of(messages: Sequence[Message]) -> str:
    """The text of the last message, which must be the user's. Raises `Refused`."""
    last = messages[-1]
    text = text_of(last) if last["role"] == "user" else ""
    if not text.strip():
        raise Refused("The last message must be a question of the user.", param="messages")
    return text


def text_of(message: Message) -> str:
    """What a message says in words; pictures say nothing."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content or () if part.get("type") == "text")


def _message(given: Any, place: str) -> Message:
    if not isinstance(given, Mapping):
        raise Refused("A message is an object with role and content.", param=place)
    role = _ROLES.get(str(given.get("role")))
    if role is None:
        raise Refused('There is no role "%(role)s".', param=f"{place}.role", role=str(given.get("role"))[:30])
    message: dict[str, Any] = {"role": role, "content": _content(given.get("content"), role, f"{place}.content")}
    if isinstance(given.get("name"), str):
        message["name"] = given["name"]
    if role == "assistant" and given.get("tool_calls"):
        message["tool_calls"] = _tool_calls(given["tool_calls"], f"{place}.tool_calls")
    elif message["content"] is None:
        raise Refused("This message has no content.", param=f"{place}.content")
    if role == "tool":
        if not isinstance(given.get("tool_call_id"), str):
            raise Refused("A tool's message names the call that it answers.", param=f"{place}.tool_call_id")
        message["tool_call_id"] = given["tool_call_id"]
    return message


def _content(content: Any, role: str, place: str) -> Any:
    if content is None and role == "assistant":
        return None
    if isinstance(content, str):
        return content
    if isinstance(content, list) and content:
        return [_part(part, role, f"{place}[{number}]") for number, part in enumerate(content)]
    raise Refused("Content is a text, or a list of parts.", param=place)


def _part(part: Any, role: str, place: str) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "text" and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if kind == "refusal" and isinstance(part.get("refusal"), str):
        return {"type": "text", "text": part["refusal"]}
    if kind == "image_url" and role == "user" and isinstance(part.get("image_url"), Mapping):
        return _picture(part["image_url"], f"{place}.image_url.url")
    raise Refused("Parts are texts, and pictures of the user.", param=place)


def _picture(picture: Mapping[str, Any], place: str) -> dict[str, Any]:
    # Fetching an address that a caller chose is what egress guards against; a picture that is sent needs no fetching.
    url = picture.get("url")
    if not isinstance(url, str) or not _PICTURE.match(url):
        raise Refused("Send pictures as data: addresses (PNG, JPEG, GIF or WebP in base64).", param=place)
    detail = picture.get("detail")
    return {"type": "image_url", "image_url": {"url": url, **({"detail": detail} if isinstance(detail, str) else {})}}


def _tool_calls(given: Any, place: str) -> list[dict[str, Any]]:
    calls = []
    for number, call in enumerate(given if isinstance(given, list) else [None]):
        function = call.get("function") if isinstance(call, Mapping) else None
        name = function.get("name") if isinstance(function, Mapping) else None
        arguments = function.get("arguments") if isinstance(function, Mapping) else None
        if not (isinstance(name, str) and isinstance(arguments, str) and isinstance(call.get("id"), str)):
            raise Refused("A tool call has an id, a name and arguments.", param=f"{place}[{number}]")
        calls.append({"id": call["id"], "type": "function", "function": {"name": name, "arguments": arguments}})
    return calls
