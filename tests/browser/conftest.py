"""A real browser on a real web process. Without Chromium these tests are skipped, unless the operator requires it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from tests.support.people import World
from tests.support.running import Web, database_environment, web

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
Result = TypeVar("Result")


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of an installed Chromium."""
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        if os.environ.get("ARCHWAY_REQUIRE_BROWSER"):
            pytest.fail("Chromium is required (ARCHWAY_REQUIRE_BROWSER) but not installed.")
        pytest.skip("Chromium is not installed; install it to run the browser tests.")
    return path


@pytest.fixture
def apart(transactional_db: None) -> Iterator[Callable[..., Any]]:
    """Runs database work in a thread of its own: the browser's driver keeps an event loop in this one."""
    with ThreadPoolExecutor(1) as pool:

        def run(work: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
            return pool.submit(work, *args, **kwargs).result()

        yield run
        pool.submit(_close_connections).result()


def _close_connections() -> None:
    from django.db import connections

    connections.close_all()


@pytest.fixture
def people(apart: Callable[..., Any]) -> World:
    """Alice, Bob and the others, committed, so that the web process sees them."""
    from tests.support.people import make_world

    made: World = apart(make_world)
    return made


@pytest.fixture
def site(people: World) -> Iterator[Web]:
    """The web process on the test's database."""
    with web(database_environment()) as running:
        yield running


@pytest.fixture
def open_browser(chromium: str, site: Web, apart: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """`open_browser(user, width=1280, language="en", theme="light")`: a page of a signed-in person.

    What the console complains about fails the test at its end, except answers that a test asked for.
    """
    from playwright.sync_api import sync_playwright

    complaints: list[str] = []

    def hear(message: Any) -> None:
        if message.type in {"error", "warning"} and "Failed to load resource" not in message.text:
            complaints.append(message.text)

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=ARGUMENTS)

        def opened(user: Any, *, width: int = 1280, language: str = "en", theme: str = "light") -> Any:
            phone = width < 600
            context = browser.new_context(
                viewport={"width": width, "height": 844 if phone else 900}, has_touch=phone, base_url=site.url
            )
            cookies = {"sessionid": apart(_session_of, user), "django_language": language, "theme": theme}
            context.add_cookies([{"name": name, "value": value, "url": site.url} for name, value in cookies.items()])
            page = context.new_page()
            page.on("console", hear)
            page.on("pageerror", lambda error: complaints.append(str(error)))
            return page

        yield opened
        browser.close()
    assert complaints == []


def _session_of(user: Any) -> str:
    from django.test import Client

    client = Client()
    client.force_login(user)
    return client.cookies["sessionid"].value
