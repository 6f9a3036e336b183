"""Buttons of the document list: one verb on one row. Many at once: `batch_pages`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST

from knowledge import documents as verbs
from knowledge import lifecycle
from knowledge.models import Document, KnowledgeBase, Role
from knowledge.pages import frame, listing
from knowledge.pages.document_list import row_context
from portal.kernel.errors import ArchwayError, Conflict, Invalid
from portal.kernel.middleware import PortalRequest
from portal.kernel.pages import back, is_htmx, say, signed_in
from portal.kernel.principal import Principal


def _newest(document: Document) -> Any:
    row = frame.newest_of(document)
    if row is None:
        raise Conflict("This document has no file.", code="no_file")
    return row


def _retry(principal: Principal, document: Document) -> None:
    lifecycle.retry(principal, _newest(document))


def _cancel(principal: Principal, document: Document) -> None:
    lifecycle.cancel(principal, _newest(document))


def _reindex(principal: Principal, document: Document) -> None:
    lifecycle.reindex(principal, document)


def _enable(principal: Principal, document: Document) -> None:
    verbs.set_enabled(principal, document, True)


def _disable(principal: Principal, document: Document) -> None:
    verbs.set_enabled(principal, document, False)


@dataclass(frozen=True, slots=True)
class Verb:
    """What a button does to a document, and what is said when it is done."""

    act: Callable[[Principal, Document], None]
    said: Any


VERBS = {
    "retry": Verb(_retry, gettext_lazy("Queued again")),
    "cancel": Verb(_cancel, gettext_lazy("Asked to stop")),
    "reindex": Verb(_reindex, gettext_lazy("Queued as a new revision")),
    "enable": Verb(_enable, gettext_lazy("Searches find it again")),
    "disable": Verb(_disable, gettext_lazy("Searches no longer find it")),
    "delete": Verb(verbs.delete, gettext_lazy("In the recycle bin")),
}


@require_POST
@signed_in
def act(request: PortalRequest, principal: Principal, base: str, document: str, verb: str) -> HttpResponse:
    """One verb on one document: the row again for htmx, back to the list for everybody else."""
    home, row = frame.open_document(principal, base, document, Role.EDITOR)
    error: ArchwayError | None = None
    try:
        VERBS[verb].act(principal, row)
    except (Conflict, Invalid) as problem:
        error = problem
    if not is_htmx(request):
        return _after_form(request, home, row, verb, error)
    if verb == "delete" and error is None:
        return _gone(request, principal, home, row)
    context = row_context(principal, home, row, row_problem=error.sentence() if error else "")
    return render(request, "knowledge/document_row_fragment.html", context, status=422 if error else 200)


def _after_form(
    request: PortalRequest, base: KnowledgeBase, document: Document, verb: str, error: ArchwayError | None
) -> HttpResponse:
    if error is not None:
        frame.keep_problem(request, error)
    elif verb == "delete":
        frame.keep_undo(request, base, [document.uid], frame.moved_to_bin(1, document.name))
        return HttpResponseRedirect(f"/bases/{base.uid}/documents/")
    else:
        say(request, str(VERBS[verb].said))
    return back(request, f"/bases/{base.uid}/documents/")


def _gone(request: PortalRequest, principal: Principal, base: KnowledgeBase, document: Document) -> HttpResponse:
    """Nothing in the row's place, the counters, and a toast that can undo it."""
    context = {"base": base, "counts": listing.counts(principal, base)}
    response = render(request, "knowledge/document_gone_fragment.html", context)
    undo = {"ids": [document.uid], "text": frame.moved_to_bin(1, document.name)}
    response.headers["HX-Trigger"] = json.dumps({"archway:undo": undo})
    return response
