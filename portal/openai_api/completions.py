"""`POST /v1/chat/completions`."""

from __future__ import annotations

from contextlib import aclosing

from django.http import HttpResponseBase, JsonResponse, StreamingHttpResponse

from portal.gateway import chat
from portal.gateway.accounting import Caller
from portal.gateway.models import Purpose
from portal.gateway.reuse.scope import Reuse, reuse_for
from portal.gateway.reuse.store import switched_on
from portal.openai_api import base_answers, completion_input
from portal.openai_api.completion_input import CompletionInput
from portal.openai_api.contract import Finished, Pieces, finished
from portal.openai_api.door import Asked, door, on_database
from portal.openai_api.messages import text_of
from portal.openai_api.targets import Endpoint, Target, chat_target
from portal.openai_api.wire import Wire

PURPOSE = Purpose.API_CHAT


@door("POST", "chat")
async def completions(asked: Asked) -> HttpResponseBase:
    """An answer of a chat model, or of bases; whole, or as a stream that ends when the caller hangs up."""
    given = completion_input.read(await asked.json())
    target = await on_database(lambda: chat_target(asked.principal, given.model))
    pieces = _pieces(asked, target, given)
    wire = Wire(target.name)
    if given.stream:
        return await _streamed(wire, pieces, given)
    end: Finished | None = None
    async with aclosing(pieces):
        async for piece in pieces:
            end = piece if isinstance(piece, Finished) else end
    assert end is not None  # the last piece, or the answer has raised
    return JsonResponse(wire.whole(end))


async def _streamed(wire: Wire, pieces: Pieces, given: CompletionInput) -> HttpResponseBase:
    # The first piece is awaited here: what fails before it has a status of its own.
    try:
        first = await anext(pieces)
    except BaseException:
        await pieces.aclose()
        raise
    response = StreamingHttpResponse(
        wire.events(first, pieces, with_usage=given.with_usage), content_type="text/event-stream; charset=utf-8"
    )
    response.headers["Cache-Control"] = "no-cache"
    response.headers["X-Accel-Buffering"] = "no"
    return response


def _pieces(asked: Asked, target: Target, given: CompletionInput) -> Pieces:
    if isinstance(target, Endpoint):
        return _of_endpoint(asked, target, given)
    return base_answers.pieces(asked, target, given)


async def _of_endpoint(asked: Asked, target: Endpoint, given: CompletionInput) -> Pieces:
    caller = Caller(asked.principal, PURPOSE)
    reuse = await on_database(lambda: _reuse(asked, given))
    if not given.stream:
        yield finished(await chat.acomplete(caller, target.row, given.request, reuse=reuse))
        return
    async with aclosing(chat.astream(caller, target.row, given.request, reuse=reuse)) as parts:
        async for part in parts:
            yield finished(part.answer) if part.answer else part


def _reuse(asked: Asked, given: CompletionInput) -> Reuse | None:
    """Leave to use an answer again, unless the caller wants a fresh one or answers a tool."""
    fresh = "no-cache" in asked.request.headers.get("Cache-Control", "").lower()
    if fresh or not switched_on() or given.messages[-1]["role"] != "user":
        return None
    return reuse_for(asked.principal, text_of(given.messages[-1]))
