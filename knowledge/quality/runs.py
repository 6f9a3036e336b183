"""Runs of a base's evaluation set: started, worked through in slices, summed up, compared.

A variant is one way to search: a mode and settings of `searching` that differ from the base's own. Each case is
asked once a variant; what was found is kept by id (`CaseResult`), so that a run that was interrupted goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from django.db.models import Count, QuerySet

from knowledge import background, base_settings
from knowledge.access import access_base, visible_bases
from knowledge.evaluation import MEASURES, PASSAGES
from knowledge.models import CaseResult, EvaluationCase, EvaluationRun, KnowledgeBase, Role
from knowledge.quality import trials
from knowledge.quality.cases import live_targets
from knowledge.quality.judging import judged
from knowledge.retrieval import MODES, Mode, RetrievalRequest, RetrievalResult, retrieve
from portal.kernel import audit
from portal.kernel.errors import ArchwayError, Conflict, Invalid, NotFound, Unavailable
from portal.kernel.principal import Principal

logger = logging.getLogger(__name__)

MOST_VARIANTS = 6
KEPT_RUNS = 200


def variant(name: str, mode: Mode, settings: dict[str, Any] | None = None) -> dict[str, Any]:
    """A way to search, as runs keep it. `settings`: fields of `searching` that differ from the base's."""
    return {"name": name[:40], "mode": mode, "settings": settings or {}}


def start(
    principal: Principal, base: KnowledgeBase, variants: Sequence[dict[str, Any]] = (), *, label: str = ""
) -> EvaluationRun:
    """Queue a run of all enabled cases; the base comes from `access_base(…, EDITOR)`. No variants: the three modes.

    Raises `Invalid` (no_cases, variants_invalid, settings_invalid) and `Conflict` (evaluation_open).
    """
    chosen = list(variants) or [variant(mode, mode) for mode in MODES]
    names = {row["name"] for row in chosen}
    if len(chosen) > MOST_VARIANTS or len(names) < len(chosen) or any(row["mode"] not in MODES for row in chosen):
        raise Invalid(
            "Choose 1 to %(most)s variants with names of their own.", code="variants_invalid", most=MOST_VARIANTS
        )
    for row in chosen:
        settings_of(base, row)
    if EvaluationRun.objects.filter(base=base, status__in=EvaluationRun.OPEN, purpose="manual").exists():
        raise Conflict("An evaluation of this base is running already.", code="evaluation_open")
    return create(principal, base, chosen, label=label.strip()[:200])


def create(principal: Principal, base: KnowledgeBase, variants: list[dict[str, Any]], **fields: Any) -> EvaluationRun:
    """Queue a run, whatever else is running. Raises `Invalid` (no_cases)."""
    number = EvaluationCase.objects.filter(base=base, enabled=True).count()
    if not number:
        raise Invalid("Add a question to the evaluation set first.", code="no_cases")
    run = EvaluationRun.objects.create(
        **background.as_asked_by(principal),
        base=base,
        variants=variants,
        total=number * len(variants),
        conditions={
            "searching": base_settings.read(base.config).searching.model_dump(mode="json"),
            "splitting": base_settings.read(base.config).splitting.model_dump(mode="json"),
            "model": base.embedding.name,
            "stamp": base.stamp,
        },
        **fields,
    )
    audit.record(principal, "evaluation.start", run, base_ids=[base.pk], purpose=run.purpose, cases=number)
    background.wake(run)
    return run


def settings_of(base: KnowledgeBase, row: dict[str, Any]) -> base_settings.BaseSettings:
    """All settings of a variant. Raises `Invalid` (settings_invalid)."""
    now = base_settings.read(base.config)
    sections = row["settings"].get("sections", {})
    plain = {name: value for name, value in row["settings"].items() if name != "sections"}
    config = now.model_dump(mode="json")
    for section, values in {**sections, **({"searching": plain} if plain else {})}.items():
        config = base_settings.with_section(config, section, {**config[section], **values})
    return base_settings.read(config)


def visible_runs(principal: Principal) -> QuerySet[EvaluationRun]:
    """The runs of the bases that the asker may edit."""
    return EvaluationRun.objects.filter(base__in=visible_bases(principal, Role.EDITOR))


def access_run(principal: Principal, uid: str) -> EvaluationRun:
    """The run with this uid, its base at hand. `NotFound` when absent or hidden."""
    run = visible_runs(principal).select_related("base", "created_by").filter(uid=uid).first()
    if run is None:
        raise NotFound("Not found, or you don't have access.")
    return run


def work(run_id: int) -> bool:
    """One slice of a run; returns whether there is more to do now. Does nothing when somebody else is at it."""
    run = EvaluationRun.objects.filter(pk=run_id).first()
    turn = background.claim(run) if run is not None else None
    return turn is not None and _slice(turn)


