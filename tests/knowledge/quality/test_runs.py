from __future__ import annotations

import pytest
from django.test import Client

from knowledge import background, base_settings, bases, documents, model_changes
from knowledge.models import CaseResult, EvaluationCase, EvaluationRun, KnowledgeBase, Role
from knowledge.quality import cases, gate, runs
from knowledge.quality.cases import Target
from portal.gateway.embedding import ensure_local_endpoint
from portal.gateway.models import ModelEndpoint
from portal.kernel.errors import Conflict, Invalid
from portal.kernel.models import AuditEntry, Notification
from tests.support.people import World, indexed

LEAVE = "# Leave\n\nEmployees have ten days of annual leave in a year.\n"
TRAVEL = "# Travel\n\nTrains are booked in second class, flights only above six hours.\n"
CODES = "# Codes\n\nE-1024 means that the supply voltage is too low.\n"


@pytest.fixture
def library(world: World) -> World:
    alice = world.principal(world.alice)
    leave = indexed(alice, world.base, "leave.md", LEAVE)
    travel = indexed(alice, world.base, "travel.md", TRAVEL)
    indexed(alice, world.base, "codes.md", CODES)
    cases.add(alice, world.base, "How much annual leave is there?", [Target(leave)])
    cases.add(alice, world.base, "Which class on trains?", [Target(travel, "booked in second class")])
    return world


def worked(run: EvaluationRun) -> EvaluationRun:
    while runs.work(run.pk):
        pass
    run.refresh_from_db()
    return run


def searching(base: KnowledgeBase, **changes: object) -> dict[str, object]:
    return {**base_settings.read(base.config).searching.model_dump(mode="json"), **changes}


def test_a_run_asks_every_case_in_every_mode(library: World) -> None:
    run = worked(runs.start(library.principal(library.alice), library.base))
    assert run.status == EvaluationRun.Status.DONE, (run.error_code, run.error_message)
    assert set(run.measures) == {"blend", "keywords", "embedding"}
    assert run.measures["blend"]["recall@5"] == 1.0
    assert run.measures["blend"]["cases"] == 2
    assert (run.done, run.total) == (6, 6)
    assert CaseResult.objects.filter(run=run, rank=1, variant="blend").count() == 2


def test_what_a_case_found_is_kept_by_id_without_text(library: World) -> None:
    run = worked(runs.start(library.principal(library.alice), library.base, [runs.variant("words", "keywords")]))
    found = CaseResult.objects.filter(run=run).values_list("found", flat=True)
    assert all(set(row) == {"document", "chunk", "relevance", "grade"} for rows in found for row in rows)


def test_a_cancelled_run_keeps_what_it_measured(library: World) -> None:
    alice = library.principal(library.alice)
    run = runs.start(alice, library.base)
    background.cancel(alice, run)
    run.refresh_from_db()
    assert run.status == EvaluationRun.Status.CANCELLED
    assert not runs.work(run.pk)


def test_a_second_run_waits_for_the_first(library: World) -> None:
    alice = library.principal(library.alice)
    runs.start(alice, library.base)
    with pytest.raises(Conflict) as refused:
        runs.start(alice, library.base)
    assert refused.value.code == "evaluation_open"


def test_a_base_without_cases_cannot_be_measured(world: World) -> None:
    with pytest.raises(Invalid) as refused:
        runs.start(world.principal(world.alice), world.base)
    assert refused.value.code == "no_cases"


def test_a_run_ends_when_its_asker_may_edit_no_longer(library: World) -> None:
    alice = library.principal(library.alice)
    bases.grant(alice, library.base, Role.OWNER, user=library.mallory)
    mallory = library.principal(library.mallory)
    run = runs.start(mallory, library.base)
    bases.grant(alice, library.base, Role.VIEWER, user=library.mallory)
    assert worked(run).status == EvaluationRun.Status.FAILED


def test_a_document_in_the_recycle_bin_is_no_longer_expected(library: World) -> None:
    alice = library.principal(library.alice)
    case = EvaluationCase.objects.get(question__startswith="How much")
    target = case.targets.get().document
    assert target is not None
    documents.delete(alice, target)
    run = worked(runs.start(alice, library.base, [runs.variant("blend", "blend")]))
    assert run.measures["blend"]["cases"] == 1
    page = client_of(library).get(f"/bases/{library.base.uid}/evaluation/{run.uid}/cases/{case.uid}/").content.decode()
    assert "leave.md" not in page


def client_of(world: World) -> Client:
    client = Client()
    client.force_login(world.alice)
    return client


# The gate


def guard(world: World, kind: str, **more: object) -> KnowledgeBase:
    values = {"gate": kind, "measure": "mrr@10", "tolerance": 0.02, "unanswered_below": 0.5, **more}
    return bases.save_settings(world.principal(world.alice), world.base, "quality", values)


