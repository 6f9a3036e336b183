"""Buttons at a passage: one verb on it, the version that the person saw in the form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse, HttpResponseRedirect, QueryDict
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_POST

from knowledge.chunks import verbs
from knowledge.models import Chunk, Document, Revision, Role
from knowledge.pages.chunk_cards import Opened
from knowledge.pages.chunk_pages import keep_undo, page
from knowledge.pages.frame import open_document, open_revision
from portal.kernel.errors import ArchwayError, Conflict, Invalid, NotFound, Unavailable
from portal.kernel.middleware import PortalRequest
from portal.kernel.pages import say, signed_in
from portal.kernel.principal import Principal

Act = Callable[[Principal, Chunk, QueryDict, int], verbs.Change | None]


@dataclass(frozen=True, slots=True)
class Verb:
    """What a button does, what is said when it is done, and which panel is open again when it could not be."""

    act: Act
    said: Any
    panel: str = ""


def _text(data: QueryDict) -> str:
    return data.get("text", "").replace("\r\n", "\n")


def _number(data: QueryDict, name: str) -> int:
    raw = data.get(name, "")
    if not raw.isdecimal() or len(raw) > 9:
        raise Invalid("Choose one first.", code="nothing_chosen")
    return int(raw)


def _edit(principal: Principal, row: Chunk, data: QueryDict, version: int) -> verbs.Change | None:
    edit = verbs.edit_leaf if row.level == Chunk.Level.LEAF else verbs.edit
    return edit(principal, row, _text(data), version=version)


def _split(principal: Principal, row: Chunk, data: QueryDict, version: int) -> verbs.Change | None:
    return verbs.cut(principal, row, _number(data, "position"), version=version)


def _merge(principal: Principal, row: Chunk, data: QueryDict, version: int) -> verbs.Change | None:
    return verbs.merge(principal, row, version=version)


def _exclude(principal: Principal, row: Chunk, data: QueryDict, version: int) -> verbs.Change | None:
    return verbs.set_enabled(principal, row, False, version=version)


def _include(principal: Principal, row: Chunk, data: QueryDict, version: int) -> verbs.Change | None:
    return verbs.set_enabled(principal, row, True, version=version)


def _remove(principal: Principal, row: Chunk, data: QueryDict, version: int) -> verbs.Change | None:
    return verbs.remove(principal, row, version=version)


def _restore(principal: Principal, row: Chunk, data: QueryDict, version: int) -> verbs.Change | None:
    return verbs.restore(principal, row, _number(data, "to"), version=version)


def _add(principal: Principal, row: Chunk, data: QueryDict, version: int) -> verbs.Change | None:
    return verbs.add(principal, row.revision, _text(data), after=row)


VERBS = {
    "edit": Verb(_edit, gettext_lazy("Saved; searches find the new text"), "edit"),
    "split": Verb(_split, gettext_lazy("Split into two passages"), "split"),
    "merge": Verb(_merge, gettext_lazy("Merged with the next passage")),
    "exclude": Verb(_exclude, gettext_lazy("Searches no longer find it")),
    "include": Verb(_include, gettext_lazy("Searches find it again")),
    "remove": Verb(_remove, gettext_lazy("Removed; answers that cited it still open it")),
    "restore": Verb(_restore, gettext_lazy("The earlier version is back"), "history"),
    "add": Verb(_add, gettext_lazy("Added"), "add"),
}


@require_POST
@signed_in
def act(request: PortalRequest, principal: Principal, base: str, document: str, chunk: int, verb: str) -> HttpResponse:
    """One verb on one passage or leaf; back to the list, at that passage."""
    home, row = open_document(principal, base, document, Role.EDITOR)
    target = _open_chunk(row, chunk)
    passage = target.parent_id or target.pk
    try:
        change = VERBS[verb].act(principal, target, request.POST, _number(request.POST, "version"))
    except (Conflict, Invalid, Unavailable) as error:
        opened = _still_open(request, target, verb, error)
        return page(request, home, row, target.revision, opened, status=error.status)
    if change is None:
        say(request, gettext("Nothing has changed"))
        return _back(row, target.revision, passage)
    keep_undo(request, target.revision, change.uid, str(VERBS[verb].said))
    # Of a new passage the list opens at that one; of a removed one at the place where it was.
    at = change.chunks[-1] if verb == "add" else passage
    return _back(row, target.revision, at, _place_left(target) if verb == "remove" else None)


def _still_open(request: PortalRequest, target: Chunk, verb: str, error: ArchwayError) -> Opened:
    """The panel again with what was typed, so that nothing has to be written twice."""
    typed = _text(request.POST) if "text" in request.POST else None
    leaf = target.pk if target.level == Chunk.Level.LEAF else 0
    panel = "leaf" if leaf and verb == "edit" else VERBS[verb].panel
    return Opened(target.parent_id or target.pk, panel, leaf, error.sentence(), typed)


def _place_left(target: Chunk) -> int | None:
    rows = Chunk.objects.filter(revision_id=target.revision_id, level=Chunk.Level.PASSAGE)
    return rows.filter(ordinal__lte=target.ordinal).order_by("-ordinal").values_list("pk", flat=True).first()


@require_POST
@signed_in
def undo(request: PortalRequest, principal: Principal, base: str, document: str, number: int) -> HttpResponse:
    """Take the change back that the form names."""
    home, row = open_document(principal, base, document, Role.EDITOR)
    revision = _with_base(open_revision(row, number), row)
    try:
        done = verbs.undo(principal, revision, request.POST.get("change", "")[:16])
    except (Conflict, Unavailable) as error:
        return page(request, home, row, revision, Opened(problem=error.sentence()), status=error.status)
    keep_undo(request, revision, done.uid, gettext("Undone"))
    return _back(row, revision, done.chunks[0])


@require_POST
@signed_in
def add_first(request: PortalRequest, principal: Principal, base: str, document: str, number: int) -> HttpResponse:
    """A passage before all others."""
    home, row = open_document(principal, base, document, Role.EDITOR)
    revision = _with_base(open_revision(row, number), row)
    try:
        change = verbs.add(principal, revision, _text(request.POST))
    except (Conflict, Invalid, Unavailable) as error:
        opened = Opened(panel="first", problem=error.sentence(), typed=_text(request.POST))
        return page(request, home, row, revision, opened, status=error.status)
    keep_undo(request, revision, change.uid, str(VERBS["add"].said))
    return _back(row, revision, change.chunks[0])


def _open_chunk(document: Document, number: int) -> Chunk:
    """A passage or leaf of an open document by its number."""
    if number > 2**62:
        raise NotFound("Not found, or you don't have access.")
    rows = Chunk.objects.filter(pk=number, revision__document=document).select_related("revision")
    row = rows.defer("lexemes").first()
    if row is None:
        raise NotFound("Not found, or you don't have access.")
    row.revision = _with_base(row.revision, document)
    return row


def _with_base(revision: Revision, document: Document) -> Revision:
    revision.document = document
    return revision


def _back(document: Document, revision: Revision, passage: int, instead: int | None = None) -> HttpResponse:
    at = instead or passage
    home = f"/bases/{document.base.uid}/documents/{document.uid}/chunks/"
    return HttpResponseRedirect(f"{home}?rev={revision.number}&open={at}#k{at}")
