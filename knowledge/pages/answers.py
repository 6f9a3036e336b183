"""A written answer of the ask page: followed while it is written, stopped, and fetched as it stands."""

from __future__ import annotations

from typing import cast

from django.http import HttpResponse, HttpResponseRedirect, JsonResponse, StreamingHttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST, require_safe

from knowledge import asking
from knowledge.answering import live
from knowledge.models import QueryRecord
from knowledge.pages import ask
from portal.kernel.errors import NotFound
from portal.kernel.middleware import PortalRequest
from portal.kernel.pages import signed_in
from portal.kernel.principal import Principal


@require_safe
@signed_in
def turn(request: PortalRequest, principal: Principal, thread: str, record: str) -> HttpResponse:
    """One turn as it stands now, without the page around it."""
    row = _record(principal, thread, record)
    context = {"answer": ask.answer_of(request, principal, row), "thread": thread}
    return render(request, "knowledge/ask_turn.html", context)


@require_safe
@signed_in
def events(request: PortalRequest, principal: Principal, thread: str, record: str) -> HttpResponse:
    """The answer while it is written, as server-sent events; begun by whoever follows it first."""
    row = _record(principal, thread, record)
    if not row.answering:
        raise NotFound("Not found, or you don't have access.")
    after = request.headers.get("Last-Event-ID", "0")
    response = StreamingHttpResponse(
        live.followed(principal, row.uid, after), content_type="text/event-stream; charset=utf-8"
    )
    # Proxies that buffer would hand the answer on in one piece.
    response.headers["X-Accel-Buffering"] = "no"
    response.headers["Cache-Control"] = "no-store"
    return cast(HttpResponse, response)  # what passes the decorator on is either


@require_POST
@signed_in
def stop(request: PortalRequest, principal: Principal, thread: str, record: str) -> HttpResponse:
    """Stop writing; what is written stays."""
    row = _record(principal, thread, record)
    stopped = live.stop(row)
    if "application/json" in request.headers.get("Accept", ""):
        return JsonResponse({"stopped": stopped})
    return HttpResponseRedirect(f"/ask/{thread}/#m_{record}")


def _record(principal: Principal, thread: str, uid: str) -> QueryRecord:
    row = asking.readable_record(principal, uid)
    if row is None or row.kind != QueryRecord.Kind.ASK or not thread or row.thread != thread:
        raise NotFound("Not found, or you don't have access.")
    return row
