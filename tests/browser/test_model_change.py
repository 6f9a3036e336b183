"""The section "Models" of a base's settings: start a change, see how far it is, stop it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from knowledge.models import ModelChange
from portal.gateway.models import EmbeddingSpace, ModelEndpoint
from tests.support.people import World

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def another_model() -> ModelEndpoint:
    return ModelEndpoint.objects.create(
        name="Other model",
        kind=ModelEndpoint.Kind.EMBEDDING,
        provider=ModelEndpoint.Provider.OPENAI_COMPATIBLE,
        model_name="other",
        base_url="http://127.0.0.1:9/v1",
        space=EmbeddingSpace.objects.create(key="other@8", dimensions=8),
    )


def under_way() -> None:
    ModelChange.objects.update(status=ModelChange.Status.RUNNING, done=1_200, total=3_000)


@pytest.mark.parametrize("width", [1280, 390])
def test_an_owner_starts_and_stops_a_change_of_model(
    people: World, apart: Callable[..., Any], open_browser: Callable[..., Any], width: int
) -> None:
    apart(another_model)
    page = open_browser(people.alice, width=width)
    page.goto(f"/bases/{people.base.uid}/settings/?section=models")
    page.get_by_label("New embedding model").select_option(label="Other model")
    page.get_by_role("button", name="Change the model").click()
    page.get_by_text("Changing to Other model").wait_for()
    apart(under_way)
    page.reload()
    page.get_by_text("1,200 of 3,000 chunks have their new vector.").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("was cancelled").wait_for()
