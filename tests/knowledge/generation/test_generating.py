"""Questions and evaluation cases that a model makes of passages, against a real model server over HTTP."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from django.test import Client

from knowledge import bases, generation
from knowledge.generation import Wanted
from knowledge.models import ChunkQuestion, EvaluationCase, Generation, Role
from knowledge.retrieval import retrieve
from knowledge.retrieval.contract import RetrievalRequest
from portal.gateway import quotas
from portal.gateway.models import ModelEndpoint, Quota, UsageRecord
from portal.kernel import keys
from portal.kernel.errors import Conflict, Denied, Invalid
from portal.kernel.principal import Principal
from tests.support.model_server import ModelServer
from tests.support.models import chat_endpoint
from tests.support.people import World, indexed

LEAVE = "# Leave\n\nEmployees have ten days of annual leave in a year, and unused leave expires at the end of March.\n"
TRAVEL = "# Travel\n\nTrains are booked in second class, and a hotel may cost at most 120 euros for each night.\n"


@pytest.fixture
def alice(world: World) -> Principal:
    indexed(world.principal(world.alice), world.base, "leave.md", LEAVE)
    indexed(world.principal(world.alice), world.base, "travel.md", TRAVEL)
    return world.principal(world.alice)


def to_the_end(run: Generation) -> Generation:
    while generation.work(run.pk):
        pass
    run.refresh_from_db()
    return run


def made(world: World) -> list[str]:
    return [row.text for row in ChunkQuestion.objects.filter(base=world.base).order_by("pk")]


def test_questions_are_made_of_each_passage_and_lead_to_it(world: World, alice: Principal, models: ModelServer) -> None:
    chat_endpoint(models, is_default=True)
    run = to_the_end(generation.start(alice, world.base, Wanted("questions", each=2)))
    assert (run.status, run.done, run.total) == ("done", 2, 2)
    assert run.made == len(made(world)) > 0
    assert {row.source for row in ChunkQuestion.objects.all()} == {"generated"}
    result = retrieve(alice, RetrievalRequest(made(world)[0], mode="keywords"))
    assert any(hit.question == made(world)[0] for hit in result.hits)
    assert UsageRecord.objects.filter(purpose="questions", run=run.uid, bases=[world.base.uid]).count() == 2


def test_only_changed_passages_are_asked_about_again(world: World, alice: Principal, models: ModelServer) -> None:
    chat_endpoint(models, is_default=True)
    to_the_end(generation.start(alice, world.base, Wanted("questions")))
    with pytest.raises(Conflict):
        generation.start(alice, world.base, Wanted("questions"))
    before = len(models.seen)
    changed = TRAVEL.replace("120 euros", "150 euros")
    indexed(alice, world.base, "travel.md", changed)
    run = to_the_end(generation.start(alice, world.base, Wanted("questions")))
    assert (run.total, len(models.seen) - before) == (1, 1)
    assert generation.estimate(alice, world.base, Wanted("questions", again=True)).passages == 2


def test_a_text_that_stands_in_two_documents_is_counted_and_paid_for_once(
    world: World, alice: Principal, models: ModelServer
) -> None:
    chat_endpoint(models, is_default=True)
    indexed(
        alice, world.base, "travel-2.md", TRAVEL + "\n# Meals\n\nMeals on the way are paid up to thirty euros a day.\n"
    )
    run = to_the_end(generation.start(alice, world.base, Wanted("questions")))
    assert (run.done, run.total, len(models.seen)) == (3, 3, 3)


def test_the_cost_is_known_before_the_start_and_covers_what_is_used(
    world: World, alice: Principal, models: ModelServer
) -> None:
    chat_endpoint(models, is_default=True, input_price=Decimal(3), output_price=Decimal(15))
    found = generation.estimate(alice, world.base, Wanted("questions", each=3))
    assert found.passages == 2 and found.cost > 0 and not models.seen
    run = to_the_end(generation.start(alice, world.base, Wanted("questions", each=3)))
    assert 0 < run.cost <= found.cost
    assert 0 < run.tokens_in <= found.tokens_in


def test_a_run_is_stopped_and_the_next_goes_on_where_it_was(
    world: World, alice: Principal, models: ModelServer, settings: Any
) -> None:
    settings.ARCHWAY = {**settings.ARCHWAY, "SLICE_SECONDS": 0}
    chat_endpoint(models, is_default=True)
    run = generation.start(alice, world.base, Wanted("questions"))
    assert generation.work(run.pk)  # one passage a slice
    generation.cancel(alice, run)
    run.refresh_from_db()
    assert (run.status, run.done) == ("cancelled", 1)
    rest = to_the_end(generation.start(alice, world.base, Wanted("questions")))
    assert (rest.total, len(models.seen)) == (1, 2)


def test_a_model_that_is_away_makes_the_run_wait(world: World, alice: Principal, models: ModelServer) -> None:
    chat_endpoint(models, "demo+fail=500", is_default=True)
    run = generation.start(alice, world.base, Wanted("questions"))
    assert not generation.work(run.pk)
    run.refresh_from_db()
    assert (run.status, run.waiting) == ("running", "model_failed")
    ModelEndpoint.objects.filter(pk=run.endpoint_id).update(model_name="demo+tag=back")
    assert to_the_end(run).status == "done"


def test_a_used_up_quota_ends_the_run_with_its_reason(world: World, alice: Principal, models: ModelServer) -> None:
    chat_endpoint(models, is_default=True)
    Quota.objects.create(workspace=world.workspace, subject="workspace", unit="tokens", period="day", limit=10)
    quotas.forget_accounts()
    found = generation.estimate(alice, world.base, Wanted("questions"))
    assert not found.enough and found.left == 10
    run = generation.start(alice, world.base, Wanted("questions"))
    assert not generation.work(run.pk)
    run.refresh_from_db()
    assert (run.status, run.error_code) == ("failed", "quota_exceeded")
    quotas.forget_accounts()


def test_an_answer_that_is_no_json_skips_the_passage(world: World, alice: Principal, models: ModelServer) -> None:
    chat_endpoint(models, "demo+tokens=4", is_default=True)
    run = to_the_end(generation.start(alice, world.base, Wanted("questions")))
    assert (run.status, run.skipped, run.made) == ("done", 2, 0)


def test_a_sensitive_base_is_not_sent_out_without_permission(
    world: World, alice: Principal, models: ModelServer
) -> None:
    endpoint = chat_endpoint(models, is_default=True)
    bases.describe(alice, world.base, name="Handbook", description="", sensitive=True)
    world.base.refresh_from_db()
    assert not generation.estimate(alice, world.base, Wanted("questions")).allowed
    with pytest.raises(Denied):
        generation.start(alice, world.base, Wanted("questions"))
    bases.save_settings(alice, world.base, "outside", {"endpoints": [endpoint.uid]}, version=world.base.config_version)
    world.base.refresh_from_db()
    run = generation.start(alice, world.base, Wanted("questions"))
    world.base.refresh_from_db()
    bases.save_settings(alice, world.base, "outside", {"endpoints": []}, version=world.base.config_version)
    generation.work(run.pk)
    run.refresh_from_db()
    assert (run.status, run.error_code) == ("failed", "text_stays_in_house")
    assert not models.seen


def test_cases_are_made_for_the_evaluation_set(world: World, alice: Principal, models: ModelServer) -> None:
    chat_endpoint(models, is_default=True)
    run = to_the_end(generation.start(alice, world.base, Wanted("cases", most=1)))
    case = EvaluationCase.objects.get(base=world.base)
    assert (run.status, run.made, case.origin) == ("done", 1, "generated")
    (target,) = case.targets.all()
    assert target.document is not None and target.document.name in {"leave.md", "travel.md"} and target.snippet


@pytest.mark.parametrize("wanted", [Wanted("poems"), Wanted("questions", each=0), Wanted("cases", most=0)])
def test_what_can_not_be_made_is_refused(world: World, alice: Principal, wanted: Wanted) -> None:
    with pytest.raises(Invalid):
        generation.estimate(alice, world.base, wanted)


def test_the_api_estimates_starts_and_stops_for_owners_only(
    world: World, alice: Principal, models: ModelServer
) -> None:
    chat_endpoint(models, is_default=True)
    address = f"/api/v1/bases/{world.base.uid}/generations"

    def client(person: Any) -> Client:
        _, secret = keys.create(world.principal(person), name="k", scopes=["kb:read", "kb:manage"])
        return Client(headers={"Authorization": f"Bearer {secret}"})

    owner = client(world.alice)
    asked = {"kind": "questions", "dry_run": True}
    assert owner.post(address, asked, content_type="application/json").json()["passages"] == 2
    started = owner.post(address, {"kind": "questions"}, content_type="application/json")
    assert (started.status_code, started.json()["status"]) == (202, "queued")
    assert owner.get(f"{address}?kind=questions").json()["total"] == 2
    assert owner.delete(f"{address}?kind=questions").json()["status"] == "cancelled"
    bases.grant(alice, world.base, Role.EDITOR, user=world.mallory)
    for person, code in ((world.bob, 403), (world.mallory, 403), (world.eve, 404)):
        stranger = client(person)
        assert stranger.get(f"{address}?kind=questions").status_code == code
        assert stranger.post(address, asked, content_type="application/json").status_code == code
        assert stranger.delete(f"{address}?kind=questions").status_code == code
