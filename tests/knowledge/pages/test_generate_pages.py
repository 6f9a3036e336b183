"""Generating on a page."""

from __future__ import annotations

import pytest

from knowledge import generation
from knowledge.models import ChunkQuestion, Generation
from portal.gateway.models import ModelEndpoint
from tests.knowledge.pages.desk import browser, text_of
from tests.support.model_server import ModelServer
from tests.support.models import chat_endpoint
from tests.support.people import World, indexed

LEAVE = "# Leave\n\nEmployees have ten days of annual leave in a year, and unused leave expires at the end of March.\n"


@pytest.fixture
def writer(world: World, models: ModelServer) -> ModelEndpoint:
    indexed(world.principal(world.alice), world.base, "leave.md", LEAVE)
    return chat_endpoint(models, is_default=True, name="Writer", input_price=3)


def test_the_cost_comes_before_the_start_and_questions_are_looked_through(
    world: World, writer: ModelEndpoint, models: ModelServer
) -> None:
    client = browser(world.alice)
    address = f"/bases/{world.base.uid}/generate/"
    assert "Estimate the cost" in text_of(client.get(address))
    values = {"kind": "questions", "endpoint": writer.uid, "each": "2"}
    shown = text_of(client.get(address, values))
    assert "1 passage" in shown and "at most 0.00" in shown and not models.seen
    assert client.post(address, values).status_code == 302
    assert "0 of 1 passages" in text_of(client.get(address))
    run = Generation.objects.get()
    while generation.work(run.pk):
        pass
    question = ChunkQuestion.objects.first()
    assert question is not None
    assert question.text.partition(" ")[0] in text_of(client.get(address))
    review = f"{address}questions/{question.uid}/"
    client.post(review, {"verb": "change", "text": "How many days off?"})
    question.refresh_from_db()
    assert (question.text, question.source) == ("How many days off?", "hand")
    client.post(review, {"verb": "disable"})
    question.refresh_from_db()
    assert not question.enabled
    client.post(review, {"verb": "delete"})
    assert not ChunkQuestion.objects.filter(pk=question.pk).exists()


def test_a_run_is_stopped_on_the_page(world: World, writer: ModelEndpoint) -> None:
    client = browser(world.alice)
    address = f"/bases/{world.base.uid}/generate/"
    client.post(address, {"kind": "cases", "endpoint": writer.uid, "most": "5"})
    client.post(f"{address}stop/", {"kind": "cases"})
    assert Generation.objects.get().status == "cancelled"
    assert "Cancelled; what was made is kept." in text_of(client.get(f"{address}?kind=cases"))


@pytest.mark.parametrize(("person", "code"), [("bob", 403), ("mallory", 404), ("eve", 404)])
def test_only_owners_generate(world: World, writer: ModelEndpoint, person: str, code: int) -> None:
    client = browser(getattr(world, person))
    address = f"/bases/{world.base.uid}/generate/"
    assert client.get(address).status_code == code
    assert client.post(address, {"kind": "questions", "endpoint": writer.uid, "each": "2"}).status_code == code
    assert client.post(f"{address}stop/", {"kind": "questions"}).status_code == code
