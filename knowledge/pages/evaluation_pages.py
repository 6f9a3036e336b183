"""The evaluation of a base: charts and runs, one run beside another, one case, what waits at the gate."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from knowledge import background, base_settings
from knowledge.access import access_base
from knowledge.models import CaseResult, EvaluationRun, KnowledgeBase, Role
from knowledge.pages import evaluation_shown as shown
from knowledge.pages import frame
from knowledge.pages.document_list import following
from knowledge.pages.evaluation_forms import RunForm
from knowledge.quality import gate, runs
from knowledge.quality.cases import access_case
from portal.kernel.errors import ArchwayError, Conflict, Invalid, NotFound
from portal.kernel.middleware import PortalRequest
from portal.kernel.pages import page_of, say, signed_in
from portal.kernel.principal import Principal


def sub_frame(request: PortalRequest, base: KnowledgeBase, part: str) -> dict[str, Any]:
    """What the pages of this tab share: the part that is open, and problems that wait to be told."""
    return {
        **frame.base_frame(base, "evaluation"),
        "part": part,
        "problems": request.session.pop(frame.PROBLEMS, []),
        "counts": runs.counts(base),
    }


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def evaluation(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """The page at `/bases/{b}/evaluation/`; POST starts a run."""
    row = access_base(principal, base, Role.EDITOR)
    form = RunForm(request.POST) if request.method == "POST" else RunForm()
    if request.method == "POST" and form.is_valid():
        try:
            run = runs.start(principal, row, form.variants(), label=form.cleaned_data["label"])
            return HttpResponseRedirect(f"/bases/{row.uid}/evaluation/{run.uid}/")
        except (Invalid, Conflict) as error:
            form.add_error(None, error.sentence())
    topic, seq = following(row)
    rows = runs.visible_runs(principal).filter(base=row).select_related("created_by").order_by("-pk")
    page = page_of(request, rows, default=20)
    context = {
        **sub_frame(request, row, "runs"),
        "form": form,
        "charts": shown.charts_of(row, base_settings.read(row.config).searching.mode),
        "page": page,
        "rows": [(run, shown.lines_of(run), shown.why_of(run)) for run in page.object_list],
        "waiting": gate.waiting(row),
        "few": shown.FEW,
        "topic": topic,
        "after": seq,
    }
    return render(request, "knowledge/evaluation.html", context, status=422 if form.errors else 200)


def _open(principal: Principal, base: str, uid: str) -> tuple[KnowledgeBase, EvaluationRun]:
    row = access_base(principal, base, Role.EDITOR)
    run = runs.access_run(principal, uid)
    if run.base_id != row.pk:
        raise NotFound("Not found, or you don't have access.")
    return row, run


def _baseline(request: PortalRequest, principal: Principal, base: KnowledgeBase, run: EvaluationRun) -> Any:
    """The run that `?with=` names; otherwise the finished one before this; None for "none" and for the gate's."""
    wanted = request.GET.get("with", "")
    if run.purpose == EvaluationRun.Purpose.GATE or wanted == "none":
        return None
    rows = runs.visible_runs(principal).filter(base=base, status=EvaluationRun.Status.DONE, purpose="manual")
    if wanted:
        return rows.filter(uid=wanted).exclude(pk=run.pk).first()
    return rows.filter(pk__lt=run.pk).order_by("-pk").first()


@require_safe
@signed_in
def run_page(request: PortalRequest, principal: Principal, base: str, evaluation: str) -> HttpResponse:
    """One run at `/bases/{b}/evaluation/{run}/?with=&variant=&show=`, beside a baseline."""
    row, run = _open(principal, base, evaluation)
    topic, seq = following(row)
    other = _baseline(request, principal, row, run)
    names = [item["name"] for item in run.variants]
    is_gate = run.purpose == EvaluationRun.Purpose.GATE
    default = "after" if is_gate else base_settings.read(row.config).searching.mode
    variant = request.GET.get("variant", default)
    variant = variant if variant in names else names[0]
    show = request.GET.get("show", "all")
    show = show if show in shown.SHOWS else "all"
    compared = (run, "before") if is_gate and variant == "after" else (other, variant)
    ranked = shown.ranked_cases(run, variant, compared[0], compared[1], show)
    number = request.GET.get("page", "1")
    listed, page = _paged(ranked, number)
    expected = shown.expected_of(principal, row, [item.case for item in listed])
    context = {
        **sub_frame(request, row, "runs"),
        "run": run,
        "why": shown.why_of(run),
        "lines": shown.lines_of(run, other),
        "measures": list(shown.MEASURE_NAMES.values()),
        "names": [(name, shown.name_of(name)) for name in names],
        "variant": variant,
        "show": show,
        "other": other,
        "others": _others(principal, row, run),
        "ranked": [(item, expected[item.case.pk]) for item in listed],
        "page": page,
        "is_gate": is_gate,
        "held": is_gate and run.verdict == EvaluationRun.Verdict.WORSE and not run.applied,
        "fall": gate.fall(run) if is_gate and not run.is_open else 0,
        "quality": base_settings.read(row.config).quality,
        "changes": _changes(run),
        "few": shown.FEW,
        "topic": topic,
        "after": seq,
    }
    return render(request, "knowledge/evaluation_run.html", context)


