"""JSON that a model was asked for: asked with a schema, checked against it here, never trusted."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from portal.gateway import chat, failures
from portal.gateway.chat_contract import ChatAnswer, ChatRequest, Message
from portal.gateway.models import ModelEndpoint

Shape = TypeVar("Shape", bound=BaseModel)
_FENCED = re.compile(r"^\s*```(?:json)?\s*\n(.*?)\n\s*```\s*$", re.DOTALL)


def ask(
    caller: chat.Caller,
    endpoint: ModelEndpoint,
    messages: Sequence[Message],
    schema: Mapping[str, Any],
    shape: type[Shape],
    *,
    max_tokens: int = 1_000,
    seconds: float | None = None,
) -> tuple[Shape, ChatAnswer]:
    """What the model answers, in `shape`, within so many `seconds`.

    Raises what `chat` raises, and `Invalid` (model_bad_answer) for anything of another shape.
    """
    request = ChatRequest(messages=messages, json_schema=schema, temperature=0.0, max_tokens=max_tokens)
    answer = chat.complete(caller, endpoint, request, seconds=seconds)
    return read(answer.text, shape, endpoint.name), answer


def read(text: str, shape: type[Shape], model: str) -> Shape:
    """`text` as JSON of this shape, with or without the fence that models like to put around it."""
    fenced = _FENCED.match(text)
    try:
        return shape.model_validate(json.loads(fenced.group(1) if fenced else text))
    except (ValueError, ValidationError):
        raise failures.bad_answer(model) from None
