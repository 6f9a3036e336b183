"""The reader: a revision's text in parts, the cited passage marked where it stands, its pictures and its file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlencode

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.http import require_safe

from knowledge import files, moving
from knowledge.ingestion.blocks import ParsedDocument
from knowledge.ingestion.kept import parsed
from knowledge.models import Chunk, Document, KnowledgeBase, Revision
from knowledge.pages import rendering
from knowledge.pages.document_list import following
from knowledge.pages.frame import base_frame, newest_of, open_document, open_revision
from knowledge.pages.page_pictures import has_pictures
from knowledge.pages.passage_place import Span, as_cited, locate
from portal.kernel.errors import NotFound
from portal.kernel.middleware import PortalRequest
from portal.kernel.pages import safe_address, signed_in
from portal.kernel.principal import Principal

_CHUNK = re.compile(r"^c_(\d{1,18})$")
# Citations of one answer that the reader steps through.
MOST_STEPS = 50


@dataclass(frozen=True, slots=True)
class Citation:
    """What `?chunk=` asks for. Without `span` the passage is not in the text; `text` is then shown as cited.

    `since` says what became of the passage after it was cited: "changed", "removed", or nothing. `by_hand` is
    True for a version that a person wrote: the file itself does not say it.
    """

    anchor: str
    chunk: Chunk | None
    span: Span | None
    since: str = ""
    by_hand: bool = False

    @property
    def text(self) -> str:
        return self.chunk.text if self.chunk else ""


@dataclass(frozen=True, slots=True)
class Steps:
    """Citation `place` of `total`, with the addresses of the ones before and after."""

    place: int
    total: int
    before: str
    after: str


@require_safe
@signed_in
def reader(request: PortalRequest, principal: Principal, base: str, document: str) -> HttpResponse:
    """The page at `/bases/{b}/documents/{d}/?rev=3&chunk=c_81&part=2#c_81`."""
    try:
        home, row = open_document(principal, base, document)
    except NotFound:
        # Citations keep the address at which a document stood; it may have moved to another base since.
        now = moving.place_of(principal, base, document)
        if now is None:
            raise
        return HttpResponseRedirect(f"/bases/{now}/documents/{document}/?{request.GET.urlencode()}".rstrip("?"))
    topic, seq = following(home)
    newest = newest_of(row)
    cited = _chunk(row, request.GET.get("chunk", ""))
    revision = _revision(request, row, newest, cited)
    text = parsed(revision) if revision else None
    citation = _citation(request, cited, revision, text)
    context = {
        **base_frame(home, "documents"),
        "document": row,
        "revision": revision,
        "newest": newest,
        "is_newest": revision is not None and newest is not None and revision.pk == newest.pk,
        "active": row.active_revision,
        "citation": citation,
        "back_url": _back_url(request),
        "topic": topic,
        "after": seq,
        **_shown(request, home, row, revision, text, citation),
    }
    return render(request, "knowledge/reader.html", context)


def _chunk(document: Document, raw: str) -> Chunk | None:
    match = _CHUNK.match(raw)
    if match is None:
        return None
    found = Chunk.objects.filter(pk=int(match[1]), revision__document=document).select_related("revision", "parent")
    return found.defer("lexemes", "parent__lexemes").first()


def _revision(
    request: PortalRequest, document: Document, newest: Revision | None, cited: Chunk | None
) -> Revision | None:
    """The cited revision, the one of the address, the current one, the newest one: the first there is."""
    if cited is not None:
        return open_revision(document, cited.revision.number)
    if wanted := request.GET.get("rev"):
        return open_revision(document, wanted)
    return open_revision(document, document.active_revision.number) if document.active_revision else newest


def _citation(
    request: PortalRequest, chunk: Chunk | None, revision: Revision | None, text: ParsedDocument | None
) -> Citation | None:
    raw = request.GET.get("chunk", "")
    if not _CHUNK.match(raw):
        return None
    if chunk is None or revision is None:
        return Citation(raw, chunk, None)
    cited = as_cited(chunk, request.GET.get("v", ""))
    since = "removed" if chunk.level == Chunk.Level.GONE else "changed" if cited.version != chunk.version else ""
    span = locate(text.text, cited) if text is not None else None
    return Citation(raw, cited, span, since, by_hand=span is None and cited.version > 1)


def _shown(
    request: PortalRequest,
    base: KnowledgeBase,
    document: Document,
    revision: Revision | None,
    text: ParsedDocument | None,
    citation: Citation | None,
) -> dict[str, Any]:
    """The part that is shown, the outline, and where one can go from here."""
    if revision is None or text is None or not text.blocks:
        return {"html": "", "parts": [], "part": None, "outline": [], "steps": None}
    found = rendering.parts(text)
    number = _part_number(request, found, text, citation)
    marks = rendering.Marks([citation.span], citation.anchor) if citation and citation.span else rendering.Marks()
    home = f"/bases/{base.uid}/documents/{document.uid}/"

    def image_url(key: str) -> str:
        return f"{home}images/{key}/?rev={revision.number}"

    part = found[number - 1]
    steps = _steps(request, home, revision, citation)
    return {
        "html": rendering.part_html(part, marks, image_url),
        "parts": found,
        "part": part,
        "part_pages": _pages(part),
        "outline": rendering.outline(found),
        "query": urlencode(_kept(request, revision)),
        "steps": steps,
        "marked_here": bool(citation and citation.span and marks.touches(part.start, part.end)),
        "page_count": text.page_count if has_pictures(revision) else None,
        "picture": _picture(request, revision, text, citation, part),
    }


def _kept(request: PortalRequest, revision: Revision) -> dict[str, str]:
    """What links within the reader keep of the address."""
    kept = {"rev": str(revision.number)}
    for name in ("chunk", "v", "of", "back", "view"):
        if value := request.GET.get(name, "")[:500]:
            kept[name] = value
    return kept


def _part_number(
    request: PortalRequest, found: list[rendering.Part], text: ParsedDocument, citation: Citation | None
) -> int:
    wanted, page = request.GET.get("part", ""), request.GET.get("page", "")
    if wanted.isdecimal():
        return min(max(int(wanted[:6]), 1), len(found))
    if page.isdecimal():
        first = next((block for block in text.blocks if block.page and block.page >= int(page[:6])), None)
        return rendering.part_at(found, first.start) if first else 1
    return rendering.part_at(found, citation.span.start) if citation and citation.span else 1


def _pages(part: rendering.Part) -> tuple[int, int] | None:
    pages = [piece.block.page for piece in part.pieces if piece.block.page]
    return (min(pages), max(pages)) if pages else None


def _picture(
    request: PortalRequest,
    revision: Revision,
    text: ParsedDocument,
    citation: Citation | None,
    part: rendering.Part,
) -> dict[str, Any] | None:
    """Which page's picture is shown (`?view=page`), and the passage to mark on it."""
    if not has_pictures(revision) or request.GET.get("view") != "page" or not text.page_count:
        return None
    raw = request.GET.get("page", "")
    pages = _pages(part)
    if raw.isdecimal():
        page = int(raw[:6])
    elif citation and citation.chunk and citation.chunk.page:
        page = citation.chunk.page
    else:
        page = pages[0] if pages else 1
    page = min(max(page, 1), text.page_count)
    return {"page": page, "before": page - 1, "after": page + 1 if page < text.page_count else 0}


