"""Looking for an answer before a model is asked, and keeping the one that it gave."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from portal.gateway import accounting, quotas
from portal.gateway.accounting import NOTHING, Caller, Line, Outcome, TokenUsage
from portal.gateway.chat_contract import ChatAnswer, ChatRequest
from portal.gateway.loops import Outside
from portal.gateway.models import ModelEndpoint
from portal.gateway.reuse import metrics
from portal.gateway.reuse.scope import Reuse, key_of
from portal.gateway.reuse.store import store, switched_on

_keeping: set[asyncio.Task[None]] = set()


async def found(
    caller: Caller, endpoint: ModelEndpoint, request: ChatRequest, reuse: Reuse, outside: Outside
) -> ChatAnswer | None:
    """The answer that was given to the same question, recorded as `cached`: it costs nothing."""
    if not switched_on():
        return None
    began = time.perf_counter()
    kept, outcome = await store().find(key_of(caller, endpoint, request, reuse), reuse.question)
    await metrics.count(caller.principal.workspace_id, outcome)
    if kept is None:
        return None
    seconds = time.perf_counter() - began
    line = Line(caller, endpoint, endpoint, seconds=seconds, first_token_seconds=seconds, outcome=Outcome.CACHED)
    await outside.database(lambda: accounting.write(line, quotas.account_of(caller.principal)))
    return ChatAnswer(
        text=kept["text"],
        reasoning="",
        tool_calls=(),
        finish="stop",
        usage=TokenUsage(),
        cost=NOTHING,
        model=kept["model"],
        endpoint=kept["endpoint"],
        record=line.uid,
        seconds=seconds,
        first_token_seconds=seconds,
        fell_back=kept["fell_back"],
        demo=kept["demo"],
        cached=True,
    )


def keep(caller: Caller, endpoint: ModelEndpoint, request: ChatRequest, reuse: Reuse, answer: ChatAnswer) -> None:
    """Keep a whole answer in words, beside the caller; parts, calls of tools and cut answers are not kept."""
    if not switched_on() or answer.finish != "stop" or answer.tool_calls or not answer.text.strip():
        return
    kept: dict[str, Any] = {
        "text": answer.text,
        "model": answer.model,
        "endpoint": answer.endpoint,
        "fell_back": answer.fell_back,
        "demo": answer.demo,
    }
    task = asyncio.create_task(store().keep(key_of(caller, endpoint, request, reuse), reuse.question, kept))
    _keeping.add(task)
    task.add_done_callback(_keeping.discard)


async def all_kept() -> None:
    """Wait for what is being kept on this loop."""
    await asyncio.gather(*(task for task in _keeping if task.get_loop() is asyncio.get_running_loop()))
