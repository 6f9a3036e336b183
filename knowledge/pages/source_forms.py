"""The forms of texts and web sources. What they may hold is decided by the verbs; limits here only help to type."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from knowledge import metadata as facts
from knowledge.details import Details
from knowledge.models import Source
from knowledge.pages.setting_forms import Lines


def tags_field(hint: Any = "") -> forms.CharField:
    """Tags as people write them."""
    return forms.CharField(label=_("Tags, separated by commas"), required=False, max_length=2_000, help_text=hint)


def metadata_field() -> forms.CharField:
    """Metadata as people write it; read by `Details.written`."""
    return forms.CharField(
        label=_("Metadata, one a line"), required=False, max_length=30_000,
        help_text=_("For example year: 2026 or regions: [east, west]. Searches can be narrowed to them."),
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
    )  # fmt: skip


class SourceSettingsForm(forms.Form):
    """What of a web source can be changed at any time."""

    name = forms.CharField(
        label=_("Name"), required=False, max_length=200, help_text=_("Left empty, the address is taken.")
    )
    folder = forms.CharField(
        label=_("Into folder"), required=False, max_length=400,
        help_text=_("Left empty, the host's name is taken. The site's own folders follow below it."),
    )  # fmt: skip
    schedule = forms.ChoiceField(label=_("Synchronise"), choices=Source.Schedule.choices)
    gone = forms.ChoiceField(
        label=_("When a page is gone"), choices=Source.Gone.choices,
        help_text=_("Only when the site says that it is not there any more. Faults that pass change nothing."),
    )  # fmt: skip
    main_only = forms.BooleanField(
        label=_("Main content only"), required=False,
        help_text=_("Menus, footers and notices around the content are left out."),
    )  # fmt: skip
    depth = forms.IntegerField(
        label=_("Depth"), min_value=0, max_value=10, required=False,
        help_text=_("How many links away from the address; for a page and what it links to."),
    )  # fmt: skip
    page_limit = forms.IntegerField(label=_("At most this many pages"), min_value=1, max_value=10_000)
    limit_mb = forms.IntegerField(label=_("At most this many MB a run"), min_value=1, max_value=2_000)
    include = Lines(
        label=_("Only addresses like these"), required=False,
        help_text=_("One a line. “/docs” lets in all below it; “*” stands for anything."),
    )  # fmt: skip
    exclude = Lines(label=_("No addresses like these"), required=False)
    tags = tags_field(_("Given to each new document; what people change by hand stays."))
    metadata = metadata_field()

    def values(self) -> dict[str, Any]:
        """What was filled in, ready for the verb. Raises `Invalid`."""
        details = Details.written(self.cleaned_data["tags"], self.cleaned_data["metadata"])
        found = {**self.cleaned_data, **details.as_json}
        if found.get("depth") is None:
            found.pop("depth", None)
        return found


class NewSourceForm(SourceSettingsForm):
    """A new web source."""

    url = forms.CharField(
        label=_("Address"), max_length=2000, help_text=_("For example https://docs.example.com/guide/"),
        widget=forms.TextInput(attrs={"inputmode": "url", "autocomplete": "off", "spellcheck": "false"}),
    )  # fmt: skip
    kind = forms.ChoiceField(label=_("What to fetch"), choices=Source.Kind.choices, widget=forms.RadioSelect)
    field_order = ["url", "kind"]

    @staticmethod
    def defaults() -> dict[str, Any]:
        """What stands in a new form."""
        fresh = Source()
        names = ("schedule", "gone", "main_only", "depth", "page_limit", "limit_mb")
        return {"kind": Source.Kind.PAGE, **{name: getattr(fresh, name) for name in names}}


def settings_of(source: Source) -> dict[str, Any]:
    """A source's settings as the form shows them."""
    names = SourceSettingsForm.base_fields
    shown = {name: getattr(source, name) for name in names}
    return {**shown, "tags": ", ".join(source.tags), "metadata": facts.as_lines(source.metadata)}


class TextForm(forms.Form):
    """A text to paste."""

    title = forms.CharField(label=_("Title"), max_length=200)
    text = forms.CharField(
        label=_("Text"), strip=False,
        widget=forms.Textarea(attrs={"rows": 16, "class": "input input--text"}),
    )  # fmt: skip
    kind = forms.ChoiceField(
        label=_("Written as"), widget=forms.RadioSelect,
        choices=[("markdown", _("Markdown: headings, lists, tables and code count")), ("plain", _("Plain text"))],
    )  # fmt: skip
    folder = forms.CharField(label=_("Into folder"), required=False, max_length=800)
    tags = tags_field()
    metadata = metadata_field()

    @property
    def details(self) -> Details:
        """What is to be said of the document. Raises `Invalid`."""
        return Details.written(self.cleaned_data["tags"], self.cleaned_data["metadata"])

    @property
    def said(self) -> dict[str, Any]:
        """Everything else, by the names of `pasted.paste`."""
        return {name: value for name, value in self.cleaned_data.items() if name not in ("tags", "metadata")}


class EditForm(forms.Form):
    """The text of a document."""

    text = forms.CharField(
        label=_("Text"), strip=False, widget=forms.Textarea(attrs={"rows": 24, "class": "input input--text"})
    )