def test_without_a_gate_settings_are_saved_at_once(library: World) -> None:
    alice = library.principal(library.alice)
    outcome = gate.save_settings(alice, library.base, "searching", searching(library.base, threshold=1.0))
    assert (outcome.state, outcome.run) == ("saved", None)


def test_a_change_that_makes_the_set_worse_is_held_until_somebody_saves_it_anyway(library: World) -> None:
    alice = library.principal(library.alice)
    base = guard(library, "block")
    outcome = gate.save_settings(alice, base, "searching", searching(base, threshold=1.0))
    assert outcome.state == "held" and outcome.run is not None
    assert base_settings.read(KnowledgeBase.objects.get(pk=base.pk).config).searching.threshold == 0
    assert Notification.objects.filter(kind="gate.held", user=library.alice).exists()
    with pytest.raises(Invalid):
        gate.overrule(alice, outcome.run, "because")
    gate.overrule(alice, outcome.run, "People asked for fewer weak hits.")
    assert base_settings.read(KnowledgeBase.objects.get(pk=base.pk).config).searching.threshold == 1
    assert AuditEntry.objects.filter(action="gate.overrule", base_ids=[base.pk]).exists()
    with pytest.raises(Conflict):
        gate.drop(alice, outcome.run)


def test_a_change_that_makes_nothing_worse_goes_through_the_block(library: World) -> None:
    alice = library.principal(library.alice)
    base = guard(library, "block")
    outcome = gate.save_settings(alice, base, "searching", searching(base, weight=0.4))
    assert outcome.state == "saved" and outcome.run is not None
    assert outcome.run.verdict == EvaluationRun.Verdict.FINE
    assert base_settings.read(KnowledgeBase.objects.get(pk=base.pk).config).searching.weight == 0.4


def test_a_warning_is_told_and_the_change_is_saved(library: World) -> None:
    alice = library.principal(library.alice)
    base = guard(library, "warn")
    outcome = gate.save_settings(alice, base, "searching", searching(base, threshold=1.0))
    assert (outcome.state, outcome.worse) == ("saved", True)
    assert base_settings.read(KnowledgeBase.objects.get(pk=base.pk).config).searching.threshold == 1
    assert Notification.objects.filter(kind="gate.worse", user=library.alice).exists()


def test_what_changes_no_ranking_needs_no_run(library: World) -> None:
    base = guard(library, "block")
    outcome = gate.save_settings(
        library.principal(library.alice), base, "searching", searching(base, top_k=7, log_queries=False)
    )
    assert (outcome.state, outcome.run) == ("saved", None)


def test_a_held_change_is_not_saved_over_somebody_elses(library: World) -> None:
    alice = library.principal(library.alice)
    base = guard(library, "block")
    outcome = gate.save_settings(alice, base, "searching", searching(base, threshold=1.0))
    assert outcome.run is not None
    bases.save_settings(alice, base, "searching", searching(base, top_k=9))
    with pytest.raises(Conflict) as refused:
        gate.overrule(alice, outcome.run, "People asked for fewer weak hits.")
    assert refused.value.code == "settings_changed"


def test_another_splitting_is_tried_in_a_base_that_nobody_sees_and_that_goes_afterwards(library: World) -> None:
    alice = library.principal(library.alice)
    base = guard(library, "block", measure="recall@5", tolerance=0.5)
    splitting = base_settings.read(base.config).splitting.model_dump(mode="json")
    outcome = gate.save_settings(alice, base, "splitting", {**splitting, "passage_tokens": 60, "leaf_tokens": 40})
    assert outcome.state == "checking" and outcome.run is not None
    run = worked(outcome.run)
    assert run.status == EvaluationRun.Status.DONE, (run.error_code, run.error_message)
    assert run.measures["after"]["recall@5"] == run.measures["before"]["recall@5"] == 1.0
    assert run.applied
    assert base_settings.read(KnowledgeBase.objects.get(pk=base.pk).config).splitting.passage_tokens == 60
    assert not KnowledgeBase.objects.filter(name__startswith="trial:").exists()


def test_another_model_is_tried_before_it_is_changed(library: World) -> None:
    # The built-in model under another name: what is tried answers as well as what is there.
    mine = ensure_local_endpoint()
    again = ModelEndpoint.objects.create(
        name="Again", kind=mine.kind, provider=mine.provider, model_name=mine.model_name, space=mine.space
    )
    alice = library.principal(library.alice)
    base = guard(library, "block", measure="recall@5", tolerance=1.0)
    outcome = gate.change_model(alice, base, again.uid)
    assert outcome.state == "checking" and outcome.run is not None
    assert model_changes.current(base) is None
    run = worked(outcome.run)
    assert run.status == EvaluationRun.Status.DONE, (run.error_code, run.error_message)
    assert run.applied and model_changes.current(base) is not None
