"""The list of bases, and making a new one."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db.models import F
from django.db.models.expressions import OrderBy
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe

from knowledge import bases as verbs
from knowledge import worklist
from knowledge.access import visible_bases, with_role
from knowledge.models import Role
from portal.gateway.endpoints import visible_endpoints
from portal.gateway.models import ModelEndpoint
from portal.kernel.errors import ArchwayError
from portal.kernel.middleware import PortalRequest
from portal.kernel.pages import page_of, say, signed_in
from portal.kernel.principal import Principal
from portal.pages.following import topics_of


class BaseForm(forms.Form):
    """What a new base needs."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=200)
    description = forms.CharField(
        label=gettext_lazy("Description"),
        required=False,
        max_length=4000,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=gettext_lazy("What belongs in here, for the people who will search it."),
    )
    embedding = forms.ChoiceField(
        label=gettext_lazy("Embedding model"),
        required=False,
        help_text=gettext_lazy("It reads the text of documents; models of outside providers get that text."),
    )
    sensitive = forms.BooleanField(
        label=gettext_lazy("Sensitive"),
        required=False,
        help_text=gettext_lazy(
            "Admins of the workspace see it only when it is shared with them, or in an emergency with a reason."
        ),
    )

    def __init__(self, principal: Principal, *args: Any) -> None:
        super().__init__(*args)
        endpoints = visible_endpoints(principal, ModelEndpoint.Kind.EMBEDDING)
        choices = [(endpoint.uid, endpoint.name) for endpoint in endpoints]
        if len(choices) > 1:
            self.fields["embedding"].choices = choices  # type: ignore[attr-defined]
        else:
            del self.fields["embedding"]


SORTS = {
    "name": "name",
    "documents": "documents_total",
    "changed": "documents_changed",
}


def _order(wanted: str) -> tuple[str, OrderBy]:
    """The sort that the address asks for (by name when it makes no sense), and what it means to the database."""
    column = SORTS.get(wanted.removeprefix("-"))
    if column is None:
        return "name", F("name").asc()
    down = wanted.startswith("-")
    return wanted, F(column).desc(nulls_last=True) if down else F(column).asc(nulls_last=True)


@require_safe
@signed_in
def bases(request: PortalRequest, principal: Principal) -> HttpResponse:
    """The page at `/bases/?q=&show=mine`."""
    topics = topics_of(principal)
    query = " ".join(request.GET.get("q", "").replace("\x00", "").split())[:200]
    mine = request.GET.get("show") == "mine"
    everything = visible_bases(principal)
    rows = everything.filter(name__icontains=query) if query else everything
    if mine:
        rows = rows.filter(grants__user_id=principal.user_id, grants__role=Role.OWNER)
    sort, order = _order(request.GET.get("sort", ""))
    rows = worklist.with_document_counts(with_role(principal, rows)).order_by(order, "name", "pk")
    context = {
        "topics": topics,
        "page": page_of(request, rows, default=20),
        "query": query,
        "mine": mine,
        "sort": sort,
        "filtered": bool(query) or mine,
        "roles": dict(Role.choices),
    }
    return render(request, "pages/bases.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_base(request: PortalRequest, principal: Principal) -> HttpResponse:
    """The page at `/bases/new/`."""
    form = BaseForm(principal, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            base = verbs.create(principal, **form.cleaned_data)
        except ArchwayError as error:
            if error.code not in {"name_taken", "name_empty"}:
                raise
            form.add_error("name", error.sentence())
        else:
            say(request, gettext("%(name)s is ready for documents") % {"name": base.name})
            return HttpResponseRedirect(f"/bases/{base.uid}/documents/")
    return render(request, "pages/new_base.html", {"form": form}, status=422 if form.errors else 200)
