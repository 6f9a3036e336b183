"""Buttons of the document list: one verb on one row, or on many with a stated scope."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.utils.translation import gettext, gettext_lazy, ngettext
from django.views.decorators.http import require_POST

from knowledge import documents as verbs
from knowledge import lifecycle
from knowledge.access import access_base, visible_documents
from knowledge.models import Document, KnowledgeBase, Role
from knowledge.pages import frame, listing
from knowledge.pages.document_list import row_context
from portal.kernel.errors import ArchwayError, Conflict, Invalid
from portal.kernel.middleware import PortalRequest
from portal.kernel.pages import back, is_htmx, say, signed_in
from portal.kernel.principal import Principal

# One request changes at most so many documents; each is a transaction of its own.
MOST_AT_ONCE = 2_000


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


# -- many at once ---------------------------------------------------------------------------------


def _tagger(data: QueryDict) -> Callable[[Principal, Document], None]:
    tags = [tag.strip()[:60] for tag in data.get("tag", "").replace("，", ",").split(",") if tag.strip()]
    if not tags:
        raise Invalid("Write the tag first.", code="tag_missing")
    drop = data.get("verb") == "untag"

    def tag(principal: Principal, document: Document) -> None:
        kept = [one for one in document.tags if one not in tags] if drop else [*document.tags, *tags]
        if kept != document.tags:
            verbs.describe(principal, document, tags=kept)

    return tag


def _verb(name: str) -> Callable[[Principal, Document], None]:
    if name not in VERBS:
        raise Invalid("Choose what to do with the documents.", code="verb_unknown")
    return VERBS[name].act


@require_POST
@signed_in
def bulk(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """One verb on the ticked documents (`scope=ids`), or on all that a filter matches but some (`scope=all`)."""
    home = access_base(principal, base, Role.EDITOR)
    verb = request.POST.get("verb", "")
    try:
        act_on = _tagger(request.POST) if verb in {"tag", "untag"} else _verb(verb)
        chosen = list(selected(principal, home, request.POST)[: MOST_AT_ONCE + 1])
        if len(chosen) > MOST_AT_ONCE:
            raise Invalid("Choose at most %(n)s documents at once.", code="too_many", n=MOST_AT_ONCE)
    except (Conflict, Invalid) as error:
        frame.keep_problem(request, error)
        return back(request, f"/bases/{home.uid}/documents/")
    done: list[Document] = []
    problems: list[str] = []
    for document in chosen:
        try:
            act_on(principal, document)
            done.append(document)
        except ArchwayError as error:
            problems.append(f"{document.name}: {error.sentence()}")
    _say_outcome(request, home, verb, done, problems)
    return back(request, f"/bases/{home.uid}/documents/")


def selected(principal: Principal, base: KnowledgeBase, data: QueryDict) -> Any:
    """The documents that a bulk form names. `Conflict` when more match now than the person was shown."""
    rows = visible_documents(principal, Role.EDITOR).filter(base=base).select_related("base", "active_revision")
    if data.get("scope") != "all":
        return rows.filter(uid__in=data.getlist("ids"))
    filters = listing.Filters.of(QueryDict(data.get("filter", "")))
    matching = listing.matching(principal, base, filters)
    expected = data.get("expected", "")
    if not expected.isdecimal() or matching.count() > int(expected[:9]):
        raise Conflict(
            "More documents match now than when you chose them; look at the list again.", code="list_changed"
        )
    excluded = data.getlist("exclude")
    return rows.filter(pk__in=matching.exclude(uid__in=excluded).order_by().values("pk"))


def _say_outcome(
    request: PortalRequest, base: KnowledgeBase, verb: str, done: list[Document], problems: list[str]
) -> None:
    if done and verb == "delete":
        text = frame.moved_to_bin(len(done), done[0].name)
        frame.keep_undo(request, base, [document.uid for document in done], text)
    elif done:
        say(request, ngettext("Done for %(n)s document", "Done for %(n)s documents", len(done)) % {"n": len(done)})
    elif not problems:
        problems = [gettext("No document was chosen.")]
    if len(problems) > 10:
        more = len(problems) - 10
        problems = [*problems[:10], ngettext("And %(n)s more.", "And %(n)s more.", more) % {"n": more}]
    frame.keep_problems(request, problems)