def _paged(rows: list[Any], number: str) -> tuple[list[Any], Any]:
    from django.core.paginator import Paginator

    page = Paginator(rows, 50).get_page(number)
    return list(page.object_list), page


def _others(principal: Principal, base: KnowledgeBase, run: EvaluationRun) -> list[EvaluationRun]:
    rows = runs.visible_runs(principal).filter(base=base, status=EvaluationRun.Status.DONE, purpose="manual")
    return list(rows.exclude(pk=run.pk).order_by("-pk")[:30])


def _changes(run: EvaluationRun) -> list[tuple[str, Any, Any]]:
    """What a run of the gate tries: field, value before, value after."""
    candidate = run.candidate
    if not candidate or candidate["section"] == "model":
        return []
    section, after = candidate["section"], candidate["values"]
    settings: dict[str, Any] = next((row["settings"] for row in run.variants if row["name"] == "before"), {})
    before = settings.get("sections", {}).get(section) or run.conditions.get(section, {})
    return [(name, before.get(name), value) for name, value in after.items() if before.get(name) != value]


@require_safe
@signed_in
def case_page(request: PortalRequest, principal: Principal, base: str, evaluation: str, case: str) -> HttpResponse:
    """One case of a run: what is expected, and what each variant found at which rank, beside the baseline's."""
    row, run = _open(principal, base, evaluation)
    found = access_case(principal, case)
    if found.base_id != row.pk:
        raise NotFound("Not found, or you don't have access.")
    other = _baseline(request, principal, row, run)
    results = {item.variant: item for item in CaseResult.objects.filter(run=run, case=found)}
    earlier = {item.variant: item for item in CaseResult.objects.filter(run=other, case=found)} if other else {}
    columns = [
        {
            "label": shown.name_of(item["name"]),
            "result": results.get(item["name"]),
            "found": shown.found_of(principal, row, results.get(item["name"])),
            "before": earlier.get(item["name"]),
            "before_found": shown.found_of(principal, row, earlier.get(item["name"])),
            "mode": item["mode"],
        }
        for item in run.variants
    ]
    context = {
        **sub_frame(request, row, "runs"),
        "run": run,
        "other": other,
        "case": found,
        "expected": shown.expected_of(principal, row, [found])[found.pk],
        "columns": columns,
    }
    return render(request, "knowledge/evaluation_case.html", context)


@require_POST
@signed_in
def cancel(request: PortalRequest, principal: Principal, base: str, evaluation: str) -> HttpResponse:
    """Stop a run; what was measured so far stays."""
    row, run = _open(principal, base, evaluation)
    try:
        background.cancel(principal, run)
        say(request, gettext("Asked to stop"))
    except Conflict as error:
        frame.keep_problem(request, error)
    return HttpResponseRedirect(f"/bases/{row.uid}/evaluation/{run.uid}/")


@require_POST
@signed_in
def decide(request: PortalRequest, principal: Principal, base: str, evaluation: str) -> HttpResponse:
    """Save a held change anyway, with a reason, or drop it; for those who manage the base."""
    row, run = _open(principal, base, evaluation)
    access_base(principal, base, Role.OWNER)
    try:
        if request.POST.get("decision") == "save":
            gate.overrule(principal, run, request.POST.get("reason", ""))
            say(request, gettext("Saved anyway"))
        else:
            gate.drop(principal, run)
            say(request, gettext("The settings stay as they are"))
    except ArchwayError as error:
        frame.keep_problem(request, error)
    return HttpResponseRedirect(f"/bases/{row.uid}/evaluation/{run.uid}/")
