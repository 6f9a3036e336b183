"""The evaluation set of a base: its cases, however they are added; and the questions that went unanswered."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_http_methods, require_POST

from knowledge import base_settings, threads
from knowledge.access import access_base, access_chunk
from knowledge.models import EvaluationCase, KnowledgeBase, Role
from knowledge.pages import evaluation_shown as shown
from knowledge.pages.evaluation_forms import CaseForm
from knowledge.pages.evaluation_pages import sub_frame
from knowledge.quality import cases, feedback, sheet, unanswered
from portal.kernel.errors import ArchwayError, Invalid, NotFound
from portal.kernel.middleware import PortalRequest
from portal.kernel.pages import back, is_htmx, page_of, say, signed_in
from portal.kernel.principal import Principal

_PROBLEMS_SHOWN = 100


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def case_list(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """The page at `/bases/{b}/evaluation/cases/?q=`; POST adds a case by hand."""
    row = access_base(principal, base, Role.EDITOR)
    start = {"question": request.GET.get("question", "").replace("\x00", "")[: cases.LONGEST_QUESTION]}
    form = CaseForm(request.POST) if request.method == "POST" else CaseForm(initial=start)
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            cases.add(principal, row, data["question"], [sheet.target_of(principal, row, data)])
            say(request, gettext("Added"))
            return HttpResponseRedirect(f"/bases/{row.uid}/evaluation/cases/")
        except ArchwayError as error:
            form.add_error(None, error.sentence())
    return _page(request, principal, row, form)


def _page(
    request: PortalRequest, principal: Principal, base: KnowledgeBase, form: CaseForm, **more: Any
) -> HttpResponse:
    rows = cases.visible_cases(principal).filter(base=base)
    term = request.GET.get("q", "").replace("\x00", "").strip()[:200]
    if term:
        rows = rows.filter(question__icontains=term)
    page = page_of(request, rows.order_by("-pk"), default=50)
    expected = shown.expected_of(principal, base, list(page.object_list))
    context = {
        **sub_frame(request, base, "cases"),
        "form": form,
        "term": term,
        "page": page,
        "rows": [(case, expected[case.pk]) for case in page.object_list],
        "open": bool(form.errors or form.initial.get("question")),
        **more,
    }
    return render(request, "knowledge/evaluation_cases.html", context, status=422 if form.errors else 200)


@require_POST
@signed_in
def upload(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """Cases from a CSV or JSONL file; rows that are wrong are told with their number, the others are kept."""
    row = access_base(principal, base, Role.EDITOR)
    file = request.FILES.get("file")
    try:
        if file is None:
            raise Invalid("Choose a file.", code="file_missing")
        if (file.size or 0) > sheet.MOST_BYTES:
            raise sheet.too_large()
        imported = sheet.import_file(principal, row, file.read(), file.name or "")
    except Invalid as error:
        return _page(request, principal, row, CaseForm(), upload_error=error.sentence())
    problems = [(item.row, item.sentence()) for item in imported.problems[:_PROBLEMS_SHOWN]]
    return _page(
        request,
        principal,
        row,
        CaseForm(),
        imported=imported,
        problem_rows=problems,
        more_problems=max(len(imported.problems) - _PROBLEMS_SHOWN, 0),
    )


def _case(principal: Principal, base: str, uid: str) -> tuple[KnowledgeBase, EvaluationCase]:
    row = access_base(principal, base, Role.EDITOR)
    case = cases.access_case(principal, uid)
    if case.base_id != row.pk:
        raise NotFound("Not found, or you don't have access.")
    return row, case


@require_POST
@signed_in
def change(request: PortalRequest, principal: Principal, base: str, case: str) -> HttpResponse:
    """Leave a case out of runs, ask it again, or delete it."""
    row, found = _case(principal, base, case)
    verb = request.POST.get("verb", "")
    if verb == "delete":
        cases.delete(principal, found)
        say(request, gettext("Deleted"))
    elif verb in {"enable", "disable"}:
        cases.enable(principal, found, verb == "enable")
    return back(request, f"/bases/{row.uid}/evaluation/cases/")


@require_POST
@signed_in
def save_hit(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """ "Save as case" of the hit test: the question with the passage as what is expected."""
    row = access_base(principal, base, Role.EDITOR)
    number = request.POST.get("chunk", "")
    if not number.isdecimal() or len(number) > 18:
        raise NotFound("Not found, or you don't have access.")
    target = cases.target_of_chunk(row, access_chunk(principal, int(number)))
    cases.mark(principal, row, request.POST.get("q", ""), [target], origin=EvaluationCase.Origin.HIT_TEST)
    if is_htmx(request):
        return render(request, "knowledge/evaluation_saved.html", {"base": row})
    say(request, gettext("Saved in the evaluation set"))
    return back(request, f"/bases/{row.uid}/evaluation/cases/")


@require_POST
@signed_in
def save_rated(request: PortalRequest, principal: Principal, thread: str, record: str) -> HttpResponse:
    """An answer that its asker finds helpful, as a case of the bases that they may edit; it rates it so."""
    threads.rate(principal, thread, record, True)
    number = feedback.save(principal, thread, record)
    if is_htmx(request):
        return render(request, "knowledge/evaluation_saved.html", {})
    say(request, ngettext("Saved in %(n)s evaluation set", "Saved in %(n)s evaluation sets", number) % {"n": number})
    return HttpResponseRedirect(f"/ask/{thread}/#m_{record}")


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def unanswered_list(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """The page at `/bases/{b}/evaluation/unanswered/?q=`, for those who manage the base; POST settles groups."""
    row = access_base(principal, base, Role.OWNER)
    if request.method == "POST":
        number = unanswered.settle(principal, row, request.POST.getlist("digest"))
        say(request, ngettext("%(n)s question settled", "%(n)s questions settled", number) % {"n": number})
        return HttpResponseRedirect(f"/bases/{row.uid}/evaluation/unanswered/")
    term = request.GET.get("q", "").replace("\x00", "").strip()[:200]
    page = Paginator(unanswered.groups(row, term), 50).get_page(request.GET.get("page"))
    context = {
        **sub_frame(request, row, "unanswered"),
        "term": term,
        "page": page,
        "rows": [
            (
                group,
                None if group.best is None else round(100 * group.best),
                urlencode({"title": group.question[:200]}),
                urlencode({"question": group.question}),
            )
            for group in page.object_list
        ],
        "quality": base_settings.read(row.config).quality,
        "percent": round(100 * base_settings.read(row.config).quality.unanswered_below),
        "keeps": base_settings.read(row.config).searching.log_queries,
    }
    return render(request, "knowledge/unanswered.html", context)
