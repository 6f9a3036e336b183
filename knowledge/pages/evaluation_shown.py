"""What the evaluation pages show of runs: measures beside a baseline's, cases with their ranks, what changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext, gettext_lazy

from knowledge.access import visible_documents
from knowledge.models import CaseResult, CaseTarget, EvaluationCase, EvaluationRun, KnowledgeBase
from knowledge.pages.charts import Chart, chart
from knowledge.quality import runs
from knowledge.quality.cases import is_live
from portal.kernel.errors import sentence_of
from portal.kernel.principal import Principal

VARIANT_NAMES: dict[str, Any] = {
    "blend": gettext_lazy("Hybrid"),
    "keywords": gettext_lazy("Keyword"),
    "embedding": gettext_lazy("Vector"),
    "before": gettext_lazy("Before"),
    "after": gettext_lazy("After"),
}
MEASURE_NAMES: dict[str, Any] = {
    "recall@1": gettext_lazy("Recall@1"),
    "recall@5": gettext_lazy("Recall@5"),
    "recall@10": gettext_lazy("Recall@10"),
    "mrr@10": gettext_lazy("MRR@10"),
    "ndcg@10": gettext_lazy("nDCG@10"),
    "p50_ms": gettext_lazy("p50 ms"),
    "p95_ms": gettext_lazy("p95 ms"),
}
CHARTED = (("recall@5", ""), ("mrr@10", ""), ("ndcg@10", ""), ("p95_ms", "ms"))
# Runs that the charts go back.
CHARTED_RUNS = 24
FEW = 30


def name_of(variant: str) -> str:
    """A variant's name in the reader's language, where it is one of ours."""
    return str(VARIANT_NAMES.get(variant, variant))


def why_of(run: EvaluationRun) -> str:
    """Why a run ended as it did, in one sentence; empty when it went well."""
    return sentence_of(run.error_message, run.error_params)


@dataclass(frozen=True, slots=True)
class Cell:
    """A measure, and by how much it differs from the baseline's: `tone` says whether that is better or worse."""

    shown: str
    delta: str = ""
    tone: str = ""
    measure: str = ""

    @property
    def label(self) -> str:
        """The measure's name."""
        return str(MEASURE_NAMES[self.measure])


@dataclass(frozen=True, slots=True)
class Line:
    """A variant of a run with its measures."""

    name: str
    label: str
    cells: tuple[Cell, ...]
    cases: int


def lines_of(run: EvaluationRun, other: EvaluationRun | None = None) -> list[Line]:
    """The variants of a run with their measures, beside those of a baseline (for the gate: "before")."""
    measures = run.measures if not run.is_open else runs.measures_of(run)
    found = []
    for row in run.variants:
        name = row["name"]
        mine = measures.get(name, {})
        if run.purpose == EvaluationRun.Purpose.GATE:
            base = measures.get("before", {}) if name == "after" else {}
        else:
            base = other.measures.get(name, {}) if other is not None else {}
        cells = tuple(_cell(measure, mine, base) for measure in MEASURE_NAMES)
        found.append(Line(name, name_of(name), cells, int(mine.get("cases", 0))))
    return found


def _cell(measure: str, mine: dict[str, float], base: dict[str, float]) -> Cell:
    if measure not in mine:
        return Cell("—", measure=measure)
    value, times = mine[measure], measure.endswith("_ms")
    text = f"{value:.0f}" if times else f"{value:.3f}"
    if measure not in base:
        return Cell(text, measure=measure)
    change = value - base[measure]
    small = abs(change) < (0.5 if times else 0.0005)
    if small:
        return Cell(text, "±0", measure=measure)
    better = change < 0 if times else change > 0
    delta = f"{change:+.0f}" if times else f"{change:+.3f}"
    return Cell(text, delta.replace("-", "−"), "ok" if better else "bad", measure)


@dataclass(frozen=True, slots=True)
class Titled:
    """A chart with a title that says what it shows."""

    chart: Chart
    title: str
    measure: str


