"""Whether a change of settings may go ahead: the base's evaluation set asked before and after.

`off`: saved at once. `warn`: saved at once, and people are told when the chosen measure falls by more than the
tolerance. `block`: saved when it does not fall; otherwise it waits until somebody who manages the base saves it
anyway, with a reason, or drops it. Settings of searching are tried as they are; splitting and model need a trial.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from django.db import transaction

from knowledge import base_settings, bases, model_changes, notices
from knowledge.access import access_base
from knowledge.models import EvaluationRun, KnowledgeBase, Role
from knowledge.quality import runs, trials
from portal.gateway.endpoints import embedding_endpoint
from portal.kernel import audit
from portal.kernel.errors import ArchwayError, Conflict, Invalid
from portal.kernel.principal import Principal

# Sections whose change may alter what is found.
TRIED_AT_ONCE = frozenset({"searching", "reranking"})
GATED = TRIED_AT_ONCE | trials.NEEDED_FOR
# Fields that change nothing about what is found.
_NEUTRAL = frozenset({"log_queries", "top_k", "neighbours", "review"})
# Up to so many cases are asked while the person waits.
SMALL = 15
Verdict = EvaluationRun.Verdict


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a change. `checking`: a run is under way; `held`: it made the set worse and was not saved."""

    state: Literal["saved", "checking", "held"]
    base: KnowledgeBase
    run: EvaluationRun | None = None

    @property
    def worse(self) -> bool:
        """Whether it is known by now that the change made the set worse."""
        return self.run is not None and self.run.verdict == Verdict.WORSE


def save_settings(
    principal: Principal, base: KnowledgeBase, section: str, values: dict[str, Any], *, version: int | None = None
) -> Outcome:
    """Change a section of a base's settings through its gate; the base comes from `access_base(…, OWNER)`.

    Raises what `bases.save_settings` raises.
    """
    quality = base_settings.read(base.config).quality
    if quality.gate == "off" or not _matters(base, section, values) or not runs.counts(base)["enabled"]:
        return Outcome("saved", bases.save_settings(principal, base, section, values, version=version))
    if version is not None and version != base.config_version:
        raise Conflict("Somebody has changed these settings meanwhile; look at them again.", code="settings_changed")
    _nothing_waits(base, section)
    candidate = {"section": section, "values": values, "version": base.config_version}
    before = base_settings.read(base.config).model_dump(mode="json").get(section, {})
    saved = bases.save_settings(principal, base, section, values, version=version) if quality.gate == "warn" else base
    run = _begin(principal, saved, candidate, before, applied=quality.gate == "warn")
    if section in TRIED_AT_ONCE and runs.counts(base)["enabled"] <= SMALL:
        while runs.work(run.pk):
            pass
        run.refresh_from_db()
        saved = KnowledgeBase.objects.get(pk=base.pk)
    if run.applied:
        return Outcome("saved", saved, run)
    return Outcome("held" if run.verdict == Verdict.WORSE else "checking", saved, run)


def change_model(principal: Principal, base: KnowledgeBase, endpoint_uid: str, *, confirmed: bool = False) -> Outcome:
    """Change a base's embedding model through its gate. Raises what `model_changes.start` raises."""
    quality = base_settings.read(base.config).quality
    endpoint = embedding_endpoint(principal, endpoint_uid)
    refused = endpoint.pk == base.embedding_id or (
        base.sensitive and model_changes.may_leave_house(endpoint) and not confirmed
    )
    if quality.gate == "off" or refused or not runs.counts(base)["enabled"]:
        model_changes.start(principal, base, endpoint_uid, confirmed=confirmed)
        return Outcome("saved", base)
    _nothing_waits(base, "model")
    if quality.gate == "warn":
        model_changes.start(principal, base, endpoint_uid, confirmed=confirmed)
    candidate = {"section": "model", "values": {"embedding": endpoint_uid, "confirmed": confirmed}, "version": 0}
    run = _begin(principal, base, candidate, {}, applied=quality.gate == "warn")
    return Outcome("saved" if run.applied else "checking", base, run)


def _matters(base: KnowledgeBase, section: str, values: dict[str, Any]) -> bool:
    """Whether a change can alter what is found. Raises `Invalid` when the values are wrong."""
    if section not in GATED or section not in base_settings.BaseSettings.model_fields:
        return False
    before = base_settings.read(base.config).model_dump(mode="json")[section]
    after = base_settings.with_section(base.config, section, values)[section]
    return any(before[name] != after[name] for name in after if name not in _NEUTRAL)


def _nothing_waits(base: KnowledgeBase, section: str) -> None:
    """One change at a time: a new one of the same section replaces one that waits for a decision."""
    rows = EvaluationRun.objects.filter(base=base, purpose=EvaluationRun.Purpose.GATE, applied=False)
    if rows.filter(status__in=EvaluationRun.OPEN).exists():
        raise Conflict("Another change of this base is being checked.", code="gate_open")
    rows.filter(verdict=Verdict.WORSE, candidate__section=section).update(verdict=Verdict.DROPPED)


