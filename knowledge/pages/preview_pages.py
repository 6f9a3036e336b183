"""Trying another split of a document, with what it would lose; then doing it, without another upload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from knowledge import base_settings, lifecycle
from knowledge.chunks.preview import Preview, as_searched, by_hand, preview
from knowledge.ingestion.split import Leaf, Passage
from knowledge.models import Document, KnowledgeBase, Revision, Role
from knowledge.pages import parse_warnings
from knowledge.pages.chunk_pages import asked_revision
from knowledge.pages.frame import base_frame, open_document
from knowledge.pages.picture_strips import Strip, strips
from knowledge.pages.setting_forms import SplitForm
from portal.kernel.errors import Conflict, Invalid
from portal.kernel.middleware import PortalRequest
from portal.kernel.pages import say, signed_in
from portal.kernel.principal import Principal

PER_PAGE = 20
SHOWN_CHARS = 1_200


@dataclass(frozen=True, slots=True)
class Shown:
    """A passage of the preview, each leaf with what words and vectors would be made of."""

    passage: Passage
    leaves: tuple[tuple[Leaf, str], ...]
    pictures: Strip | None = None

    @property
    def text(self) -> str:
        """The beginning of the passage; a table is cut between two rows."""
        text = self.passage.text
        if len(text) <= SHOWN_CHARS:
            return text
        start = text[:SHOWN_CHARS]
        line = start.rfind("\n")
        return start[:line] + "\n…" if start[line + 1 :].startswith("|") and line > 0 else start + "…"


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def preview_page(request: PortalRequest, principal: Principal, base: str, document: str) -> HttpResponse:
    """The page at `…/chunks/preview/?rev=&mode=…&page=`; POST splits the document that way."""
    posted = request.method == "POST"
    previewing = posted and request.POST.get("do") == "preview"
    home, row = open_document(principal, base, document, Role.EDITOR if posted and not previewing else Role.VIEWER)
    revision = asked_revision(request, row)
    if previewing:
        return HttpResponseRedirect(_preview_address(request, revision))
    if posted:
        return _apply(request, principal, home, row, revision)
    form = SplitForm(request.GET) if "mode" in request.GET else _as_it_is(revision)
    return _page(request, home, row, revision, form)


def _as_it_is(revision: Revision) -> SplitForm:
    """A bound form of the revision's own settings, so that the first look shows what is."""
    values = base_settings.read(revision.config).splitting.model_dump()
    form = SplitForm(initial=values)
    data = {
        name: form.fields[name].prepare_value(value) if isinstance(value, list) else value
        for name, value in values.items()
        if name in form.fields and value is not False
    }
    return SplitForm(data)


def _shown(revision: Revision, found: Preview | None, passages: list[Passage]) -> list[Shown]:
    """The passages of one page of the preview. Their pictures have places in the text as it is, not cleaned up anew."""
    same_text = found is not None and not found.removed
    pictures = strips(revision, [(one.ordinal, one.start, one.end) for one in passages] if same_text else [])
    return [
        Shown(one, tuple(zip(one.leaves, as_searched(revision, one), strict=True)), pictures.get(one.ordinal))
        for one in passages
    ]


def _page(
    request: PortalRequest,
    home: KnowledgeBase,
    document: Document,
    revision: Revision,
    form: SplitForm,
    problem: str = "",
    status: int = 200,
) -> HttpResponse:
    found: Preview | None = None
    if form.is_valid():
        try:
            found = preview(revision, form.cleaned_data)
        except Invalid as error:
            form.add_error(None, error.sentence())
        except Conflict as error:
            problem = problem or error.sentence()
    paginator = Paginator(found.passages if found else (), PER_PAGE)
    page = paginator.get_page(request.GET.get("page"))
    context = {
        **base_frame(home, "documents"),
        "document": document,
        "revision": revision,
        "form": form,
        "preview": found,
        "page": page,
        "shown": _shown(revision, found, list(page)),
        "by_hand": found if found else by_hand(revision, None),
        "warnings": [parse_warnings.sentence(warning) for warning in revision.warnings],
        "problem": problem,
        "may_apply": _may_apply(document, revision),
        "in_review": revision.status == Revision.Status.REVIEW,
        "address": _address(document, revision),
    }
    bad = bool(form.errors) and status == 200 and "mode" in request.GET
    return render(request, "knowledge/preview.html", context, status=422 if bad else status)


def _may_apply(document: Document, revision: Revision) -> bool:
    if revision.status == Revision.Status.REVIEW:
        return True
    return not document.revisions.filter(status__in=[*lifecycle.OPEN, Revision.Status.REVIEW]).exists()


def _apply(
    request: PortalRequest, principal: Principal, home: KnowledgeBase, document: Document, revision: Revision
) -> HttpResponse:
    """Split for good: in the review it waits for, or as a new revision of an indexed document."""
    form = SplitForm(request.POST)
    discard = request.POST.get("discard") == "yes"
    if not form.is_valid():
        return _page(request, home, document, revision, form, status=422)
    values: dict[str, Any] = form.cleaned_data
    try:
        if revision.status == Revision.Status.REVIEW:
            lifecycle.resplit(principal, revision, values, discard_edits=discard)
            say(request, gettext("It is split again, and waits for your review"))
        else:
            review = request.POST.get("review") == "yes"
            as_base = request.POST.get("as_base") == "yes"
            revision = lifecycle.reindex(
                principal,
                document,
                splitting=None if as_base else values,
                as_base=as_base,
                review=review,
                discard_edits=discard,
            )
            say(request, gettext("Queued as a new revision"))
    except (Conflict, Invalid) as error:
        return _page(request, home, document, revision, form, error.sentence(), status=error.status)
    return HttpResponseRedirect(_address(document, revision))


def _preview_address(request: PortalRequest, revision: Revision) -> str:
    """What was chosen as an address, so that a preview can be paged, kept and sent to somebody."""
    data = SplitForm(request.POST)
    chosen = [(name, value) for name in data.fields for value in request.POST.getlist(name) if value]
    return "?" + urlencode([("rev", str(revision.number)), *chosen]) + "#preview"


def _address(document: Document, revision: Revision) -> str:
    home = f"/bases/{document.base.uid}/documents/{document.uid}/chunks/"
    return f"{home}?{urlencode({'rev': revision.number})}"