def charts_of(base: KnowledgeBase, mode: str) -> list[Titled]:
    """The measures of the newest finished runs over time, by variant; the titles speak of the base's own mode."""
    rows = EvaluationRun.objects.filter(base=base, status=EvaluationRun.Status.DONE, purpose="manual").order_by("-pk")
    newest = list(reversed(rows[:CHARTED_RUNS]))
    names = list(dict.fromkeys([mode, "blend", "keywords", "embedding", *_other_names(newest)]))
    found = []
    for measure, unit in CHARTED:
        points = [
            (
                run.created_at,
                {name: float(values[measure]) for name, values in run.measures.items() if measure in values},
            )
            for run in newest
        ]
        drawn = chart(measure, unit, names, points)
        if drawn is not None:
            found.append(Titled(drawn, _finding(measure, drawn), str(MEASURE_NAMES[measure])))
    return found


def _other_names(rows: Iterable[EvaluationRun]) -> list[str]:
    return [row["name"] for run in rows for row in run.variants]


def _finding(measure: str, drawn: Chart) -> str:
    dots = drawn.series[0].dots
    words = {"measure": str(MEASURE_NAMES[measure]), "value": dots[-1].shown, "name": name_of(drawn.series[0].name)}
    if len(dots) < 2 or dots[-1].shown == dots[-2].shown:
        return gettext("%(name)s: %(measure)s is at %(value)s") % words
    if dots[-1].value > dots[-2].value:
        return gettext("%(name)s: %(measure)s rose to %(value)s") % words
    return gettext("%(name)s: %(measure)s fell to %(value)s") % words


@dataclass(frozen=True, slots=True)
class Ranked:
    """A case in one variant: its rank now and in the baseline (None: not among the ten; `compared`: it was asked)."""

    case: EvaluationCase
    rank: int | None
    before: int | None
    compared: bool
    judged: bool

    @property
    def change(self) -> int:
        """Ranks won (positive) or lost; leaving or entering the ten counts as the eleventh rank."""
        return (self.before or 11) - (self.rank or 11) if self.compared and self.judged else 0

    @property
    def fell(self) -> int:
        """Ranks lost."""
        return -self.change


SHOWS = ("all", "worse", "better", "missed")


def ranked_cases(
    run: EvaluationRun, variant: str, other: EvaluationRun | None, other_variant: str, show: str
) -> list[Ranked]:
    """The cases of a run, what became worse first."""
    before = {}
    if other is not None:
        earlier = CaseResult.objects.filter(run=other, variant=other_variant).exclude(scores=[])
        before = dict(earlier.values_list("case_id", "rank"))
    results = CaseResult.objects.filter(run=run, variant=variant).select_related("case").order_by("case_id")
    rows = [
        Ranked(row.case, row.rank, before.get(row.case_id), row.case_id in before, bool(row.scores)) for row in results
    ]
    kept = {
        "worse": lambda row: row.change < 0,
        "better": lambda row: row.change > 0,
        "missed": lambda row: row.judged and row.rank is None,
    }.get(show, lambda row: True)
    return sorted(filter(kept, rows), key=lambda row: (row.change, -(row.rank or 11), row.case.pk))


@dataclass(frozen=True, slots=True)
class Expected:
    """What a case expects, as far as the asker may see it. `gone`: it can not be found any more."""

    target: CaseTarget
    name: str
    address: str
    gone: bool


def expected_of(principal: Principal, base: KnowledgeBase, rows: Sequence[EvaluationCase]) -> dict[int, list[Expected]]:
    """What each case expects, by the case's key."""
    targets = CaseTarget.objects.filter(case__in=rows).select_related("document").order_by("pk")
    found: dict[int, list[Expected]] = {row.pk: [] for row in rows}
    for target in targets:
        gone = not is_live(target, base.pk)
        document = None if gone else target.document
        address = f"/bases/{base.uid}/documents/{document.uid}/" if document else ""
        found[target.case_id].append(Expected(target, document.name if document else "", address, gone))
    return found


@dataclass(frozen=True, slots=True)
class Found:
    """One rank of a case: the document, as far as it is still there."""

    rank: int
    name: str
    address: str
    relevance: int
    grade: int


def found_of(principal: Principal, base: KnowledgeBase, result: CaseResult | None) -> list[Found]:
    """What a case found in a run, named as far as the asker may see it now."""
    if result is None:
        return []
    uids = {row["document"] for row in result.found}
    names = dict(visible_documents(principal).filter(base=base, uid__in=uids).values_list("uid", "name"))
    return [
        Found(
            rank,
            names.get(row["document"], ""),
            f"/bases/{base.uid}/documents/{row['document']}/" if row["document"] in names else "",
            round(100 * row["relevance"]),
            row["grade"],
        )
        for rank, row in enumerate(result.found, 1)
    ]
