"""The terms of a base: the list, adding, changing, deleting, a sheet in and out, and the work that follows."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext, gettext_lazy, ngettext
from django.views.decorators.http import require_POST, require_safe

from knowledge.access import access_base
from knowledge.models import KnowledgeBase, Role
from knowledge.pages import frame
from knowledge.pages.document_list import following
from knowledge.sources.question_sheets import RowProblem
from knowledge.terms import sheets, verbs
from knowledge.terms.conflicts import conflicts
from portal.kernel.errors import ArchwayError, Invalid
from portal.kernel.middleware import PortalRequest
from portal.kernel.pages import page_of, say, signed_in
from portal.kernel.principal import Principal

PER_PAGE = 50
CONFLICTS_SHOWN = 20
MOST_BYTES = 5 * 1024 * 1024
_CONFLICTS: dict[str, Any] = {
    "synonym_twice": gettext_lazy("“%(word)s” is a synonym of %(terms)s"),
    "term_is_synonym": gettext_lazy("“%(word)s” is a term of its own and a synonym of %(others)s"),
    "cycle": gettext_lazy("%(terms)s are synonyms of each other"),
}


@require_safe
@signed_in
def terms(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """The page at `/bases/{b}/terms/?q=&edit=`. Everybody sees the words; who may edit the base may change them."""
    return _page(request, access_base(principal, base))


def _page(request: HttpRequest, base: KnowledgeBase, **more: Any) -> HttpResponse:
    query = " ".join(request.GET.get("q", "").replace("\x00", "").split())[: verbs.LONGEST]
    topic, seq = following(base)
    found = page_of(request, verbs.terms_of(base, query), default=PER_PAGE)
    clashes = conflicts(verbs.terms_of(base))
    context = {
        **frame.base_frame(base, "terms"),
        "page": found,
        "query": query,
        "edit": request.GET.get("edit", ""),
        "total": verbs.terms_of(base).count(),
        "conflicts": [_sentence(one.kind, one.word, one.terms) for one in clashes[:CONFLICTS_SHOWN]],
        "more_conflicts": max(len(clashes) - CONFLICTS_SHOWN, 0),
        "work": verbs.last_change(base),
        "topic": topic,
        "after": seq,
        **more,
    }
    return render(request, "knowledge/terms.html", context, status=422 if more.get("problem") else 200)


def _sentence(kind: str, word: str, names: tuple[str, ...]) -> str:
    quoted = [f"“{name}”" for name in names]
    return str(_CONFLICTS[kind]) % {"word": word, "terms": ", ".join(quoted), "others": ", ".join(quoted[1:])}


@require_POST
@signed_in
def change(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """`verb` is add, change or delete; `term` names the row, `text`, `synonyms` and `weight` what it becomes."""
    home = access_base(principal, base, Role.EDITOR)
    data = request.POST
    verb, uid = data.get("verb", ""), data.get("term", "")
    try:
        said = _change(principal, home, verb, uid, request)
    except ArchwayError as error:
        if error.code == "not_found":
            raise
        return _page(request, home, problem=error.sentence(), problem_term=uid, typed=data)
    say(request, said)
    return HttpResponseRedirect(f"/bases/{home.uid}/terms/")


def _change(principal: Principal, base: KnowledgeBase, verb: str, uid: str, request: PortalRequest) -> str:
    data = request.POST
    if verb == "delete":
        uids = data.getlist("term")
        deleted = verbs.delete(principal, base, uids)
        return ngettext("%(n)s term is deleted", "%(n)s terms are deleted", deleted) % {"n": deleted}
    try:
        weight = float(data.get("weight", "1").replace(",", ".") or "1")
    except ValueError:
        weight = float("nan")
    new = verbs.wanted(data.get("text", ""), sheets.cut(data.get("synonyms", "")), weight)
    if verb == "add":
        return gettext("“%(name)s” is a term now") % {"name": verbs.add(principal, base, new).text}
    if verb == "change":
        verbs.change(principal, base, verbs.find(base, uid), new)
        return gettext("Saved")
    raise Invalid("Choose what to do with the term.", code="verb_unknown")


@require_POST
@signed_in
def take_over(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """Terms from a sheet; rows that can not be used are listed, the others hold."""
    home = access_base(principal, base, Role.EDITOR)
    upload = request.FILES.get("file")
    problems: tuple[RowProblem, ...] = ()
    try:
        if upload is None:
            raise Invalid("Choose a file first.", code="file_missing")
        if (upload.size or 0) > MOST_BYTES:
            raise Invalid("A sheet of terms is at most %(n)s MB large.", code="too_large", n=5)
        with tempfile.TemporaryDirectory(prefix="archway-terms-") as folder:
            path = Path(folder) / "sheet"
            path.write_bytes(upload.read())
            sheet = sheets.read_sheet(path, upload.name or "terms.csv")
        problems = sheet.problems
        taken = 0
        if sheet.terms:
            taken = verbs.take_over(principal, home, sheet.terms, replace=request.POST.get("replace") == "on")
    except ArchwayError as error:
        return _page(request, home, problem=error.sentence(), problem_term="sheet")
    said = ngettext("%(n)s term taken over", "%(n)s terms taken over", taken) % {"n": taken}
    if problems:
        return _page(request, home, row_problems=problems[:100], taken=said)
    say(request, said)
    return HttpResponseRedirect(f"/bases/{home.uid}/terms/")


@require_safe
@signed_in
def sheet(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """All terms as a CSV file that can be taken over again."""
    home = access_base(principal, base)
    answer = HttpResponse("\ufeff" + sheets.as_csv(verbs.terms_of(home)), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="terms.csv"'
    return answer
