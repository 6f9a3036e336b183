"""For whom, and from what, an answer may be used again: everything but the question's wording, in one key."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from portal.gateway.accounting import Caller
from portal.gateway.chat_contract import ChatRequest
from portal.gateway.models import ModelEndpoint
from portal.kernel.models import Workspace
from portal.kernel.principal import Principal

# Grows when what is kept of an answer, or what makes a key, changes.
VERSION = 1
_MARK = "\x00question\x00"
_LONGEST = 2_000


@dataclass(frozen=True, slots=True)
class Reuse:
    """Leave to use an answer again. `question` is what is compared; the rest must be the same.

    `acl_version` is the workspace's, `stamps` are (uid, stamp) of every base that was searched.
    """

    question: str
    acl_version: int
    stamps: tuple[tuple[str, int], ...] = ()


def reuse_for(principal: Principal, question: str, stamps: tuple[tuple[str, int], ...] = ()) -> Reuse | None:
    """Leave for this asker now; None for a question that is empty or a whole text."""
    if not question.strip() or len(question) > _LONGEST:
        return None
    version = Workspace.objects.values_list("acl_version", flat=True).get(pk=principal.workspace_id)
    return Reuse(question, version, tuple(sorted(stamps)))


def key_of(caller: Caller, endpoint: ModelEndpoint, request: ChatRequest, reuse: Reuse) -> str:
    """`workspace-hash`: one person, their rights now, one state of the knowledge, one model and way of asking."""
    principal = caller.principal
    parts = {
        "version": VERSION,
        "user": principal.user_id,
        "scopes": sorted(principal.scopes),
        "bases": None if principal.base_ids is None else sorted(principal.base_ids),
        "channel": principal.channel,
        "acl": reuse.acl_version,
        "stamps": reuse.stamps,
        "endpoint": [endpoint.uid, endpoint.provider, endpoint.base_url, endpoint.model_name, endpoint.parameters],
        "messages": _without(request, reuse.question),
        "tools": [request.tools, request.tool_choice],
        "sampling": [request.temperature, request.top_p, request.max_tokens, request.stop, request.options],
        "format": [request.json_schema, request.json_object],
    }
    written = json.dumps(parts, sort_keys=True, ensure_ascii=False, default=_plain)
    return f"{prefix_of(principal.workspace_id)}{hashlib.sha256(written.encode('utf-8', 'replace')).hexdigest()}"


def prefix_of(workspace_id: int) -> str:
    """What all keys of a workspace begin with."""
    return f"w{workspace_id}x"


def _without(request: ChatRequest, question: str) -> list[object]:
    """The messages with the question taken out of the last one: system prompt, passages and history stay."""
    messages: list[object] = [dict(message) for message in request.messages[:-1]]
    last = dict(request.messages[-1])
    content = last.get("content")
    if isinstance(content, str):
        last["content"] = content.replace(question, _MARK)
    elif isinstance(content, list):
        last["content"] = [
            {**part, "text": part["text"].replace(question, _MARK)} if part.get("type") == "text" else part
            for part in content
        ]
    return [*messages, last]


def _plain(value: object) -> object:
    return dict(value) if hasattr(value, "keys") else list(value)  # type: ignore[call-overload]
