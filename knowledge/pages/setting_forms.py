"""The forms of a base's settings, one a section, each with its own fields only. Limits stand in `base_settings`."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from knowledge import base_settings
from knowledge.pages.answer_forms import AnsweringForm, OutsideForm, RerankingForm


class Lines(forms.CharField):
    """A list of texts, one a line; `\\n` and `\\t` may be written."""

    widget = forms.Textarea(attrs={"rows": 3, "spellcheck": "false"})

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, list):
            return "\n".join(line.replace("\n", "\\n").replace("\t", "\\t") for line in value)
        return value

    def clean(self, value: Any) -> Any:
        text = super().clean(value) or ""
        lines = [line.replace("\\n", "\n").replace("\\t", "\t") for line in text.split("\n")]
        return [line.rstrip("\r") for line in lines if line.strip("\r")]


class GeneralForm(forms.Form):
    """What the base is called and who of the admins sees it."""

    name = forms.CharField(label=_("Name"), max_length=200)
    description = forms.CharField(
        label=_("Description"), required=False, max_length=4000, widget=forms.Textarea(attrs={"rows": 3}),
        help_text=_("What belongs in here, for the people who will search it."),
    )  # fmt: skip
    sensitive = forms.BooleanField(
        label=_("Sensitive"), required=False,
        help_text=_(
            "Admins of the workspace see it only when it is shared with them, or in an emergency with a reason."
        ),
    )  # fmt: skip


class SplitForm(forms.Form):
    """How a text is split and cleaned up: the settings of a base, of one document, or of a preview."""

    mode = forms.ChoiceField(
        label=_("Split by"), widget=forms.RadioSelect,
        choices=[
            ("smart", _("Structure (recommended): headings, paragraphs, tables, code")),
            ("separators", _("Separators of your own")),
            ("qa", _("Questions and answers: one row of a table is one passage")),
            ("rows", _("Table rows: each row with its header")),
        ],
    )  # fmt: skip
    passage_tokens = forms.IntegerField(
        label=_("Passage size"), min_value=50, max_value=2000,
        help_text=_("Tokens that an answer shows and cites at once. 50–2000; about 400 suits most documents."),
    )  # fmt: skip
    leaf_tokens = forms.IntegerField(
        label=_("Chunk size"), min_value=30, max_value=500,
        help_text=_("Tokens that a search compares at once. 30–500; smaller finds details, larger finds topics."),
    )  # fmt: skip
    overlap_tokens = forms.IntegerField(
        label=_("Overlap"), min_value=0, max_value=200,
        help_text=_("Tokens of the passage before that are repeated. 0–200; 0 is best when documents have headings."),
    )  # fmt: skip
    separators = Lines(
        label=_("Separators"), required=False,
        help_text=_("One a line, for “Separators of your own”. Write \\n for a line break."),
    )  # fmt: skip
    patterns = Lines(
        label=_("Patterns"), required=False, help_text=_("Regular expressions that begin a new passage, one a line.")
    )
    heading_level = forms.IntegerField(
        label=_("New passage at headings down to level"), min_value=0, max_value=6, required=False,
        help_text=_("For “Separators of your own”. 0 pays no attention to headings."),
    )  # fmt: skip
    question_column = forms.CharField(
        label=_("Column of the question"), max_length=200, required=False,
        help_text=_("For questions and answers: the title in the head row. Empty: it is guessed."),
    )  # fmt: skip
    answer_column = forms.CharField(
        label=_("Column of the answer"), max_length=200, required=False,
        help_text=_("As above; other columns follow the answer."),
    )  # fmt: skip
    clean_spaces = forms.BooleanField(label=_("Join runs of spaces"), required=False)
    clean_blank_lines = forms.BooleanField(label=_("Drop blank lines within paragraphs"), required=False)
    remove_urls = forms.BooleanField(label=_("Take out web addresses"), required=False)
    remove_emails = forms.BooleanField(label=_("Take out e-mail addresses"), required=False)
    remove_patterns = Lines(
        label=_("Take out"), required=False,
        help_text=_("Regular expressions, one a line; what they match is not stored. Preview it first."),
    )  # fmt: skip

    FIRST = ("mode", "passage_tokens", "leaf_tokens", "overlap_tokens")

    def main_fields(self) -> list[forms.BoundField]:
        """What everybody looks at; the rest stands under “More”."""
        return [self[name] for name in self.FIRST]

    def more_fields(self) -> list[forms.BoundField]:
        """What only some documents need."""
        return [field for field in self if field.name not in self.FIRST]

    def clean_heading_level(self) -> int:
        """An empty field is 0."""
        return self.cleaned_data.get("heading_level") or 0


class SplittingForm(SplitForm):
    """How documents are split; applies to what is uploaded or re-indexed from now on."""

    review = forms.ChoiceField(
        label=_("Review"), widget=forms.RadioSelect,
        choices=[("never", _("Index at once")), ("always", _("Review first: wait for approval after splitting"))],
    )  # fmt: skip


class PicturesForm(forms.Form):
    """What is read of scanned pages and pictures; applies to what is uploaded or re-indexed from now on."""

    recognition = forms.ChoiceField(
        label=_("Text recognition"), widget=forms.RadioSelect,
        choices=[
            ("all", _("Scanned pages, picture files, and pictures inside documents")),
            ("pages", _("Scanned pages and picture files only: faster")),
            ("off", _("Off: text on pictures is not read")),
        ],
        help_text=_("Works where the operator has installed text recognition. A page takes some seconds."),
    )  # fmt: skip


class SearchingForm(forms.Form):
    """Defaults of searches and answers in this base."""

    mode = forms.ChoiceField(
        label=_("Search by"), widget=forms.RadioSelect,
        choices=[
            ("blend", _("Words and meaning together (recommended)")),
            ("keywords", _("Words only: part numbers, exact terms")),
            ("embedding", _("Meaning only: questions in other words than the text")),
        ],
    )  # fmt: skip
    top_k = forms.IntegerField(
        label=_("Passages"), min_value=1, max_value=50, help_text=_("How many a search returns. 1–50.")
    )
    threshold = forms.FloatField(
        label=_("Least relevance"), min_value=0, max_value=1,
        help_text=_("0–1; what is less relevant is left out. 0 keeps everything; try values in the hit test."),
    )  # fmt: skip
    weight = forms.FloatField(
        label=_("Share of meaning"), min_value=0, max_value=1,
        help_text=_("0–1, for words and meaning together: 0 counts words only, 1 meaning only."),
    )  # fmt: skip
    fusion = forms.ChoiceField(
        label=_("Blend by"), choices=[("convex", _("Weighted scores")), ("rrf", _("Ranks (RRF)"))],
        help_text=_("Weighted scores measured better; ranks ignore how large the scores are."),
    )  # fmt: skip
    neighbours = forms.IntegerField(
        label=_("Neighbours"), min_value=0, max_value=3,
        help_text=_("Passages before and after each hit that go along as context. 0–3."),
    )  # fmt: skip
    per_document = forms.IntegerField(
        label=_("Passages of one document"), min_value=0, max_value=20,
        help_text=_("At most so many, so that answers rest on several documents. 0 for no limit."),
    )  # fmt: skip
    diversity = forms.FloatField(
        label=_("Diversity"), min_value=0, max_value=1, widget=forms.NumberInput(attrs={"step": "0.05"}),
        help_text=_("0–1; the higher, the more each passage differs from those before it. 0 for relevance alone."),
    )  # fmt: skip
    typos = forms.BooleanField(
        label=_("Put mistyped words right"), required=False,
        help_text=_("Latin words that stand nowhere in the base are searched as the nearest word that does."),
    )  # fmt: skip
    pinyin = forms.BooleanField(
        label=_("Understand pinyin"), required=False,
        help_text=_("Finds Chinese words typed in Latin letters: nianjia, nian jia or nj."),
    )  # fmt: skip
    log_queries = forms.BooleanField(
        label=_("Keep questions"), required=False,
        help_text=_("Each person's own questions stay in their history; switch off for confidential bases."),
    )  # fmt: skip


class QualityForm(forms.Form):
    """What happens when a change makes the evaluation set worse, and which questions count as unanswered."""

    gate = forms.ChoiceField(
        label=_("When a change of settings makes the evaluation set worse"), widget=forms.RadioSelect,
        choices=[
            ("off", _("Nothing: changes are saved at once")),
            ("warn", _("Warn: changes are saved, and owners are told")),
            ("block", _("Block: changes wait until somebody who manages the base saves them anyway")),
        ],
        help_text=_("Applies to retrieval, splitting and model."),
    )  # fmt: skip
    measure = forms.ChoiceField(
        label=_("Measure"),
        choices=[(name, name) for name in ("ndcg@10", "mrr@10", "recall@1", "recall@5", "recall@10")],
    )
    tolerance = forms.FloatField(
        label=_("Tolerance"), min_value=0, max_value=1, widget=forms.NumberInput(attrs={"step": "0.005"}),
        help_text=_("How much the measure, a mean between 0 and 1, may fall."),
    )  # fmt: skip
    unanswered_below = forms.FloatField(
        label=_("Unanswered below"), min_value=0, max_value=1, widget=forms.NumberInput(attrs={"step": "0.05"}),
        help_text=_("Questions whose best passage is less relevant than this are listed for writers. 0–1."),
    )  # fmt: skip


SECTION_FORMS: dict[str, type[forms.Form]] = {
    "splitting": SplittingForm,
    "pictures": PicturesForm,
    "searching": SearchingForm,
    "reranking": RerankingForm,
    "answering": AnsweringForm,
    "outside": OutsideForm,
    "quality": QualityForm,
}


def initial_of(section: str, config: dict[str, Any]) -> dict[str, Any]:
    """The stored values of a section, defaults where there are none."""
    values: dict[str, Any] = base_settings.read(config).model_dump()[section]
    return values