def _slice(turn: background.Turn[EvaluationRun]) -> bool:
    from knowledge.quality import gate

    turn.work = run = EvaluationRun.objects.select_related("base", "base__embedding", "created_by", "trial").get(
        pk=turn.work.pk
    )
    try:
        principal = background.asker_of(run)
        access_base(principal, run.base.uid, Role.EDITOR)
        if not (trials.prepare(principal, turn) and _ask_all(principal, turn)):
            turn.release()
            return True
        if background.end(run, EvaluationRun.Status.DONE, measures=measures_of(run)):
            gate.conclude(principal, run)
    except background.Stopped as stopped:
        background.end(run, EvaluationRun.Status.CANCELLED, stopped, measures=measures_of(run))
    except Unavailable as error:
        # The sweeper sends somebody again when the model may be back.
        logger.warning("evaluation %s waits: %s", run.pk, error.code)
        turn.release()
        return False
    except ArchwayError as error:
        if error.code == "claim_lost":
            return False
        if background.fail(run, error):
            gate.broke(run, error)
    trials.drop(run)
    return False


def _ask_all(principal: Principal, turn: background.Turn[EvaluationRun]) -> bool:
    """Returns whether every case was asked; False when the slice is over first."""
    run = turn.work
    cases = list(
        EvaluationCase.objects.filter(base=run.base, enabled=True, pk__lte=_last_case(run))
        .prefetch_related("targets__document")
        .order_by("pk")
    )
    asked = set(CaseResult.objects.filter(run=run).values_list("variant", "case_id"))
    turn.note(total=len(cases) * len(run.variants))
    run.done = len(asked)
    turn.at(run.done, always=True)
    for row in run.variants:
        settings = settings_of(run.base, row)
        for case in cases:
            if (row["name"], case.pk) not in asked:
                _ask(principal, run, row, settings, case)
                run.done += 1
                turn.at(run.done)
                if turn.over:
                    return False
    turn.at(run.done, always=True)
    return True


def _last_case(run: EvaluationRun) -> int:
    """Cases that are added while a run is under way wait for the next one."""
    newest = EvaluationCase.objects.filter(base=run.base, created_at__lte=run.created_at).order_by("-pk").first()
    return newest.pk if newest else 0


def _ask(
    principal: Principal,
    run: EvaluationRun,
    row: dict[str, Any],
    settings: base_settings.BaseSettings,
    case: EvaluationCase,
) -> None:
    targets = live_targets(case)
    result = search(principal, run, row, settings, case.question)
    found = judged(result.hits, targets) if targets else None
    CaseResult.objects.get_or_create(
        run=run,
        variant=row["name"],
        case=case,
        defaults={
            "rank": found.rank if found else None,
            "scores": [round(value, 4) for value in found.scores] if found else [],
            "found": [
                {"document": place.document, "chunk": place.chunk, "relevance": place.relevance, "grade": place.grade}
                for place in (found.places if found else ())
            ],
            "milliseconds": round(result.milliseconds, 2),
        },
    )


def search(
    principal: Principal,
    run: EvaluationRun,
    row: dict[str, Any],
    settings: base_settings.BaseSettings,
    question: str,
) -> RetrievalResult:
    """One question in one variant. Raises `Unavailable` rather than measure a search that lacked its model."""
    request = RetrievalRequest(question, base_uids=(run.base.uid,), mode=row["mode"], top_k=PASSAGES)
    if run.trial is not None:
        result = trials.search(principal, run, row, settings, request)
    else:
        result = retrieve(principal, request, settings=settings)
    if any(warning["code"] == "embedding_away" for warning in result.warnings):
        raise Unavailable(
            "The embedding model is away; the evaluation goes on when it is back.", code="embedding_unavailable"
        )
    return replace(result, trace={})


def measures_of(run: EvaluationRun) -> dict[str, dict[str, float]]:
    """Means and times of each variant over what was asked so far, by its name."""
    rows: dict[str, list[tuple[list[float], float]]] = {row["name"]: [] for row in run.variants}
    for name, scores, milliseconds in CaseResult.objects.filter(run=run).values_list(
        "variant", "scores", "milliseconds"
    ):
        rows.setdefault(name, []).append((scores, milliseconds))
    return {name: _summed(found) for name, found in rows.items()}


def _summed(rows: Iterable[tuple[list[float], float]]) -> dict[str, float]:
    found = list(rows)
    scores = [scores for scores, _ in found if scores]
    times = [milliseconds for _, milliseconds in found]
    if not scores:
        return {"cases": 0}
    means = np.mean(scores, axis=0)
    p50, p95 = np.percentile(times, [50, 95])
    named = {name: round(float(value), 4) for name, value in zip(MEASURES, means, strict=True)}
    return {**named, "p50_ms": round(float(p50), 2), "p95_ms": round(float(p95), 2), "cases": len(scores)}


def forget_old(base: KnowledgeBase) -> None:
    """Of a base's runs the newest are kept."""
    old = EvaluationRun.objects.filter(base=base).order_by("-pk").values_list("pk", flat=True)[KEPT_RUNS:]
    EvaluationRun.objects.filter(pk__in=list(old)).exclude(status__in=EvaluationRun.OPEN).delete()


def counts(base: KnowledgeBase) -> dict[str, int]:
    """How many cases a base has, and how many of them are asked."""
    rows = EvaluationCase.objects.filter(base=base)
    found = dict(rows.order_by().values_list("enabled").annotate(n=Count("pk")))
    return {"cases": sum(found.values()), "enabled": found.get(True, 0)}
