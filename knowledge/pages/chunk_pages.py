"""Chunks of a document as they are searched, with a panel at each passage to change it; and the end of a review."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Q, QuerySet
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from knowledge import lifecycle
from knowledge.models import Chunk, Document, KnowledgeBase, Revision, Role
from knowledge.pages import parse_warnings
from knowledge.pages.chunk_cards import Opened, cards, opened_of
from knowledge.pages.document_list import following
from knowledge.pages.frame import base_frame, keep_problem, newest_of, open_document, open_revision
from portal.kernel.errors import Conflict, NotFound
from portal.kernel.middleware import PortalRequest
from portal.kernel.pages import page_of, say, signed_in
from portal.kernel.principal import Principal

VERBS = ("confirm", "send-back")
UNDO = "chunk_undo"
PER_PAGE = 20
SHOWN: tuple[tuple[str, Any], ...] = (
    ("", gettext_lazy("All")),
    ("edited", gettext_lazy("Changed by hand")),
    ("excluded", gettext_lazy("Excluded")),
    ("removed", gettext_lazy("Removed")),
)


def asked_revision(request: PortalRequest, document: Document) -> Revision:
    """The revision of `?rev=`, else the newest one."""
    wanted = request.GET.get("rev")
    found = open_revision(document, wanted) if wanted else newest_of(document)
    if found is None:
        raise NotFound("Not found, or you don't have access.")
    return found


@require_safe
@signed_in
def chunks(request: PortalRequest, principal: Principal, base: str, document: str) -> HttpResponse:
    """The page at `…/chunks/?rev=&q=&show=&page=`; `open=81&panel=edit` opens a panel at a passage."""
    home, row = open_document(principal, base, document)
    return page(request, home, row, asked_revision(request, row), opened_of(request.GET))


def page(
    request: PortalRequest,
    home: KnowledgeBase,
    document: Document,
    revision: Revision,
    opened: Opened,
    status: int = 200,
) -> HttpResponse:
    """The list of a revision's passages, with what is open and what was wrong."""
    topic, seq = following(home)
    frame = base_frame(home, "documents")
    query = " ".join(request.GET.get("q", "").replace("\x00", "").split())[:200]
    show = request.GET.get("show", "")
    rows = _shown(revision, query, show)
    number = _page_of_opened(request, rows, opened)
    found = page_of(request, rows.annotate(leaf_count=Count("leaves")), default=PER_PAGE)
    if number is not None:
        found = found.paginator.get_page(number)
    editable = frame["can_edit"] and _is_editable(document, revision)
    if not editable and opened.panel not in ("history", "leaves"):
        opened = Opened(opened.chunk)
    context = {
        **frame,
        "document": document,
        "revision": revision,
        "page": found,
        "cards": cards(revision, list(found), opened),
        "opened": opened,
        "query": query,
        "show": show,
        "shows": SHOWN,
        "figures": _figures(revision),
        "editable": editable,
        "undo": _pop_undo(request, revision) if editable else None,
        "warnings": [parse_warnings.sentence(warning) for warning in revision.warnings],
        "last": Chunk.objects.filter(revision=revision, level=Chunk.Level.PASSAGE).count() - 1,
        "topic": topic,
        "after": seq,
    }
    return render(request, "knowledge/chunks.html", context, status=status)


def _shown(revision: Revision, query: str, show: str) -> QuerySet[Chunk]:
    level = Chunk.Level.GONE if show == "removed" else Chunk.Level.PASSAGE
    rows = Chunk.objects.filter(revision=revision, level=level).defer("lexemes").order_by("ordinal")
    if query:
        rows = rows.filter(text__icontains=query)
    if show == "edited":
        rows = rows.filter(version__gt=1) | rows.filter(versions__number=1, versions__verb__in=["add", "cut"])
        rows = rows.distinct()
    elif show == "excluded":
        rows = rows.filter(Q(enabled=False) | Q(leaves__enabled=False)).distinct()
    return rows


def _page_of_opened(request: PortalRequest, rows: QuerySet[Chunk], opened: Opened) -> int | None:
    """The page on which the opened passage stands, unless the address names one."""
    if not opened.chunk or request.GET.get("page"):
        return None
    ordinal = rows.filter(pk=opened.chunk).values_list("ordinal", flat=True).first()
    if ordinal is None:
        return None
    raw = request.GET.get("size", "")
    size = int(raw) if raw in ("20", "50", "100") else PER_PAGE
    return rows.filter(ordinal__lt=ordinal).count() // size + 1


def _is_editable(document: Document, revision: Revision) -> bool:
    if revision.status == Revision.Status.REVIEW:
        return True
    busy = document.revisions.filter(status__in=[*lifecycle.OPEN, Revision.Status.REVIEW]).exists()
    return document.active_revision_id == revision.pk and revision.status == Revision.Status.INDEXED and not busy


def _figures(revision: Revision) -> dict[str, int]:
    rows = Chunk.objects.filter(revision=revision)
    return rows.aggregate(
        passages=Count("pk", filter=Q(level=Chunk.Level.PASSAGE)),
        leaves=Count("pk", filter=Q(level=Chunk.Level.LEAF)),
        excluded=Count("pk", filter=Q(level=Chunk.Level.PASSAGE, enabled=False)),
    )


def keep_undo(request: PortalRequest, revision: Revision, change: str, text: str) -> None:
    """Offer to take a change back, once, on the next list of this revision."""
    request.session[UNDO] = {"revision": revision.uid, "change": change, "text": text}


def _pop_undo(request: PortalRequest, revision: Revision) -> dict[str, Any] | None:
    kept: dict[str, Any] | None = request.session.pop(UNDO, None)
    return kept if kept and kept["revision"] == revision.uid else None


@require_POST
@signed_in
def decide(request: PortalRequest, principal: Principal, base: str, document: str, verb: str) -> HttpResponse:
    """End a review: `confirm` lets the newest revision go on, `send-back` stops it."""
    home, row = open_document(principal, base, document, Role.EDITOR)
    revision = asked_revision(request, row)
    address = f"/bases/{home.uid}/documents/"
    try:
        if verb == "confirm":
            lifecycle.confirm(principal, revision)
            say(request, gettext("Approved; it will be searchable in a moment"))
        else:
            lifecycle.cancel(principal, revision)
            say(request, gettext("Sent back; it is not indexed"))
    except Conflict as error:
        keep_problem(request, error)
    return HttpResponseRedirect(address)
