"""Web sources of a base: the list, a new one, one with its runs and pages, its settings, and its verbs."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from knowledge.access import access_base, access_source, visible_sources
from knowledge.models import KnowledgeBase, Role, Source, SourcePage, SourceRun
from knowledge.pages.frame import base_frame, keep_problem
from knowledge.pages.source_forms import NewSourceForm, SourceSettingsForm, settings_of
from knowledge.sources import runs, verbs
from portal.kernel.errors import ArchwayError, NotFound, sentence_of
from portal.kernel.middleware import PortalRequest
from portal.kernel.pages import page_of, say, signed_in
from portal.kernel.principal import Principal

VERBS = ("sync", "cancel", "delete")
FIELD_OF = {"patterns_invalid": "include", "tags_invalid": "tags", "metadata_invalid": "metadata"}
RUNS_SHOWN, PROBLEMS_SHOWN = 20, 50
# status of a run -> (tone of its badge, icon)
TONES = {
    "queued": ("", "clock"),
    "running": ("info", "working"),
    "done": ("ok", "check-circle"),
    "failed": ("bad", "cross-circle"),
    "cancelled": ("", "stop"),
}
COUNTED = (
    ("new", gettext_lazy("new")),
    ("changed", gettext_lazy("changed")),
    ("unchanged", gettext_lazy("unchanged")),
    ("gone", gettext_lazy("gone")),
    ("failed", gettext_lazy("failed")),
    ("skipped", gettext_lazy("left out")),
    ("over_limit", gettext_lazy("over the limit")),
)


def _home(base: KnowledgeBase) -> str:
    return f"/bases/{base.uid}/sources/"


def _one(principal: Principal, base_uid: str, uid: str) -> tuple[KnowledgeBase, Source]:
    """The base and a source of exactly this base."""
    base = access_base(principal, base_uid)
    source = access_source(principal, uid)
    if source.base_id != base.pk:
        raise NotFound("Not found, or you don't have access.")
    return access_base(principal, base_uid, Role.EDITOR), source


def shown_run(run: SourceRun | None) -> dict[str, Any] | None:
    """A run as the templates show it."""
    if run is None:
        return None
    tone, icon = TONES[run.status]
    return {
        "row": run,
        "tone": tone,
        "icon": icon,
        "open": run.status in SourceRun.OPEN,
        "counts": [(label, run.counts[name]) for name, label in COUNTED if run.counts.get(name)],
        "reason": sentence_of(run.error_message, run.error_params),
    }


@require_safe
@signed_in
def sources(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """The page at `/bases/{b}/sources/`."""
    row = access_base(principal, base, Role.EDITOR)
    newest = SourceRun.objects.filter(source=OuterRef("pk")).order_by("-number").values("pk")[:1]
    kept = Count("pages", filter=Q(pages__document__isnull=False, pages__document__deleted_at__isnull=True))
    rows = (
        visible_sources(principal).filter(base=row).annotate(newest=Subquery(newest), kept=kept).order_by("name", "id")
    )
    page = page_of(request, rows)
    last = {run.pk: run for run in SourceRun.objects.filter(pk__in=[source.newest for source in page.object_list])}
    shown = [(source, shown_run(last.get(source.newest))) for source in page.object_list]
    context = {
        **base_frame(row, "sources"),
        "page": page,
        "rows": shown,
        "busy": any(run and run["open"] for _, run in shown),
        "problems": request.session.pop("document_problems", []),
    }
    return render(request, "knowledge/sources.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_source(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """The form at `/bases/{b}/sources/new/`; saving it starts the first synchronisation."""
    row = access_base(principal, base, Role.EDITOR)
    form = NewSourceForm(request.POST) if request.method == "POST" else NewSourceForm(initial=NewSourceForm.defaults())
    if request.method == "POST" and form.is_valid():
        try:
            source = verbs.create(principal, row, **form.values())
        except ArchwayError as error:
            form.add_error(FIELD_OF.get(error.code, "url"), error.sentence())
        else:
            say(request, gettext("Synchronising has started"))
            return HttpResponseRedirect(f"{_home(row)}{source.uid}/")
    context = {**base_frame(row, "sources"), "form": form}
    return render(request, "knowledge/source_new.html", context, status=422 if form.errors else 200)


@require_safe
@signed_in
def source_page(request: PortalRequest, principal: Principal, base: str, source: str) -> HttpResponse:
    """The page at `/bases/{b}/sources/{s}/?state=`: how it stands, its runs, its pages."""
    row, held = _one(principal, base, source)
    state = request.GET.get("state", "")
    history = [shown_run(run) for run in held.runs.select_related("asked_by").order_by("-number")[:RUNS_SHOWN]]
    last = history[0] if history else None
    context = {
        **base_frame(row, "sources"),
        "source": held,
        "last": last,
        "problems": _problems(last["row"]) if last else [],
        "history": history[1:],
        "state": state if state in SourcePage.State.values else "",
        "states": _states(held),
        "page": page_of(request, _pages(held, state)),
        "page_reasons": _reasons,
        "form_problems": request.session.pop("document_problems", []),
    }
    return render(request, "knowledge/source.html", context)


def _pages(source: Source, state: str) -> QuerySet[SourcePage]:
    rows = source.pages.filter(is_map=False).select_related("document")
    if state in SourcePage.State.values:
        rows = rows.filter(state=state)
    return rows.order_by("depth", "id")


def _states(source: Source) -> list[tuple[str, str, int]]:
    """(state, its word, how many pages) for the filter."""
    found = dict(
        source.pages.filter(is_map=False)
        .order_by()
        .values_list("state")
        .annotate(n=Count("id"))
        .values_list("state", "n")
    )
    return [(value, str(label), found[value]) for value, label in SourcePage.State.choices if value in found]


def _problems(run: SourceRun) -> list[tuple[str, str]]:
    """(address, why) of the pages of a run that came to nothing."""
    return [(row["url"], sentence_of(row["message"], row["params"])) for row in run.problems[:PROBLEMS_SHOWN]]


def _reasons(page: SourcePage) -> str:
    return sentence_of(page.error_message, page.error_params)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def source_settings(request: PortalRequest, principal: Principal, base: str, source: str) -> HttpResponse:
    """The form at `/bases/{b}/sources/{s}/settings/`."""
    row, held = _one(principal, base, source)
    form = (
        SourceSettingsForm(request.POST) if request.method == "POST" else SourceSettingsForm(initial=settings_of(held))
    )
    if request.method == "POST" and form.is_valid():
        try:
            verbs.change(principal, held, **form.values())
        except ArchwayError as error:
            form.add_error(FIELD_OF.get(error.code, "name"), error.sentence())
        else:
            say(request, gettext("Saved"))
            return HttpResponseRedirect(f"{_home(row)}{held.uid}/")
    context = {**base_frame(row, "sources"), "source": held, "form": form}
    return render(request, "knowledge/source_settings.html", context, status=422 if form.errors else 200)


@require_POST
@signed_in
def act(request: PortalRequest, principal: Principal, base: str, source: str, verb: str) -> HttpResponse:
    """Synchronise now, cancel, or forget a source (with its documents when `documents` is sent)."""
    row, held = _one(principal, base, source)
    try:
        if verb == "delete":
            gone = verbs.delete(principal, held, with_documents=request.POST.get("documents") == "yes")
            say(
                request,
                gettext("The source is gone; %(n)s documents are in the recycle bin") % {"n": gone}
                if gone
                else gettext("The source is gone"),
            )
            return HttpResponseRedirect(_home(row))
        if verb == "sync":
            runs.start(principal, held, SourceRun.Trigger.PERSON)
        else:
            runs.cancel(principal, held)
    except ArchwayError as error:
        keep_problem(request, error)
    return HttpResponseRedirect(f"{_home(row)}{held.uid}/")
