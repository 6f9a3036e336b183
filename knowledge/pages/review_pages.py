"""The documents of a base that wait for review: look at each, and decide about several at once."""

from __future__ import annotations

from typing import Any, cast

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_http_methods

from knowledge.access import access_base
from knowledge.chunks import reviewing
from knowledge.models import KnowledgeBase, Role
from knowledge.pages.document_list import following
from knowledge.pages.frame import base_frame
from knowledge.pages.setting_forms import SplitForm, initial_of
from portal.kernel.errors import Invalid
from portal.kernel.middleware import PortalRequest
from portal.kernel.pages import page_of, say, signed_in
from portal.kernel.principal import Principal

ACTIONS = ("confirm", "discard", "resplit")


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def review(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """The page at `/bases/{b}/review/`; POST decides about the ticked ones."""
    row = access_base(principal, base, Role.EDITOR)
    form = SplitForm(initial=initial_of("splitting", row.config))
    if request.method != "POST":
        return _page(request, principal, row, form, [])
    action = request.POST.get("action", "")
    values: dict[str, Any] = {}
    problems: list[str] = []
    if action == "resplit":
        form = SplitForm(request.POST)
        if not form.is_valid():
            return _page(request, principal, row, form, [], status=422)
        values = form.cleaned_data
    chosen = request.POST.getlist("ids")[:200]
    if action not in ACTIONS or not chosen:
        problems = [gettext("No document was chosen.")]
        return _page(request, principal, row, form, problems, status=422)
    try:
        outcomes = reviewing.decide(
            principal,
            row,
            chosen,
            cast(reviewing.Action, action),
            values,
            discard_edits=request.POST.get("discard") == "yes",
        )
    except Invalid as error:
        form.add_error(None, error.sentence())
        return _page(request, principal, row, form, [], status=422)
    problems = [
        f"{one.name}: {one.error.sentence()}" if one.name else one.error.sentence() for one in outcomes if one.error
    ]
    done = sum(one.error is None for one in outcomes)
    if done:
        say(request, _said(action, done))
    if problems:
        return _page(request, principal, row, form, problems, status=200 if done else 422)
    return HttpResponseRedirect(f"/bases/{row.uid}/review/")


def _said(action: str, n: int) -> str:
    if action == "confirm":
        text = ngettext("%(n)s document approved", "%(n)s documents approved", n)
    elif action == "discard":
        text = ngettext("%(n)s document sent back", "%(n)s documents sent back", n)
    else:
        text = ngettext("%(n)s document is split again", "%(n)s documents are split again", n)
    return text % {"n": n}


def _page(
    request: PortalRequest,
    principal: Principal,
    base: KnowledgeBase,
    form: SplitForm,
    problems: list[str],
    status: int = 200,
) -> HttpResponse:
    topic, seq = following(base)
    context = {
        **base_frame(base, "documents"),
        "page": page_of(request, reviewing.waiting(principal, base), default=50),
        "form": form,
        "problems": problems,
        "chosen": request.POST.getlist("ids"),
        "topic": topic,
        "after": seq,
    }
    return render(request, "knowledge/review.html", context, status=status)
