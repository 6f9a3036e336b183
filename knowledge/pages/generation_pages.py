"""Generating on a page: what it would cost, start, how far it is, stop; and a look through the questions made."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from knowledge import generation
from knowledge.access import access_base, access_question
from knowledge.generation import Wanted
from knowledge.generation.starting import MOST_CASES, MOST_EACH
from knowledge.models import ChunkQuestion, Generation, KnowledgeBase, Role
from knowledge.outside import leaves_house
from knowledge.pages import frame
from knowledge.pages.document_list import following
from knowledge.questions import verbs as questions
from portal.gateway.endpoints import visible_endpoints
from portal.gateway.models import ModelEndpoint
from portal.kernel.errors import ArchwayError, NotFound, sentence_of
from portal.kernel.middleware import PortalRequest
from portal.kernel.pages import page_of, say, signed_in
from portal.kernel.principal import Principal

KINDS = dict(Generation.Kind.choices)
_CASES = Generation.Kind.CASES


class GenerateForm(forms.Form):
    """What to make of a base's passages."""

    endpoint = forms.ChoiceField(label=gettext_lazy("Chat model"))
    each = forms.IntegerField(label=gettext_lazy("Questions a passage"), min_value=1, max_value=MOST_EACH, initial=3)
    most = forms.IntegerField(label=gettext_lazy("Cases"), min_value=1, max_value=MOST_CASES, initial=30)
    again = forms.BooleanField(
        label=gettext_lazy("Ask about all passages again"), required=False,
        help_text=gettext_lazy("Otherwise only about those that are new or have changed."),
    )  # fmt: skip

    def __init__(self, kind: str, models: list[ModelEndpoint], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        del self.fields["each" if kind == _CASES else "most"]
        field = self.fields["endpoint"]
        assert isinstance(field, forms.ChoiceField)
        outside = gettext("outside of this installation")
        field.choices = [(row.uid, f"{row.name} · {outside}" if leaves_house(row) else row.name) for row in models]

    def wanted(self, kind: str) -> Wanted:
        """As the verbs take it."""
        data = self.cleaned_data
        return Wanted(kind, data["endpoint"], data.get("each") or 3, data.get("most") or 0, data["again"])


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def generate(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """The page at `/bases/{b}/generate/?kind=`; with the form's fields in the address it says what that would cost."""
    row = access_base(principal, base, Role.OWNER)
    data = request.POST if request.method == "POST" else request.GET
    kind = data.get("kind", Generation.Kind.QUESTIONS)
    if kind not in KINDS:
        raise NotFound("Not found, or you don't have access.")
    models = list(visible_endpoints(principal, ModelEndpoint.Kind.CHAT).prefetch_related("fallback_rows__fallback"))
    form = GenerateForm(kind, models, data if "endpoint" in data else None, auto_id="generate_%s")
    estimate: generation.Estimate | None = None
    if form.is_bound and form.is_valid():
        try:
            if request.method == "POST":
                generation.start(principal, row, form.wanted(kind))
                return HttpResponseRedirect(f"/bases/{row.uid}/generate/?kind={kind}")
            estimate = generation.estimate(principal, row, form.wanted(kind))
        except ArchwayError as error:
            form.add_error(None, error.sentence())
    return _page(request, row, kind, form, models, estimate)


def _page(
    request: PortalRequest,
    base: KnowledgeBase,
    kind: str,
    form: GenerateForm,
    models: list[ModelEndpoint],
    estimate: generation.Estimate | None,
) -> HttpResponse:
    run = generation.last(base, kind)
    topic, after = following(base)
    made = questions.of_base(base).filter(source=ChunkQuestion.Origin.GENERATED)
    page = page_of(request, made.select_related("chunk", "revision__document"), default=20) if kind != _CASES else None
    context = {
        **frame.base_frame(base, "settings"),
        "kind": kind,
        "kinds": KINDS.items(),
        "form": form,
        "models": models,
        "estimate": estimate,
        "estimated": estimate.as_json() if estimate else {},
        "run": run,
        "reason": sentence_of(run.error_message, run.error_params) if run else "",
        "page": page,
        "problems": request.session.pop(frame.PROBLEMS, []),
        "topic": topic,
        "after": after,
    }
    return render(request, "knowledge/generate.html", context, status=422 if form.errors else 200)


@require_POST
@signed_in
def stop(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """Stop the run under way; what is made stays."""
    row = access_base(principal, base, Role.OWNER)
    kind = request.POST.get("kind", "")
    run = generation.current(row, kind)
    if run is not None:
        try:
            generation.cancel(principal, run)
        except ArchwayError as error:
            frame.keep_problem(request, error)
    return HttpResponseRedirect(f"/bases/{row.uid}/generate/?kind={kind if kind in KINDS else 'questions'}")


@require_POST
@signed_in
def review(request: PortalRequest, principal: Principal, base: str, question: str) -> HttpResponse:
    """Accept a generated question in the words of the field, switch it, or delete it."""
    row = access_base(principal, base, Role.EDITOR)
    one = access_question(principal, question, Role.EDITOR)
    if one.base_id != row.pk:
        raise NotFound("Not found, or you don't have access.")
    verb = request.POST.get("verb", "")
    try:
        if verb == "delete":
            questions.delete(principal, one)
            say(request, gettext("The question is deleted"))
        elif verb in ("enable", "disable"):
            questions.set_enabled(principal, one, verb == "enable")
        elif verb == "change":
            questions.change(principal, one, request.POST.get("text", ""))
            say(request, gettext("Saved"))
    except ArchwayError as error:
        frame.keep_problem(request, error)
    return HttpResponseRedirect(f"/bases/{row.uid}/generate/?kind=questions")
