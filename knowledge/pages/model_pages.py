"""The embedding model of a base: which it is, how far a change to another one is, start and stop."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from knowledge import model_changes
from knowledge.access import access_base
from knowledge.models import KnowledgeBase, Role
from knowledge.pages.frame import keep_problem
from knowledge.quality import gate
from portal.gateway.endpoints import visible_endpoints
from portal.gateway.models import ModelEndpoint
from portal.kernel.errors import Conflict, Invalid, NotFound, sentence_of
from portal.kernel.middleware import PortalRequest
from portal.kernel.pages import say, signed_in
from portal.kernel.principal import Principal


class ModelForm(forms.Form):
    """Another embedding model for a base. `confirmed` is asked for where texts would leave the house."""

    embedding = forms.ChoiceField(label=_("New embedding model"))
    confirmed = forms.BooleanField(
        label=_("Texts of this base may be sent to the server of this model"), required=False
    )

    def __init__(self, principal: Principal, base: KnowledgeBase, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        others = others_than(principal, base)
        field = self.fields["embedding"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(endpoint.uid, endpoint.name) for endpoint in others]
        if not (base.sensitive and any(model_changes.may_leave_house(endpoint) for endpoint in others)):
            del self.fields["confirmed"]


def others_than(principal: Principal, base: KnowledgeBase) -> list[ModelEndpoint]:
    """The models that the base could change to."""
    return list(visible_endpoints(principal, ModelEndpoint.Kind.EMBEDDING).exclude(pk=base.embedding_id))


def model_context(principal: Principal, base: KnowledgeBase) -> dict[str, Any]:
    """What the section "Models" of the settings shows."""
    others = others_than(principal, base)
    change = model_changes.last(base)
    return {
        "change": change,
        "change_reason": sentence_of(change.error_message, change.error_params) if change else "",
        "model_form": ModelForm(principal, base, auto_id="model_%s") if others else None,
        "leaves_house": any(model_changes.may_leave_house(endpoint) for endpoint in others),
    }


@require_POST
@signed_in
def change_model(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """Start a change of model."""
    row = access_base(principal, base, Role.OWNER)
    confirmed = request.POST.get("confirmed") == "on"
    try:
        outcome = gate.change_model(principal, row, request.POST.get("embedding", ""), confirmed=confirmed)
        if outcome.state != "saved":
            say(request, gettext("Not changed yet: the evaluation set is asked first"))
            return HttpResponseRedirect(f"/bases/{row.uid}/evaluation/{outcome.run.uid if outcome.run else ''}/")
    except (Conflict, Invalid) as error:
        keep_problem(request, error)
    return HttpResponseRedirect(f"/bases/{row.uid}/settings/?section=models")


@require_POST
@signed_in
def stop_model_change(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """Stop the change under way; searches never left the old model."""
    row = access_base(principal, base, Role.OWNER)
    change = model_changes.current(row)
    if change is None:
        raise NotFound("The model of this base is not being changed.")
    try:
        model_changes.cancel(principal, change)
        say(request, gettext("The base stays with its model"))
    except Conflict as error:
        keep_problem(request, error)
    return HttpResponseRedirect(f"/bases/{row.uid}/settings/?section=models")
