"""The frame and the portal's own pages in Chromium: live rows, selection, dialogs, shortcuts, narrow screens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from knowledge import lifecycle
from knowledge.models import Document, Revision
from portal.kernel import keys
from portal.kernel.errors import Invalid
from portal.kernel.models import ApiKey, User
from tests.support.people import World

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PAGES = [
    "/", "/bases/", "/bases/new/", "/tasks/", "/notifications/", "/search/?q=a",
    "/account/keys/", "/account/keys/new/", "/account/preferences/", "/nowhere/",
]  # fmt: skip


def add(world: World, name: str, status: Revision.Status) -> Revision:
    document = Document.objects.create(base=world.base, source_key=name, name=name, created_by=world.alice)
    return Revision.objects.create(
        document=document, base=world.base, number=1, file="f", file_name=name, sha256=name[:64], mime="text/plain",
        size=1, status=status, created_by=world.alice,
    )  # fmt: skip


def test_a_row_follows_the_work_without_a_reload_and_keeps_the_focus(
    people: World, open_browser: Callable[..., Any], apart: Callable[..., Any]
) -> None:
    revision = apart(add, people, "live.md", Revision.Status.PENDING)
    page = open_browser(people.alice)
    page.goto("/tasks/")
    row = page.locator(f"#task-{revision.uid}")
    row.get_by_text("Queued").wait_for()
    page.locator(f"#cancel-{revision.uid}").focus()
    claim = apart(lifecycle.claim, "w", revision.pk)
    row.get_by_text("Parsing").wait_for()
    apart(lifecycle.advance, claim, Revision.Status.VECTORIZING)
    row.get_by_text("4/5").wait_for()
    assert page.evaluate("document.activeElement.id") == f"cancel-{revision.uid}"
    apart(lifecycle.progress, claim, 30, 90, "chunk")
    row.get_by_text("30/90 chunks").wait_for()
    apart(lifecycle.fail, claim, Invalid("%(name)s is empty.", code="empty_file", name="live.md"))
    row.get_by_text("live.md is empty.").wait_for()
    page.get_by_label("1 unread notification").wait_for()
    page.get_by_role("link", name="Attention 1").wait_for()


def test_a_page_that_lost_the_wire_says_so_and_catches_up(
    people: World, open_browser: Callable[..., Any], apart: Callable[..., Any]
) -> None:
    revision = apart(add, people, "late.md", Revision.Status.PENDING)
    page = open_browser(people.alice)
    # The first wire is cut by the browser itself; the next ones work.
    wires: list[Any] = []

    def pass_or_cut(wire: Any) -> None:
        wires.append(wire)
        if len(wires) == 1:
            wire.close(code=1012)
        else:
            wire.connect_to_server()

    page.route_web_socket("**/ws/events/", pass_or_cut)
    page.goto("/tasks/")
    page.get_by_text("Live updates paused; as of").wait_for()
    apart(lifecycle.claim, "w", revision.pk)
    page.locator(f"#task-{revision.uid}").get_by_text("Parsing").wait_for()
    page.locator("#live-banner").wait_for(state="hidden")
    assert len(wires) >= 2


def test_all_matching_is_more_than_the_page_and_unticking_leaves_one_out(
    people: World, open_browser: Callable[..., Any], apart: Callable[..., Any]
) -> None:
    for number in range(25):
        apart(add, people, f"f{number:02}.md", Revision.Status.FAILED)
    page = open_browser(people.alice)
    page.goto("/tasks/?tab=attention&size=20")
    page.get_by_label("Select all on this page").check()
    page.locator("[data-select-summary]", has_text="20 on this page selected").wait_for()
    page.get_by_role("button", name="Select all 25 matching").click()
    page.locator("[data-select-summary]", has_text="25 matching selected").wait_for()
    page.locator("input[data-select-row]").first.uncheck()
    page.locator("[data-select-summary]", has_text="24 matching selected").wait_for()
    page.get_by_role("button", name="Retry selected").click()
    page.get_by_role("heading", name="Retry 24 tasks?").wait_for()
    page.locator("#confirm").get_by_role("button", name="Retry").click()
    page.get_by_text("24 tasks queued again").first.wait_for()
    assert apart(Revision.objects.filter(status=Revision.Status.FAILED).count) == 1


def test_a_dialog_starts_on_the_safe_button_and_gives_the_focus_back(
    people: World, open_browser: Callable[..., Any], apart: Callable[..., Any]
) -> None:
    apart(lambda: keys.create(people.principal(people.alice), name="robot", scopes=["kb:read"]))
    page = open_browser(people.alice)
    page.goto("/account/keys/")
    page.locator("td").get_by_role("button", name="Revoke").click()
    page.get_by_role("heading", name="Revoke the key robot").wait_for()
    assert page.evaluate("document.activeElement.textContent") == "Cancel"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.textContent") == "Revoke"
    assert apart(ApiKey.objects.filter(revoked_at__isnull=True).count) == 1
    page.locator("td").get_by_role("button", name="Revoke").click()
    page.locator("#confirm").get_by_role("button", name="Revoke").click()
    page.get_by_text("No keys yet").wait_for()
    assert apart(ApiKey.objects.filter(revoked_at__isnull=True).count) == 0


def test_the_theme_changes_at_once_and_stays(people: World, open_browser: Callable[..., Any]) -> None:
    page = open_browser(people.alice)
    page.goto("/")
    page.locator("summary[aria-label=Theme]").click()
    with page.expect_response("**/theme/"):
        page.get_by_role("button", name="Dark").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 20, 27)"


def test_letters_go_places_unless_switched_off_or_typed_into_a_field(
    people: World, open_browser: Callable[..., Any], apart: Callable[..., Any]
) -> None:
    page = open_browser(people.alice)
    page.goto("/")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/tasks/")
    page.keyboard.press("/")
    page.keyboard.type("gb?")
    assert page.evaluate("document.activeElement.value") == "gb?"
    apart(User.objects.filter(pk=people.alice.pk).update, letter_keys=False)
    page.goto("/")
    page.keyboard.press("?")
    assert page.locator("#shortcuts").is_hidden()


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_no_page_scrolls_sideways_on_a_phone_and_targets_are_large(
    people: World, open_browser: Callable[..., Any], apart: Callable[..., Any], language: str
) -> None:
    apart(add, people, "a-very-long-name-" * 12 + "很长的名字" * 12 + ".md", Revision.Status.FAILED)
    page = open_browser(people.alice, width=390, language=language)
    for address in PAGES:
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, address
        small = page.evaluate(
            """[...document.querySelectorAll("a, button, summary, select, label.choice")]
              .filter((e) => e.checkVisibility() && !e.classList.contains("skip") && !e.closest("dialog"))
              .map((e) => [e.getBoundingClientRect(), e.outerHTML.slice(0, 90)])
              .filter(([box]) => box.height < 20 || box.width < 20).map(([, html]) => html)"""
        )
        assert small == [], address


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_breaks_the_strict_policy(people: World, open_browser: Callable[..., Any], theme: str) -> None:
    # The fixture fails when the console of any page complained.
    page = open_browser(people.alice, theme=theme)
    for address in PAGES:
        page.goto(address)
        assert page.locator("h1").count() == 1, address
