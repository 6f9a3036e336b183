"""The questions that some batches ask first: where to, by what date, split how."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from knowledge.access import editors_of, visible_bases
from knowledge.models import Document, KnowledgeBase, Role
from knowledge.pages.setting_forms import SplittingForm, initial_of
from portal.kernel.principal import Principal


class MoveForm(forms.Form):
    """To which base, and what to do where the name is taken."""

    base = forms.ChoiceField(
        label=_("Base"),
        help_text=_("From then on, the people who see that base see the documents, and nobody else."),
    )
    name_taken = forms.ChoiceField(
        label=_("When a document of the same name is there"),
        widget=forms.RadioSelect,
        initial="refuse",
        choices=[("refuse", _("Leave it where it is, and say so")), ("keep_both", _("Keep both, with a number"))],
    )

    def __init__(self, principal: Principal, base: KnowledgeBase, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        rows = visible_bases(principal, Role.EDITOR).exclude(pk=base.pk).select_related("embedding").order_by("name")
        same = [row for row in rows if row.embedding_id == base.embedding_id]
        other = [row for row in rows if row.embedding_id != base.embedding_id]
        choices: list[Any] = [("", _("Choose…")), *((row.uid, row.name) for row in same)]
        if other:
            choices.append((_("Other embedding model: chunks are embedded anew"), [(r.uid, r.name) for r in other]))
        self.fields["base"].choices = choices  # type: ignore[attr-defined]

    def params(self) -> dict[str, Any]:
        return dict(self.cleaned_data)


class FolderForm(forms.Form):
    """Into which folder of the base."""

    folder = forms.CharField(
        label=_("Folder"),
        required=False,
        max_length=740,
        help_text=_("With slashes for folders inside folders; it is made when it is not there. Empty: the top."),
        widget=forms.TextInput(attrs={"list": "folders", "autocomplete": "off"}),
    )

    def __init__(self, principal: Principal, base: KnowledgeBase, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        rows = Document.objects.filter(base=base, deleted_at__isnull=True).exclude(folder="")
        self.suggestions = list(rows.order_by("folder").values_list("folder", flat=True).distinct()[:500])

    def params(self) -> dict[str, Any]:
        return dict(self.cleaned_data)


class ReviewForm(forms.Form):
    """By what date somebody should look at the documents again."""

    date = forms.DateField(
        label=_("Review by"),
        required=False,
        help_text=_(
            "Whoever is responsible is reminded two weeks before, and once more when the date is past. Empty: never."
        ),
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
    )

    def __init__(self, principal: Principal, base: KnowledgeBase, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

    def params(self) -> dict[str, Any]:
        chosen = self.cleaned_data["date"]
        return {"date": chosen.isoformat() if chosen else ""}


class OwnerForm(forms.Form):
    """Who looks after the documents."""

    owner = forms.ChoiceField(
        label=_("Responsible"),
        required=False,
        help_text=_("People who may edit this base. They are reminded of reviews."),
    )

    def __init__(self, principal: Principal, base: KnowledgeBase, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        people = [(person.uid, str(person)) for person in editors_of(base)[:500]]
        self.fields["owner"].choices = [("", _("Nobody in particular")), *people]  # type: ignore[attr-defined]

    def params(self) -> dict[str, Any]:
        return dict(self.cleaned_data)


class TagForm(forms.Form):
    """Which tags."""

    tags = forms.CharField(
        label=_("Tags, separated by commas"),
        max_length=400,
        widget=forms.TextInput(attrs={"list": "tags", "autocomplete": "off"}),
    )

    def __init__(self, principal: Principal, base: KnowledgeBase, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

    def params(self) -> dict[str, Any]:
        return {"tags": split_tags(self.cleaned_data["tags"])}


def split_tags(text: str) -> list[str]:
    """Names as people type them in one field: commas of both scripts part them."""
    return [name.strip() for name in text.replace("，", ",").replace("、", ",").split(",") if name.strip()]


class ResplitForm(SplittingForm):
    """The splitting of these documents: as the base's settings are today, or other ones that stay theirs."""

    how = forms.ChoiceField(
        label=_("Settings"),
        widget=forms.RadioSelect,
        initial="base",
        choices=[
            ("base", _("As the settings of this base are today")),
            ("own", _("Settings of their own, as below; a later re-index keeps them")),
        ],
    )
    discard_edits = forms.BooleanField(
        label=_("Also split documents whose chunks were changed by hand"),
        required=False,
        help_text=_("Their changes are lost. Otherwise these documents are left as they are, and named."),
    )
    field_order = ["how", "discard_edits"]

    def __init__(self, principal: Principal, base: KnowledgeBase, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("initial", initial_of("splitting", base.config) | {"how": "base"})
        super().__init__(*args, **kwargs)
        # A batch that stops at a review would have to be approved document by document: that is the base's choice.
        self.fields.pop("review", None)

    def params(self) -> dict[str, Any]:
        values = dict(self.cleaned_data)
        how, discard = values.pop("how"), values.pop("discard_edits")
        return {"splitting": values if how == "own" else None, "discard_edits": discard}


# Verbs that ask first. What is not here needs no answer.
FORMS: dict[str, Any] = {
    "move": MoveForm,
    "folder": FolderForm,
    "review": ReviewForm,
    "owner": OwnerForm,
    "tag": TagForm,
    "untag": TagForm,
    "resplit": ResplitForm,
}
