"""The forms of evaluation: a run in some modes, a case, a file of cases."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext, gettext_lazy

from knowledge.quality import runs
from knowledge.quality.cases import LONGEST_QUESTION, LONGEST_SNIPPET
from knowledge.retrieval import MODES, Mode

_MODE_NAMES: dict[str, Any] = {
    "blend": gettext_lazy("Hybrid"),
    "keywords": gettext_lazy("Keyword"),
    "embedding": gettext_lazy("Vector"),
}


class RunForm(forms.Form):
    """Which modes are asked; with `weight`, `fusion` or `threshold` a further variant tries them."""

    modes = forms.MultipleChoiceField(
        label=gettext_lazy("Search modes"),
        choices=[(mode, _MODE_NAMES[mode]) for mode in MODES],
        initial=list(MODES),
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": gettext_lazy("Choose at least one mode.")},
    )
    label = forms.CharField(
        label=gettext_lazy("Label"),
        max_length=200,
        required=False,
        help_text=gettext_lazy("What you want to remember about this run."),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    weight = forms.FloatField(
        label=gettext_lazy("Share of meaning"),
        min_value=0,
        max_value=1,
        required=False,
        widget=forms.NumberInput(attrs={"step": "0.05"}),
    )
    fusion = forms.ChoiceField(
        label=gettext_lazy("Fusion"),
        required=False,
        choices=[
            ("", gettext_lazy("As the base is set")),
            ("convex", gettext_lazy("Weighted sum")),
            ("rrf", gettext_lazy("Rank fusion (RRF)")),
        ],
    )
    threshold = forms.FloatField(
        label=gettext_lazy("Threshold"),
        min_value=0,
        max_value=1,
        required=False,
        widget=forms.NumberInput(attrs={"step": "0.05"}),
    )

    def variants(self) -> list[dict[str, Any]]:
        """The variants of the run, the tried settings as one more."""
        data = self.cleaned_data
        found = [runs.variant(mode, mode) for mode in MODES if mode in data["modes"]]
        tried = {name: data[name] for name in ("weight", "fusion", "threshold") if data[name] not in (None, "")}
        if tried:
            words = ", ".join(f"{name} {value}" for name, value in tried.items())
            # Weight and fusion mean something in a blend only.
            blends = "blend" in data["modes"] or {"weight", "fusion"} & set(tried)
            mode: Mode = "blend" if blends else data["modes"][0]
            found.append(runs.variant(gettext("%(mode)s: %(words)s") % {"mode": mode, "words": words}, mode, tried))
        return found


class CaseForm(forms.Form):
    """A case by hand: a question with one expected document, text, or both."""

    question = forms.CharField(
        label=gettext_lazy("Question"),
        max_length=LONGEST_QUESTION,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        error_messages={"required": gettext_lazy("Enter a question.")},
    )
    document = forms.CharField(
        label=gettext_lazy("Expected document"),
        max_length=1000,
        required=False,
        help_text=gettext_lazy("Its name or path in this base."),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    snippet = forms.CharField(
        label=gettext_lazy("Expected text"),
        max_length=LONGEST_SNIPPET,
        required=False,
        help_text=gettext_lazy("A sentence that answers. It counts wherever it stands, however documents are split."),
        widget=forms.Textarea(attrs={"rows": 3}),
    )
