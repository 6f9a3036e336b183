"""The settings of a base that name models."""

from __future__ import annotations

from typing import Any

import pytest

from knowledge import base_settings
from portal.gateway.models import ModelEndpoint
from tests.knowledge.pages.desk import browser, text_of
from tests.support.models import chat_endpoint, endpoint
from tests.support.people import World

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def chat(world: World) -> ModelEndpoint:
    return chat_endpoint(NOWHERE, name="Writer")


def save(world: World, section: str, **values: Any) -> Any:
    world.base.refresh_from_db()
    data = {"section": section, "version": world.base.config_version, **values}
    return browser(world.alice).post(f"/bases/{world.base.uid}/settings/", data)


def stored(world: World) -> base_settings.BaseSettings:
    world.base.refresh_from_db()
    return base_settings.read(world.base.config)


def test_answers_are_set_with_their_model(world: World, chat: ModelEndpoint) -> None:
    shown = text_of(browser(world.alice).get(f"/bases/{world.base.uid}/settings/?section=answering"))
    assert "Writer · outside of this installation" in shown
    values = {"processing": "model_opt", "endpoint": chat.uid, "least_relevance": "0.2", "rewrite": "on"}
    assert save(world, "answering", **values).status_code == 302
    answering = stored(world).answering
    assert (answering.processing, answering.endpoint, answering.rewrite) == ("model_opt", chat.uid, True)


def test_a_reranker_of_another_kind_is_refused(world: World, chat: ModelEndpoint) -> None:
    ranker = endpoint(NOWHERE, "demo", provider="cohere", kind="rerank")
    assert save(world, "reranking", by="endpoint", endpoint=chat.uid, seconds="3").status_code == 422
    assert save(world, "reranking", by="endpoint", endpoint=ranker.uid, seconds="3").status_code == 302
    assert stored(world).reranking.endpoint == ranker.uid


def test_only_models_that_text_would_leave_for_are_offered_and_kept(world: World, chat: ModelEndpoint) -> None:
    assert save(world, "outside", endpoints=["nobody"]).status_code == 422
    assert save(world, "outside", endpoints=[chat.uid]).status_code == 302
    assert stored(world).outside.endpoints == [chat.uid]
    assert save(world, "outside").status_code == 302
    assert stored(world).outside.endpoints == []


def test_a_model_that_is_gone_is_named_as_such_and_can_be_left(world: World, chat: ModelEndpoint) -> None:
    values = {"processing": "model_opt", "endpoint": chat.uid, "least_relevance": "0.1"}
    save(world, "answering", **values)
    ModelEndpoint.objects.filter(pk=chat.pk).update(enabled=False)
    page = text_of(browser(world.alice).get(f"/bases/{world.base.uid}/settings/?section=answering"))
    assert "A model that is no longer available" in page
    assert save(world, "answering", **{**values, "endpoint": ""}).status_code == 302


@pytest.mark.parametrize("person", ["bob", "mallory", "eve"])
def test_only_owners_see_and_change_them(world: World, chat: ModelEndpoint, person: str) -> None:
    client = browser(getattr(world, person))
    for section in ("answering", "reranking", "outside"):
        answer = client.get(f"/bases/{world.base.uid}/settings/?section={section}")
        assert answer.status_code == (403 if person == "bob" else 404)
