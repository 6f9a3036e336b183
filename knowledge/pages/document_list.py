"""The list of a base's documents, one row of it, and the recycle bin."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_GET, require_POST, require_safe
from redis.exceptions import RedisError

from knowledge import documents as verbs
from knowledge import selection, tags
from knowledge.access import access_base, access_deleted_document, visible_documents
from knowledge.models import Document, KnowledgeBase, Role
from knowledge.pages import listing
from knowledge.pages.batch_notice import batch_notice
from knowledge.pages.frame import PROBLEMS, base_frame, keep_problem, open_document, pop_undo
from knowledge.pages.upload_rules import upload_rules
from portal.kernel import events
from portal.kernel.errors import ArchwayError, NotFound
from portal.kernel.middleware import PortalRequest
from portal.kernel.models import User
from portal.kernel.pages import page_of, say, signed_in
from portal.kernel.principal import Principal


def following(base: KnowledgeBase) -> tuple[str, int | None]:
    """(topic, number of its newest event) of a base; read before its rows. None while Redis is away."""
    topic = f"base:{base.uid}"
    try:
        return topic, events.latest_number(topic)
    except (RedisError, OSError):
        # The page then follows from when its socket connects.
        return topic, None


@require_safe
@signed_in
def base_home(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """A base's own address leads to its documents."""
    return HttpResponseRedirect(f"/bases/{access_base(principal, base).uid}/documents/")


@require_safe
@signed_in
def document_list(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """The page at `/bases/{b}/documents/?q=&state=&tag=&type=&changed=&review=&owner=&folder=&sort=&page=&size=`."""
    row = access_base(principal, base)
    topic, seq = following(row)
    frame = base_frame(row, "documents")
    filters = selection.Filters.of(request.GET)
    page = page_of(request, selection.matching(principal, row, filters).select_related("active_revision", "owner"))
    context = {
        **frame,
        "filters": filters,
        "states": selection.STATES,
        "sorts": selection.SORT_LABELS,
        "types": selection.TYPES,
        "ages": selection.CHANGED,
        "reviews": selection.REVIEWS,
        "tags": tags.vocabulary(row),
        "owner_name": owner_name(principal, filters.owner),
        "page": page,
        "rows": listing.as_rows(page.object_list, can_edit=frame["can_edit"], seq=seq),
        "folders": [] if filters.narrows or page.number > 1 else listing.folders(principal, row, filters.folder),
        "trail": listing.trail(filters.folder),
        "counts": listing.counts(principal, row),
        "topic": topic,
        "after": seq,
        "problems": request.session.pop(PROBLEMS, []),
        "undo": pop_undo(request, row),
        "last_batch": batch_notice(principal, request, row),
        "here": request.get_full_path(),
        **upload_rules(),
    }
    return render(request, "knowledge/documents.html", context)


def owner_name(principal: Principal, owner: str) -> str:
    """Whom the filter "responsible" names; empty when it names nobody of this workspace."""
    if owner == selection.NOBODY:
        return gettext("Nobody")
    if owner == selection.ME:
        return gettext("Me")
    people = User.objects.filter(uid=owner, memberships__workspace_id=principal.workspace_id) if owner else None
    person = people.first() if people is not None else None
    return str(person) if person else ""


def row_context(principal: Principal, base: KnowledgeBase, document: Document, **more: Any) -> dict[str, Any]:
    """Context of one row as a fragment, with the counters that go out of band."""
    _, seq = following(base)
    frame = base_frame(base, "documents")
    found = selection.with_newest(visible_documents(principal).filter(pk=document.pk)).select_related("active_revision")
    rows = listing.as_rows(found, can_edit=frame["can_edit"], seq=seq)
    if not rows:
        raise NotFound("Not found, or you don't have access.")
    return {
        **frame,
        "row": rows[0],
        "counts": listing.counts(principal, base),
        "filters": selection.Filters(),
        **more,
    }


@require_GET
@signed_in
def document_row(request: PortalRequest, principal: Principal, base: str, document: str) -> HttpResponse:
    """One row of the list, read again when its state has changed; nothing for a document that is deleted by now."""
    if Document.objects.filter(uid=document, base=access_base(principal, base), deleted_at__isnull=False).exists():
        return HttpResponse()
    home, row = open_document(principal, base, document)
    return render(request, "knowledge/document_row_fragment.html", row_context(principal, home, row))


@require_safe
@signed_in
def recycle_bin(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """The page at `/bases/{b}/recycle-bin/`."""
    row = access_base(principal, base, Role.EDITOR)
    rows = selection.binned(principal, row)
    context = {
        **base_frame(row, "documents"),
        "page": page_of(request, rows),
        "days": settings.ARCHWAY["RECYCLE_DAYS"],
        "problems": request.session.pop(PROBLEMS, []),
    }
    return render(request, "knowledge/recycle_bin.html", context)


@require_POST
@signed_in
def restore(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """Take documents out of the recycle bin; also the Undo of a delete. `ids` holds uids, with commas or repeated."""
    row = access_base(principal, base, Role.EDITOR)
    restored = 0
    # One field for all: Django takes at most 1,000 fields.
    for uid in ",".join(request.POST.getlist("ids")).split(",")[:2000]:
        document = _in_bin(principal, row, uid)
        try:
            verbs.restore(principal, document)
            restored += 1
        except ArchwayError as error:
            keep_problem(request, error)
    if restored:
        say(request, gettext("Restored"))
    bin_next = request.POST.get("to") == "bin"
    return HttpResponseRedirect(f"/bases/{row.uid}/{'recycle-bin' if bin_next else 'documents'}/")


@require_POST
@signed_in
def purge(request: PortalRequest, principal: Principal, base: str, document: str) -> HttpResponse:
    """Delete one document of the recycle bin for good."""
    row = access_base(principal, base, Role.EDITOR)
    found = _in_bin(principal, row, document)
    verbs.purge(principal, found)
    say(request, gettext("“%(name)s” is deleted for good") % {"name": found.name})
    return HttpResponseRedirect(f"/bases/{row.uid}/recycle-bin/")


def _in_bin(principal: Principal, base: KnowledgeBase, uid: str) -> Document:
    document = access_deleted_document(principal, uid)
    if document.base_id != base.pk:
        raise NotFound("Not found, or you don't have access.")
    return document
