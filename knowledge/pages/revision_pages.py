"""A document's revisions and the history of the work on them; back to an earlier one after seeing what changes."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from knowledge import documents as verbs
from knowledge import lifecycle, metadata
from knowledge.ingestion.kept import parsed
from knowledge.models import Attempt, Document, Revision, Role
from knowledge.pages.comparing import compare
from knowledge.pages.document_list import following
from knowledge.pages.frame import base_frame, open_document, open_revision
from portal.kernel.errors import ArchwayError, Conflict, Invalid
from portal.kernel.middleware import PortalRequest
from portal.kernel.pages import page_of, say, signed_in
from portal.kernel.principal import Principal

MOST_ATTEMPTS = 100


@require_safe
@signed_in
def revisions(request: PortalRequest, principal: Principal, base: str, document: str) -> HttpResponse:
    """The page at `…/revisions/`."""
    return _page(request, principal, base, document)


def _page(
    request: PortalRequest, principal: Principal, base: str, document: str, error: ArchwayError | None = None
) -> HttpResponse:
    home, row = open_document(principal, base, document)
    topic, seq = following(home)
    page = page_of(request, row.revisions.select_related("created_by").order_by("-number"), default=20)
    for revision in page:
        _describe(row, revision)
    attempts = Attempt.objects.filter(revision__in=[revision.pk for revision in page]).select_related("revision")
    context = {
        **base_frame(home, "documents"),
        "document": row,
        "page": page,
        "attempts": attempts.order_by("-id")[:MOST_ATTEMPTS],
        "facts": request.POST.get("metadata", metadata.as_lines(row.metadata)),
        "error": error.sentence() if error else "",
        "topic": topic,
        "after": seq,
    }
    return render(request, "knowledge/revisions.html", context, status=422 if error else 200)


def _describe(document: Document, revision: Revision) -> None:
    """What the table says and offers for a revision."""
    revision.document = document
    current = document.active_revision_id == revision.pk
    ready = revision.status == Revision.Status.INDEXED and not current
    revision.is_current = current  # type: ignore[attr-defined]
    revision.may_activate = ready and revision.vectors_kept  # type: ignore[attr-defined]
    revision.vectors_gone = ready and not revision.vectors_kept  # type: ignore[attr-defined]
    revision.may_retry = revision.status in lifecycle.RETRYABLE  # type: ignore[attr-defined]
    revision.may_cancel = (  # type: ignore[attr-defined]
        revision.status in (*lifecycle.OPEN, Revision.Status.REVIEW) and not revision.cancel_requested
    )


@require_safe
@signed_in
def compare_revision(
    request: PortalRequest, principal: Principal, base: str, document: str, number: int
) -> HttpResponse:
    """What would change if revision `number` were the current one; a page, or the inside of a dialog for htmx."""
    home, row = open_document(principal, base, document)
    revision = open_revision(row, number)
    current = row.active_revision
    before, after = parsed(current) if current else None, parsed(revision)
    _describe(row, revision)
    context = {
        **base_frame(home, "documents"),
        "document": row,
        "revision": revision,
        "current": current,
        "comparison": compare(before, after) if before and after else None,
    }
    dialog = request.headers.get("HX-Request") == "true"
    return render(request, "knowledge/compare_body.html" if dialog else "knowledge/compare.html", context)


def _activate(principal: Principal, document: Document, revision: Revision) -> str:
    lifecycle.activate(principal, document, revision)
    return gettext("Version %(n)s is current now") % {"n": revision.number}


def _retry(principal: Principal, document: Document, revision: Revision) -> str:
    lifecycle.retry(principal, revision)
    return gettext("Queued again")


def _cancel(principal: Principal, document: Document, revision: Revision) -> str:
    lifecycle.cancel(principal, revision)
    return gettext("Asked to stop")


VERBS: dict[str, Callable[[Principal, Document, Revision], str]] = {
    "activate": _activate,
    "retry": _retry,
    "cancel": _cancel,
}


@require_POST
@signed_in
def act_on_revision(
    request: PortalRequest, principal: Principal, base: str, document: str, number: int, verb: str
) -> HttpResponse:
    """Make a revision current, queue it again, or stop the work on it."""
    home, row = open_document(principal, base, document, Role.EDITOR)
    revision = open_revision(row, number)
    try:
        say(request, VERBS[verb](principal, row, revision))
    except Conflict as error:
        return _page(request, principal, base, document, error)
    return HttpResponseRedirect(f"/bases/{home.uid}/documents/{row.uid}/revisions/")


@require_POST
@signed_in
def describe(request: PortalRequest, principal: Principal, base: str, document: str) -> HttpResponse:
    """Rename a document, move it to another folder, change its tags."""
    home, row = open_document(principal, base, document, Role.EDITOR)
    tags = request.POST.get("tags", "").replace("，", ",").split(",")
    try:
        verbs.describe(
            principal,
            row,
            name=request.POST.get("name", ""),
            folder=request.POST.get("folder", ""),
            tags=tags,
            metadata=metadata.from_lines(request.POST["metadata"]) if "metadata" in request.POST else None,
        )
    except (Conflict, Invalid) as error:
        return _page(request, principal, base, document, error)
    say(request, gettext("Saved"))
    return HttpResponseRedirect(f"/bases/{home.uid}/documents/{row.uid}/revisions/")
