"""The forms of a base's settings that name models: answers, rerank, and where text of a sensitive base may go."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from knowledge.outside import leaves_house
from portal.gateway import local_rerank
from portal.gateway.endpoints import visible_endpoints
from portal.gateway.models import ModelEndpoint
from portal.kernel.principal import Principal

CHAT, RERANK = ModelEndpoint.Kind.CHAT, ModelEndpoint.Kind.RERANK


class AnsweringForm(forms.Form):
    """What becomes of the passages that a question finds."""

    processing = forms.ChoiceField(
        label=_("Answers"), widget=forms.RadioSelect,
        choices=[
            ("direct", _("The passages themselves, with their sources")),
            ("model_opt", _("Written by a model from the passages, with numbered citations")),
        ],
        help_text=_("Whoever asks may choose the other for a question. Without a model the passages are shown."),
    )  # fmt: skip
    endpoint = forms.ChoiceField(label=_("Chat model"), required=False)
    least_relevance = forms.FloatField(
        label=_("Least relevance of a basis"), min_value=0, max_value=1,
        help_text=_(
            "0–1; when the best passage is less relevant, no model is asked, and the answer is that there is no basis."
        ),
    )  # fmt: skip
    rewrite = forms.BooleanField(
        label=_("Complete follow-up questions"), required=False,
        help_text=_(
            "The model puts in what “it” and “there” stand for before the search; the page shows what was searched for."
        ),
    )  # fmt: skip

    reuse = forms.BooleanField(
        label=_("Use answers again"), required=False,
        help_text=_(
            "Where the operator keeps answers: the same person gets the same answer to the same question for up to a "
            "day, until a document or a right changes. Never for sensitive bases."
        ),
    )  # fmt: skip

    def offer(self, principal: Principal) -> None:
        """The models that can be chosen."""
        _offer(self, "endpoint", principal, [CHAT], _("The default model"))


class RerankingForm(forms.Form):
    """Who puts the best candidates into their final order."""

    by = forms.ChoiceField(
        label=_("Rerank"), widget=forms.RadioSelect,
        choices=[
            ("off", _("Off: the order of the search")),
            ("local", _("By the model on this installation")),
            ("endpoint", _("By a rerank model")),
            ("model", _("By a chat model: slower, and paid for by the token")),
        ],
        help_text=_(
            "A model reads question and passage together. When it fails or is slow, the order of the search stays."
        ),
    )  # fmt: skip
    endpoint = forms.ChoiceField(
        label=_("Model"), required=False, help_text=_("For a rerank model or a chat model; text goes where it runs.")
    )
    seconds = forms.FloatField(
        label=_("Longest wait (seconds)"), min_value=0.2, max_value=60, help_text=_("After that the order stays.")
    )

    def offer(self, principal: Principal) -> None:
        """The models that can be chosen."""
        _offer(self, "endpoint", principal, [RERANK, CHAT], _("The default model"))
        if not local_rerank.available():
            self.fields["by"].help_text = _(
                "A model reads question and passage together. When it fails or is slow, the order of the search stays. "
                "The operator has supplied no model on this installation."
            )

    def clean_endpoint(self) -> str:
        """A model of the kind that was chosen."""
        uid: str = self.cleaned_data["endpoint"]
        by = self.cleaned_data.get("by")
        kind = {"endpoint": RERANK, "model": CHAT}.get(by or "")
        if uid and kind and not ModelEndpoint.objects.filter(uid=uid, kind=kind).exists():
            raise forms.ValidationError(gettext("This model is of another kind."))
        return uid if kind else ""


class OutsideForm(forms.Form):
    """Exactly those models outside of the installation to which text of the base may go while it is sensitive."""

    endpoints = forms.MultipleChoiceField(
        label=_("Models that may be sent text of this base"), required=False, widget=forms.CheckboxSelectMultiple,
        help_text=_("Holds while the base is sensitive: its text goes to no other model outside of this installation."),
    )  # fmt: skip

    def offer(self, principal: Principal) -> None:
        """The models that text would leave for."""
        _offer(self, "endpoints", principal, [CHAT, RERANK], None)


def offer(principal: Principal, form: forms.Form | None) -> None:
    """Fill in the models that a form lets a person choose from."""
    if isinstance(form, AnsweringForm | RerankingForm | OutsideForm):
        form.offer(principal)


def _offer(form: forms.Form, name: str, principal: Principal, kinds: list[ModelEndpoint.Kind], default: Any) -> None:
    rows = [visible_endpoints(principal, kind).prefetch_related("fallback_rows__fallback") for kind in kinds]
    found = [row for of_kind in rows for row in of_kind]
    if default is None:
        found = [row for row in found if leaves_house(row)]
    choices = [(row.uid, _named(row, several=len(kinds) > 1)) for row in found]
    known = {uid for uid, _label in choices}
    stored = form.initial.get(name) or []
    gone = [uid for uid in ([stored] if isinstance(stored, str) else stored) if uid not in known]
    choices += [(uid, gettext("A model that is no longer available")) for uid in gone]
    field = form.fields[name]
    assert isinstance(field, forms.ChoiceField)
    field.choices = ([("", default)] if default is not None else []) + choices


def _named(row: ModelEndpoint, *, several: bool) -> str:
    kind = f" · {row.get_kind_display()}" if several else ""
    return f"{row.name}{kind}" + (f" · {gettext('outside of this installation')}" if leaves_house(row) else "")
