"""Asking a chat model: the one way in, for pages, doors, tasks and agents alike.

    answer = chat.complete(caller, endpoint, request)                       # a task or an ordinary view
    for part in chat.stream(caller, endpoint, request): …                   # the same, part by part
    answer = await chat.acomplete(caller, endpoint, request)                # asyncio
    async with aclosing(chat.astream(caller, endpoint, request)) as parts:  # asyncio, part by part
        async for part in parts: …

`caller` says who asks and what for (`Caller(principal, "ask")`), `endpoint` comes from
`endpoints.chat_endpoint`. Every call is admitted, limited, paid for and recorded (`calls.py`); leaving a
stream early cancels the call at the provider. With `reuse` (`reuse_for`) an earlier answer to the same question may be
given again, and a new one is kept (`portal.gateway.reuse`). Not inside a transaction: credentials are revealed with a
committed line in the audit log.

All raise our family of errors only. `Unavailable` (another try may help): model_rate_limited, model_timeout,
model_cut_off, model_failed, model_unreachable, model_resting, model_busy, model_rate_reached, host_unknown,
demo_model_off. `TooMany`: quota_exceeded. `Invalid` (a person must act): model_auth_failed,
model_account_empty, model_not_found, model_refused, model_context_exceeded, model_content_blocked,
model_tls_failed, model_bad_answer, url_forbidden, base_url_missing, provider_mismatch, and those of credentials.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing

from portal.gateway import loops
from portal.gateway.accounting import Caller
from portal.gateway.calls import Call
from portal.gateway.chat_contract import ChatAnswer, ChatPart, ChatRequest, Message, ToolCall, ToolCallDelta
from portal.gateway.completion import Completion
from portal.gateway.loops import Outside, OwnLoop
from portal.gateway.models import ModelEndpoint
from portal.gateway.reuse import answers
from portal.gateway.reuse.scope import Reuse, reuse_for

__all__ = [
    "Caller",
    "ChatAnswer",
    "ChatPart",
    "ChatRequest",
    "Message",
    "Reuse",
    "ToolCall",
    "ToolCallDelta",
    "acomplete",
    "astream",
    "complete",
    "reuse_for",
    "stream",
]


def complete(
    caller: Caller,
    endpoint: ModelEndpoint,
    request: ChatRequest,
    *,
    seconds: float | None = None,
    reuse: Reuse | None = None,
) -> ChatAnswer:
    """The whole answer, for callers of threads. Not from a running event loop.

    With `seconds` it is given up after so long (`model_timeout`), tries and fallbacks included.
    """
    whole = lambda outside: loops.within(  # noqa: E731
        seconds, endpoint.name, _whole(caller, endpoint, request, outside, reuse)
    )
    return loops.wait_for(whole)


def stream(
    caller: Caller, endpoint: ModelEndpoint, request: ChatRequest, *, reuse: Reuse | None = None
) -> Generator[ChatPart]:
    """The parts of an answer as they come, the last with `answer`; for callers of threads. Close it to cancel."""
    return loops.iterate(lambda outside: _parts(caller, endpoint, request, outside, reuse, streamed=True))


async def acomplete(
    caller: Caller, endpoint: ModelEndpoint, request: ChatRequest, *, reuse: Reuse | None = None
) -> ChatAnswer:
    """The whole answer. Cancelling the task cancels the call."""
    return await _whole(caller, endpoint, request, OwnLoop(), reuse)


def astream(
    caller: Caller, endpoint: ModelEndpoint, request: ChatRequest, *, reuse: Reuse | None = None
) -> AsyncGenerator[ChatPart]:
    """The parts of an answer as they come, the last with `answer`. Close it (`aclosing`) to cancel."""
    return _parts(caller, endpoint, request, OwnLoop(), reuse, streamed=True)


async def _whole(
    caller: Caller, endpoint: ModelEndpoint, request: ChatRequest, outside: Outside, reuse: Reuse | None
) -> ChatAnswer:
    answer: ChatAnswer | None = None
    async with aclosing(_parts(caller, endpoint, request, outside, reuse, streamed=False)) as parts:
        async for part in parts:
            answer = part.answer or answer
    assert answer is not None  # the last part carries it, or the call has raised
    return answer


async def _parts(
    caller: Caller,
    endpoint: ModelEndpoint,
    request: ChatRequest,
    outside: Outside,
    reuse: Reuse | None,
    *,
    streamed: bool,
) -> AsyncGenerator[ChatPart]:
    if reuse is not None and (kept := await answers.found(caller, endpoint, request, reuse, outside)):
        yield ChatPart(kept.text)
        yield ChatPart(answer=kept)
        return
    completion = Completion(request, streamed=streamed)
    call = Call(caller, endpoint, completion, outside, fall_back=True)
    async with aclosing(call.parts()) as parts:
        async for part in parts:
            yield part
    answer = completion.answer(call.line)
    if reuse is not None:
        answers.keep(caller, endpoint, request, reuse, answer)
    yield ChatPart(answer=answer)
