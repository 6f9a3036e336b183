"""The hit test of a base: one question in three columns, each loaded on its own, kept as a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext, gettext_lazy, gettext_noop
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from knowledge import base_settings, hit_tests, metadata
from knowledge.access import access_base, visible_documents
from knowledge.hit_tests import COLUMNS
from knowledge.ingestion.parsers import FILE_TYPES
from knowledge.models import Document, KnowledgeBase, QueryRecord
from knowledge.pages import passages
from knowledge.pages.frame import base_frame
from knowledge.pages.search_settings import SearchSettings
from knowledge.retrieval.contract import MODES, Mode
from portal.kernel.errors import Invalid, NotFound, Unavailable
from portal.kernel.middleware import PortalRequest
from portal.kernel.pages import is_htmx, signed_in
from portal.kernel.principal import Principal

NAMES: dict[str, Any] = {
    "embedding": gettext_lazy("Vector"),
    "keywords": gettext_lazy("Keyword"),
    "blend": gettext_lazy("Hybrid"),
}
SCALES: dict[str, Any] = {
    "cosine": gettext_lazy("cosine"),
    "bm25": gettext_lazy("BM25"),
    "blend": gettext_lazy("blend score"),
    "rrf": gettext_lazy("rank fusion"),
    "rerank": gettext_lazy("rerank score"),
}
# How `retrieve` names its steps and words its warnings, so that they are in the catalogue.
_WORDS_OF_RETRIEVAL = (
    gettext_noop("The embedding model is away; this was searched by words only."),
    gettext_noop("A base has no embedding model; it is searched by words only."),
    gettext_noop("what may be searched"),
    gettext_noop("embed the query"),
    gettext_noop("search by words"),
    gettext_noop("search by meaning"),
    gettext_noop("complete the scores"),
    gettext_noop("blend"),
    gettext_noop("load passages"),
    gettext_noop("rerank"),
    gettext_noop("diversify"),
    gettext_noop("search by questions"),
    gettext_noop("look for what was meant"),
)
_DETAILS: dict[str, Any] = {
    "bases": gettext_lazy("bases"),
    "leaves": gettext_lazy("chunks"),
    "candidates": gettext_lazy("candidates"),
    "passages": gettext_lazy("passages"),
    "model": gettext_lazy("model"),
    "weight": gettext_lazy("weight"),
    "fusion": gettext_lazy("fusion"),
    "diversity": gettext_lazy("diversity"),
    "moved": gettext_lazy("moved"),
}
_CHOICES_SHOWN = 200
_MOVES_SHOWN = 10


class HitTestForm(forms.Form):
    """A question with the settings of its search."""

    q = forms.CharField(
        label=gettext_lazy("Question"),
        max_length=1000,
        error_messages={"required": gettext_lazy("Enter a question.")},
        widget=forms.TextInput(attrs={"autocomplete": "off", "enterkeyhint": "search"}),
    )
    top_k = forms.IntegerField(label=gettext_lazy("Top"), min_value=1, max_value=50)
    threshold = forms.FloatField(
        label=gettext_lazy("Threshold"),
        min_value=0,
        max_value=1,
        help_text=gettext_lazy("On relevance, before the top is taken"),
        widget=forms.NumberInput(attrs={"step": "0.05"}),
    )
    weight = forms.FloatField(
        label=gettext_lazy("Share of meaning"),
        min_value=0,
        max_value=1,
        help_text=gettext_lazy("In Hybrid: 0 words only, 1 meaning only"),
        widget=forms.NumberInput(attrs={"step": "0.05"}),
    )
    fusion = forms.ChoiceField(
        label=gettext_lazy("Fusion"),
        choices=[("convex", gettext_lazy("Weighted sum")), ("rrf", gettext_lazy("Rank fusion (RRF)"))],
    )
    neighbours = forms.IntegerField(
        label=gettext_lazy("Neighbours"),
        min_value=0,
        max_value=3,
        help_text=gettext_lazy("Passages before and after each hit"),
    )
    per_document = forms.IntegerField(
        label=gettext_lazy("Passages of one document"),
        min_value=0,
        max_value=20,
        required=False,
        help_text=gettext_lazy("0 for no limit"),
    )
    diversity = forms.FloatField(
        label=gettext_lazy("Diversity"),
        min_value=0,
        max_value=1,
        required=False,
        help_text=gettext_lazy("0 relevance alone, 1 as different as can be"),
        widget=forms.NumberInput(attrs={"step": "0.05"}),
    )
    rerank = forms.ChoiceField(
        label=gettext_lazy("Rerank"),
        required=False,
        choices=[
            ("", gettext_lazy("As the base is set")),
            ("off", gettext_lazy("Off")),
            ("local", gettext_lazy("By the model on this installation")),
            ("endpoint", gettext_lazy("By a rerank model")),
            ("model", gettext_lazy("By a chat model")),
        ],
    )
    meta = forms.CharField(
        label=gettext_lazy("Metadata"),
        max_length=500,
        required=False,
        help_text=gettext_lazy("For example: year >= 2024; region in east, west"),
    )
    folder = forms.ChoiceField(label=gettext_lazy("Folder"), required=False)
    tag = forms.ChoiceField(label=gettext_lazy("Tag"), required=False)
    type = forms.ChoiceField(label=gettext_lazy("Type"), required=False)

    def __init__(self, *args: Any, choices: Mapping[str, list[tuple[str, str]]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, rows in choices.items():
            field = self.fields[name]
            assert isinstance(field, forms.ChoiceField)
            field.choices = [("", gettext("All")), *rows]

    def clean_meta(self) -> str:
        """Conditions that can be read."""
        text = str(self.cleaned_data["meta"] or "")
        try:
            metadata.parsed(text)
        except Invalid as error:
            raise forms.ValidationError(error.sentence()) from error
        return text

    @property
    def settings(self) -> SearchSettings:
        """The checked settings."""
        return SearchSettings.of(self.cleaned_data)


@dataclass(frozen=True, slots=True)
class Column:
    """One mode. `outcome` None: still to be searched, or `error` says in one sentence why it was not."""

    mode: Mode
    outcome: Mapping[str, Any] | None
    cards: list[passages.Card]
    settings: SearchSettings
    base: KnowledgeBase
    query: str
    run: str = ""
    error: str = ""
    trace_id: str = ""

    @property
    def name(self) -> str:
        return str(NAMES[self.mode])

    @property
    def values(self) -> str:
        """What a column that is still to come sends, as JSON for `hx-vals`."""
        settings = {"run": self.run} if self.run else {"q": self.query, **self.settings.chosen}
        return json.dumps({**settings, "mode": self.mode})

    @property
    def _own_settings(self) -> SearchSettings:
        return replace(self.settings, mode=self.mode)

    @property
    def fingerprint(self) -> str:
        return self._own_settings.fingerprint([self.base.uid])

    @property
    def ask_address(self) -> str:
        """The ask page, asked the same with exactly these settings."""
        return f"/ask/?{self._own_settings.encoded([self.base.uid], self.query)}"

    @property
    def warnings(self) -> list[str]:
        return [gettext(str(warning["message"])) for warning in self.outcome["warnings"]] if self.outcome else []

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The steps of the search, in words where there are some."""
        rows = self.outcome["trace"].get("steps", []) if self.outcome else []
        return [
            {
                "name": gettext(str(row["name"])),
                "milliseconds": row["milliseconds"],
                "details": [(_DETAILS[key], _told(value)) for key, value in row["detail"].items() if key in _DETAILS],
                "plan": row["detail"].get("plan", ""),
                "why": row["detail"].get("why", ""),
            }
            for row in rows
        ]

    @property
    def fused(self) -> list[dict[str, Any]]:
        """The ranking before anything was cut off; names only of what is shown as a card."""
        rows = self.outcome["trace"].get("fused", []) if self.outcome else []
        names = {card.hit["chunk"]: card.hit["document_name"] for card in self.cards if card.available}
        return [
            {**row, "name": names.get(row["passage"], ""), "percent": round(100 * row["relevance"])} for row in rows
        ]

    @property
    def recalled(self) -> int | None:
        """How many passages were candidates before the threshold."""
        for row in self.outcome["trace"].get("steps", []) if self.outcome else []:
            if "passages" in row["detail"]:
                return int(row["detail"]["passages"])
        return None


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def hit_test(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """The page at `/bases/<b>/hit-test/`; settings in the address fill the form and search at once."""
    opened = access_base(principal, base)
    choices = _choices(principal, opened)
    if request.method == "POST":
        form = HitTestForm(request.POST, choices=choices)
        return _tested(request, principal, opened, form) if form.is_valid() else _page(request, principal, opened, form)
    settings = SearchSettings.of(request.GET).filled(base_settings.read(opened.config).searching)
    query = request.GET.get("q", "").replace("\x00", "").strip()[:1000]
    form = HitTestForm(initial=_initial(query, settings), choices=choices)
    columns = _columns(principal, opened, query, settings) if query else []
    return _page(request, principal, opened, form, columns=columns)


@require_safe
@signed_in
def saved_run(request: PortalRequest, principal: Principal, base: str, run: str) -> HttpResponse:
    """A saved run at `/bases/<b>/hit-test/<run>/`; columns that are missing are searched now."""
    opened = access_base(principal, base)
    row = hit_tests.access_run(principal, opened, run)
    settings = SearchSettings.of(row.request)
    form = HitTestForm(initial=_initial(row.query, settings), choices=_choices(principal, opened))
    columns = _columns(principal, opened, row.query, settings, row)
    return _page(request, principal, opened, form, columns=columns, run_row=row)


@require_POST
@signed_in
def column(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """One column, searched now: with the settings of a saved run, or with those sent."""
    opened = access_base(principal, base)
    mode = request.POST.get("mode", "")
    if mode not in MODES:
        raise NotFound("Not found, or you don't have access.")
    row = hit_tests.access_run(principal, opened, request.POST["run"]) if request.POST.get("run") else None
    if row is not None:
        query, settings = row.query, SearchSettings.of(row.request)
    else:
        query = request.POST.get("q", "").replace("\x00", "").strip()[:1000]
        settings = SearchSettings.of(request.POST).filled(base_settings.read(opened.config).searching)
    searched = _searched(request, principal, opened, query, settings, mode, row)
    known = {**row.result, mode: searched.outcome} if row is not None else {mode: searched.outcome}
    context = {
        **base_frame(opened, "hit-test"),
        "column": _with_ranks([searched], known)[0],
        "scales": SCALES,
        "column_names": _column_names(),
    }
    return render(request, "knowledge/hit_test_column.html", context)


def _tested(request: PortalRequest, principal: Principal, base: KnowledgeBase, form: HitTestForm) -> HttpResponse:
    query, settings = form.cleaned_data["q"], form.settings
    row = hit_tests.start(principal, base, query, settings.chosen)
    if is_htmx(request):
        # Scripts are there: the columns come one by one, each as soon as it is found.
        columns = _columns(principal, base, query, settings, row)
        response = _page(request, principal, base, form, columns=columns, run_row=row)
        address = f"{row.uid}/" if row else f"?{settings.encoded(query=query)}"
        response.headers["HX-Push-Url"] = f"/bases/{base.uid}/hit-test/{address}"
        return response
    found = [_searched(request, principal, base, query, settings, mode, row) for mode in COLUMNS]
    if row is not None and not any(column.error for column in found):
        return HttpResponseRedirect(f"/bases/{base.uid}/hit-test/{row.uid}/")
    outcomes: dict[str, Any] = {column.mode: column.outcome for column in found}
    return _page(request, principal, base, form, columns=_with_ranks(found, outcomes), run_row=row)


def _searched(
    request: PortalRequest,
    principal: Principal,
    base: KnowledgeBase,
    query: str,
    settings: SearchSettings,
    mode: Mode,
    row: QueryRecord | None,
) -> Column:
    uid = row.uid if row else ""
    try:
        outcome = hit_tests.search(principal, settings.request(query, [base.uid]), mode, row)
    except Unavailable as error:
        # A part that is away leaves the other columns as they are.
        return Column(mode, None, [], settings, base, query, uid, error=error.sentence(), trace_id=request.trace)
    return Column(mode, outcome, passages.cards(principal, outcome["hits"]), settings, base, query, uid)


def _columns(
    principal: Principal,
    base: KnowledgeBase,
    query: str,
    settings: SearchSettings,
    row: QueryRecord | None = None,
) -> list[Column]:
    """The columns as far as a run holds them; the others load themselves."""
    outcomes: dict[str, Any] = row.result if row is not None else {}
    found = []
    for mode in COLUMNS:
        outcome = outcomes.get(mode)
        shown = passages.cards(principal, outcome["hits"]) if outcome else []
        found.append(Column(mode, outcome, shown, settings, base, query, row.uid if row else ""))
    return _with_ranks(found, outcomes)


def _with_ranks(columns: list[Column], outcomes: Mapping[str, Any]) -> list[Column]:
    """Each card with its rank in the other columns: a number, 0 where it is not among the hits, None where unknown."""
    ranks = {
        mode: {hit["chunk"]: hit["rank"] for hit in outcome["hits"]} for mode, outcome in outcomes.items() if outcome
    }
    found = []
    for item in columns:
        others = [mode for mode in COLUMNS if mode != item.mode]
        shown = [
            replace(
                card,
                elsewhere=tuple(
                    (mode, ranks[mode].get(card.hit["chunk"], 0) if mode in ranks else None) for mode in others
                ),
            )
            for card in item.cards
        ]
        found.append(replace(item, cards=shown))
    return found


def _page(
    request: HttpRequest,
    principal: Principal,
    base: KnowledgeBase,
    form: HitTestForm,
    *,
    columns: list[Column] | None = None,
    run_row: QueryRecord | None = None,
) -> HttpResponse:
    tab = request.GET.get("tab", "")
    shown = columns or []
    context = {
        **base_frame(base, "hit-test"),
        "form": form,
        "columns": shown,
        "run": run_row,
        "runs": hit_tests.runs(principal, base),
        "keeps_runs": base_settings.read(base.config).searching.log_queries,
        "column_names": _column_names(),
        "scales": SCALES,
        "current": tab if tab in MODES else "blend",
        "share": shown[0].settings.encoded(query=shown[0].query) if shown else "",
        "more": _more(form, base),
    }
    template = "knowledge/hit_test_body.html" if is_htmx(request) else "knowledge/hit_test.html"
    return render(request, template, context, status=422 if form.errors else 200)


def _more(form: HitTestForm, base: KnowledgeBase) -> bool:
    """Whether the folded settings hold something that the base does not say itself, or something wrong."""
    names = ("weight", "fusion", "neighbours", "per_document", "diversity", "rerank", "meta", "folder", "tag", "type")
    own = _initial("", SearchSettings().filled(base_settings.read(base.config).searching))
    return any(str(form[name].value() or "0") != str(own.get(name) or "0") or form[name].errors for name in names)


def _initial(query: str, settings: SearchSettings) -> dict[str, Any]:
    """The form's values; shares as people write them: 0, 0.25, 1."""
    shown = {name: f"{value:g}" if isinstance(value, float) else value for name, value in settings.chosen.items()}
    return {"q": query, **shown}


def _told(value: Any) -> Any:
    """A detail of a step on one line; passages that moved as `c_12 7→2`."""
    if not isinstance(value, list):
        return value
    return ", ".join(f"c_{row['passage']} {row['from']}→{row['to']}" for row in value[:_MOVES_SHOWN]) or 0


def _column_names() -> list[tuple[str, Any]]:
    return [(mode, NAMES[mode]) for mode in COLUMNS]


def _choices(principal: Principal, base: KnowledgeBase) -> dict[str, list[tuple[str, str]]]:
    """Folders, tags and types that the base's documents have."""
    rows = visible_documents(principal).filter(base=base)
    folders = sorted({part for folder in _distinct(rows, "folder") for part in _ancestors(folder)})
    tags = sorted({tag for tags in rows.exclude(tags=[]).values_list("tags", flat=True)[:5000] for tag in tags})
    labels = {kind.mime: kind.label for kind in FILE_TYPES}
    types = sorted((labels.get(mime, mime), mime) for mime in _distinct(rows, "active_revision__mime"))
    return {
        "folder": [(folder, folder) for folder in folders[:_CHOICES_SHOWN]],
        "tag": [(tag, tag) for tag in tags[:_CHOICES_SHOWN]],
        "type": [(mime, label) for label, mime in types],
    }


def _distinct(rows: Any, name: str) -> list[str]:
    values = Document.objects.filter(pk__in=rows.values("pk")).order_by().values_list(name, flat=True).distinct()
    return [value for value in values[:5000] if value]


def _ancestors(folder: str) -> list[str]:
    names = folder.split("/")
    return ["/".join(names[: at + 1]) for at in range(len(names))]
