"""Answers by a model in Chromium, from a real web process and a real model server: streamed, stopped, reloaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from knowledge.models import QueryRecord
from portal.gateway.models import UsageRecord
from tests.support.model_server import ModelServer
from tests.support.models import chat_endpoint
from tests.support.people import World, indexed
from tests.support.running import until

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HANDBOOK = "# Leave\n\nEmployees have ten days of annual leave in a year.\n\n# Travel\n\nTrains are booked early.\n"
QUESTION = "How many days of annual leave?"


@pytest.fixture
def library(people: World, apart: Callable[..., Any]) -> World:
    apart(lambda: indexed(people.principal(people.alice), people.base, "handbook.md", HANDBOOK))
    return people


def ask(page: Any, question: str = QUESTION) -> None:
    page.goto("/ask/")
    page.get_by_label("Answer", exact=True).select_option("model_opt")
    page.get_by_label("Question").fill(question)
    page.keyboard.press("Enter")


def test_an_answer_is_seen_growing_survives_a_reload_and_ends_with_its_citations(
    library: World, open_browser: Callable[..., Any], apart: Callable[..., Any], models: ModelServer
) -> None:
    apart(lambda: chat_endpoint(models, "demo+gap=400+ttft=200", is_default=True))
    page = open_browser(library.alice)
    ask(page)
    page.locator("[data-text]", has_text="ten").wait_for()
    page.reload()
    # The same words again, from the beginning, while the rest is still being written.
    page.locator("[data-text]", has_text="ten").wait_for()
    assert page.get_by_role("button", name="Stop").last.is_visible()
    page.locator(".prose .citation").first.wait_for()
    assert "ten days of annual leave" in page.locator(".prose").inner_text()
    assert page.get_by_role("button", name="Send").is_visible()
    assert len(models.seen) == 1
    page.locator(".prose .citation").first.click()
    page.wait_for_url("**/documents/**")


def test_stop_reaches_the_provider_and_keeps_what_was_written(
    library: World, open_browser: Callable[..., Any], apart: Callable[..., Any], models: ModelServer
) -> None:
    apart(lambda: chat_endpoint(models, "demo+tokens=50+stall=6", is_default=True))
    page = open_browser(library.alice)
    ask(page)
    page.locator("[data-text]", has_text="word4").wait_for()
    page.locator("#stop").click()
    page.get_by_text("Stopped; what was written is kept").wait_for()
    assert "word4" in page.locator(".prose").inner_text()
    seen = models.wait_for(lambda requests: len(requests) == 1)
    assert seen[0].ended == "gone"
    record = apart(lambda: QueryRecord.objects.get())
    assert record.answering == "stopped"
    assert apart(lambda: until(lambda: UsageRecord.objects.filter(kind="chat").first())).outcome == "cancelled"


def test_an_answer_goes_on_when_the_page_is_closed(
    library: World, open_browser: Callable[..., Any], apart: Callable[..., Any], models: ModelServer
) -> None:
    apart(lambda: chat_endpoint(models, "demo+gap=150", is_default=True))
    page = open_browser(library.alice)
    ask(page)
    page.locator("[data-text]", has_text="demo").wait_for()
    thread = page.url
    page.goto("about:blank")
    record = apart(lambda: until(lambda: QueryRecord.objects.filter(answering="done").first()))
    assert record.answering == "done"
    page.goto(thread)
    assert "demo" in page.locator(".prose").first.inner_text()


def test_a_model_that_breaks_off_leaves_its_text_and_the_reason(
    library: World, open_browser: Callable[..., Any], apart: Callable[..., Any], models: ModelServer
) -> None:
    apart(lambda: chat_endpoint(models, "demo+tokens=9+cut=3", is_default=True))
    page = open_browser(library.alice, width=390, theme="dark")
    ask(page)
    page.get_by_text("Interrupted; text kept").wait_for()
    assert "word3" in page.locator(".prose").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_model_that_is_away_leaves_the_passages(
    library: World, open_browser: Callable[..., Any], apart: Callable[..., Any], models: ModelServer
) -> None:
    apart(lambda: chat_endpoint(models, "demo+fail=401", is_default=True))
    page = open_browser(library.alice)
    ask(page)
    page.get_by_text("The model could not answer").wait_for()
    assert page.locator(".source").first.is_visible()