def _steps(request: PortalRequest, home: str, revision: Revision, citation: Citation | None) -> Steps | None:
    """Through the citations of one answer (`?of=c_1.c_7`), as far as they lie in this document's revision."""
    if citation is None:
        return None
    wanted = [match[1] for raw in request.GET.get("of", "").split(".")[:MOST_STEPS] if (match := _CHUNK.match(raw))]
    there = set(Chunk.objects.filter(revision=revision, pk__in=[int(pk) for pk in wanted]).values_list("pk", flat=True))
    anchors = list(dict.fromkeys(f"c_{pk}" for pk in wanted if int(pk) in there))
    if citation.anchor not in anchors or len(anchors) < 2:
        return None
    place = anchors.index(citation.anchor)

    def address(index: int) -> str:
        if not 0 <= index < len(anchors):
            return ""
        kept = {**_kept(request, revision), "chunk": anchors[index]}
        return f"{home}?{urlencode(kept)}#{anchors[index]}"

    return Steps(place + 1, len(anchors), address(place - 1), address(place + 1))


def _back_url(request: PortalRequest) -> str:
    wanted = request.GET.get("back", "")
    return wanted if wanted.startswith("/") and safe_address(request, wanted) else ""


@require_safe
@signed_in
def original(request: PortalRequest, principal: Principal, base: str, document: str) -> HttpResponse:
    """The file as it was uploaded, `?rev=` or the current one, as an attachment."""
    _, row = open_document(principal, base, document)
    # A streaming response, which Django's own types do not count among its HttpResponses.
    return cast(HttpResponse, files.download(_asked_revision(request, row)))


@require_safe
@signed_in
def image(request: PortalRequest, principal: Principal, base: str, document: str, key: str) -> HttpResponse:
    """A picture inside the document, for whoever may see the document; `?size=small` its thumbnail."""
    _, row = open_document(principal, base, document)
    small = request.GET.get("size") == "small"
    return cast(HttpResponse, files.image(_asked_revision(request, row), key, small=small))


def _asked_revision(request: PortalRequest, document: Document) -> Revision:
    wanted = request.GET.get("rev")
    if wanted:
        return open_revision(document, wanted)
    found = (
        open_revision(document, document.active_revision.number) if document.active_revision else newest_of(document)
    )
    if found is None:
        raise NotFound("Not found, or you don't have access.")
    return found
