"""Hit test and ask in Chromium: columns on their own, tabs, input methods, drafts, undo, what a phone shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from knowledge.models import QueryRecord
from tests.support.people import World, indexed

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HANDBOOK = "# Leave\n\nEmployees have ten days of annual leave in a year.\n\n# Travel\n\nTrains are booked early.\n"
WIDE = "document.documentElement.scrollWidth <= innerWidth"


@pytest.fixture
def library(people: World, apart: Callable[..., Any]) -> World:
    apart(lambda: indexed(people.principal(people.alice), people.base, "handbook.md", HANDBOOK))
    return people


def test_three_columns_load_on_their_own_and_a_broken_one_can_be_tried_again(
    library: World, open_browser: Callable[..., Any]
) -> None:
    page = open_browser(library.alice)
    broken: list[Any] = []

    def route(request: Any) -> None:
        if "keywords" in (request.request.post_data or "") and not broken:
            broken.append(request)
            request.fulfill(status=204, headers={"HX-Reswap": "none"})
        else:
            request.continue_()

    page.route("**/hit-test/columns/", route)
    page.goto(f"/bases/{library.base.uid}/hit-test/")
    page.get_by_label("Question").fill("annual leave")
    page.keyboard.press("Enter")
    page.locator("#column-embedding[data-loaded]").wait_for()
    page.locator("#column-blend[data-loaded]").wait_for()
    page.locator("#column-blend mark").first.wait_for()
    assert page.locator("#column-keywords[data-loaded]").count() == 0
    page.reload()
    page.locator("#column-keywords[data-loaded]").wait_for()
    page.locator('#column-keywords [data-elsewhere="blend"]').first.get_by_text("#1").wait_for()


def test_a_phone_shows_one_column_at_a_time(library: World, open_browser: Callable[..., Any]) -> None:
    page = open_browser(library.alice, width=390, theme="dark")
    page.goto(f"/bases/{library.base.uid}/hit-test/?q=annual+leave")
    page.locator("#column-blend[data-loaded]").wait_for()
    assert not page.locator("#column-keywords").is_visible()
    page.get_by_role("tab", name="Keyword").click()
    page.locator("#column-keywords[data-loaded]").wait_for()
    assert not page.locator("#column-blend").is_visible()
    assert "tab=keywords" in page.url
    page.keyboard.press("ArrowRight")
    page.locator("#column-blend").wait_for()
    assert page.evaluate(WIDE)


def test_the_enter_of_an_input_method_never_sends(library: World, open_browser: Callable[..., Any]) -> None:
    page = open_browser(library.bob)
    page.goto("/ask/")
    box = page.locator("#question")
    box.fill("annual leave")
    press = "{key: 'Enter', bubbles: true, cancelable: true, ...facts}"
    for facts in ({"isComposing": True}, {"keyCode": 229}):
        box.evaluate(f"(box, facts) => box.dispatchEvent(new KeyboardEvent('keydown', {press}))", facts)
    page.keyboard.press("Shift+Enter")
    assert box.input_value() == "annual leave\n"
    assert page.locator("[data-turn]").count() == 0
    page.keyboard.press("Enter")
    page.locator("[data-turn] .citation").first.wait_for()
    assert box.input_value() == ""


def test_a_draft_outlives_a_reload_until_it_is_sent(library: World, open_browser: Callable[..., Any]) -> None:
    page = open_browser(library.bob)
    page.goto("/ask/")
    page.locator("#question").fill("annual")
    page.reload()
    assert page.locator("#question").input_value() == "annual"
    page.get_by_role("button", name="Send").click()
    page.locator("[data-turn]").wait_for()
    page.wait_for_url("**/ask/*/")
    page.goto("/ask/")
    assert page.locator("#question").input_value() == ""


def test_a_deleted_thread_is_brought_back_from_the_toast(
    library: World, open_browser: Callable[..., Any], apart: Callable[..., Any]
) -> None:
    page = open_browser(library.bob, width=390, language="zh-hans")
    page.goto("/ask/?q=annual+leave")
    page.locator("[data-turn]").wait_for()
    assert page.evaluate(WIDE)
    page.locator("[data-value=yes]").click()
    page.locator("[data-value=yes][aria-pressed=true]").wait_for()
    page.locator("#ask-head button").click()
    page.locator(".toast form button").click()
    page.locator("[data-turn]").wait_for()
    assert apart(QueryRecord.objects.get).helpful is True


def test_a_question_that_the_server_refuses_stays_in_the_box(library: World, open_browser: Callable[..., Any]) -> None:
    page = open_browser(library.bob)
    page.goto("/ask/")
    page.route("**/ask/", lambda route: route.fulfill(status=422, body='<p class="notice">Too busy</p>'))
    page.locator("#question").fill("annual leave")
    page.keyboard.press("Enter")
    page.get_by_text("Too busy").wait_for()
    assert page.locator("#question").input_value() == "annual leave"
    assert page.get_by_role("button", name="Send").is_visible()