def _begin(
    principal: Principal, base: KnowledgeBase, candidate: dict[str, Any], before: dict[str, Any], *, applied: bool
) -> EvaluationRun:
    section = candidate["section"]
    mode = base_settings.read(base.config).searching.mode
    sides = [runs.variant("before", mode), runs.variant("after", mode)]
    if section in TRIED_AT_ONCE:
        # Each side says all of the section, so that a later change does not alter what this run compares.
        sides = [
            runs.variant("before", before.get("mode", mode), {"sections": {section: before}}),
            runs.variant("after", candidate["values"].get("mode", mode), {"sections": {section: candidate["values"]}}),
        ]
    return runs.create(principal, base, sides, purpose=EvaluationRun.Purpose.GATE, candidate=candidate, applied=applied)


def conclude(principal: Principal, run: EvaluationRun) -> None:
    """Judge a run of the gate that has come to its end; save what waited for it, or tell people."""
    if run.purpose != EvaluationRun.Purpose.GATE:
        runs.forget_old(run.base)
        return
    run.verdict = Verdict.WORSE if fall(run) > base_settings.read(run.base.config).quality.tolerance else Verdict.FINE
    EvaluationRun.objects.filter(pk=run.pk).update(verdict=run.verdict)
    if run.verdict == Verdict.FINE and not run.applied:
        try:
            _apply(principal, run)
        except ArchwayError as error:
            broke(run, error)
    elif run.verdict == Verdict.WORSE:
        _tell(run, "gate.worse" if run.applied else "gate.held")


def fall(run: EvaluationRun) -> float:
    """By how much the chosen measure fell from before to after; negative when it rose."""
    measure = base_settings.read(run.base.config).quality.measure
    before, after = (run.measures.get(name, {}) for name in ("before", "after"))
    if not before.get("cases") or not after.get("cases"):
        return 0.0
    return round(float(before[measure]) - float(after[measure]), 6)


def overrule(principal: Principal, run: EvaluationRun, reason: str) -> None:
    """Save a change that made the set worse; the run's base comes from `access_base(…, OWNER)`.

    Raises `Invalid` (reason_missing), `Conflict` (gate_nothing_held) and what saving raises.
    """
    if len(reason.strip()) < 10:
        raise Invalid("Say why, in at least ten characters.", code="reason_missing")
    with transaction.atomic():
        _decide(run, Verdict.OVERRULED)
        audit.record(
            principal,
            "gate.overrule",
            run.base,
            base_ids=[run.base_id],
            section=run.candidate["section"],
            reason=reason.strip()[:500],
            measures=run.measures,
        )
        _apply(principal, run)


@transaction.atomic
def drop(principal: Principal, run: EvaluationRun) -> None:
    """Leave the settings as they are. Raises `Conflict` (gate_nothing_held)."""
    _decide(run, Verdict.DROPPED)
    audit.record(principal, "gate.drop", run.base, base_ids=[run.base_id], section=run.candidate["section"])


def _decide(run: EvaluationRun, verdict: EvaluationRun.Verdict) -> None:
    held = EvaluationRun.objects.filter(pk=run.pk, verdict=Verdict.WORSE, applied=False)
    if held.update(verdict=verdict) != 1:
        raise Conflict("This change does not wait for a decision.", code="gate_nothing_held")
    run.verdict = verdict


def _apply(principal: Principal, run: EvaluationRun) -> None:
    """Save the candidate with the rights of whoever wanted or overruled it."""
    base = access_base(principal, run.base.uid, Role.OWNER)
    candidate = run.candidate
    with transaction.atomic():
        if candidate["section"] == "model":
            model_changes.start(principal, base, **_model_arguments(candidate["values"]))
        else:
            bases.save_settings(
                principal, base, candidate["section"], candidate["values"], version=candidate["version"]
            )
        EvaluationRun.objects.filter(pk=run.pk).update(applied=True)
    run.applied = True


def _model_arguments(values: dict[str, Any]) -> dict[str, Any]:
    return {"endpoint_uid": values["embedding"], "confirmed": bool(values.get("confirmed"))}


def broke(run: EvaluationRun, error: ArchwayError) -> None:
    """Tell people that a change that waited was not saved, and why."""
    if run.purpose == EvaluationRun.Purpose.GATE and not run.applied:
        EvaluationRun.objects.filter(pk=run.pk).update(verdict=Verdict.DROPPED)
        _tell(run, "gate.failed", reason=error.message, reason_params=dict(error.params))


def _tell(run: EvaluationRun, kind: str, **params: Any) -> None:
    notices.tell_of_work(
        run,
        kind,
        page=f"evaluation/{run.uid}/",
        measure=base_settings.read(run.base.config).quality.measure,
        fall=f"{max(fall(run), 0):.3f}",
        **params,
    )


def waiting(base: KnowledgeBase) -> EvaluationRun | None:
    """The change that waits for a decision, or that is being checked; None when there is none."""
    rows = EvaluationRun.objects.filter(base=base, purpose=EvaluationRun.Purpose.GATE, applied=False)
    held = rows.filter(status=EvaluationRun.Status.DONE, verdict=Verdict.WORSE)
    return (rows.filter(status__in=EvaluationRun.OPEN) | held).order_by("-pk").first()
