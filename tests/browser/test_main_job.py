"""The main job as a person does it: sign in, drop a file, watch it become searchable, find it, open the citation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.people import PASSWORD, World
from tests.support.running import PATIENCE, Running, database_environment, worker

pytestmark = [pytest.mark.browser, pytest.mark.flow, pytest.mark.slow]

WAIT = PATIENCE * 1000
HANDBOOK = """# Staff handbook

## Leave

Annual leave is fifteen working days in a calendar year.

## 差旅

出差应提前三天在系统中申请，返回后十五天内提交发票报销。
"""
QUESTIONS = {
    "How many days of annual leave?": "fifteen working days",
    "出差报销要几天内提交发票": "十五天内",
}
# What a file manager does: the files enter the page, hover over it and are let go.
DROP = """(files) => {
  const carried = new DataTransfer();
  for (const [name, type, text] of files) carried.items.add(new File([text], name, { type }));
  for (const kind of ["dragenter", "dragover", "drop"]) {
    document.body.dispatchEvent(new DragEvent(kind, { dataTransfer: carried, bubbles: true, cancelable: true }));
  }
}"""


@pytest.fixture
def ingest_worker(people: World) -> Iterator[Running]:
    with worker(database_environment()) as running:
        yield running


@pytest.fixture
def stranger_page(open_browser: Callable[..., Any], people: World) -> Any:
    """A page on which nobody is signed in yet."""
    page = open_browser(people.alice)
    page.context.clear_cookies(name="sessionid")
    page.set_default_timeout(WAIT)
    return page


def test_a_dropped_file_becomes_searchable_and_its_citation_opens_the_passage(
    ingest_worker: Running, stranger_page: Any, people: World
) -> None:
    page = stranger_page
    documents = f"/bases/{people.base.uid}/documents/"
    page.goto(documents)
    page.get_by_label("Username").fill("alice")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"**{documents}")
    page.locator('[data-live-state="live"]').wait_for()

    page.evaluate("window.loadedOnce = true")
    page.evaluate(DROP, [["handbook.md", "text/markdown", HANDBOOK], ["program.exe", "", "MZ"]])
    tray = page.get_by_role("region", name="Uploads")
    tray.get_by_text("Unsupported type").wait_for()
    row = page.get_by_role("row").filter(has_text="handbook.md")
    row.get_by_text("Searchable", exact=True).wait_for()
    assert page.evaluate("window.loadedOnce"), "the page was loaded anew"
    assert page.get_by_role("row").filter(has_text="program.exe").count() == 0

    for question, answer in (
        ("How many days of annual leave?", "fifteen working days"),
        ("出差报销要几天内提交发票", "十五天内"),
    ):
        page.goto(f"/bases/{people.base.uid}/hit-test/")
        page.get_by_label("Question").fill(question)
        page.get_by_role("button", name="Test", exact=True).click()
        for mode in ("blend", "keywords", "embedding"):
            page.locator(f"#column-{mode}[data-loaded] article.passage").first.wait_for()
        best = page.locator("#column-blend article.passage").first
        assert answer in best.inner_text()
        best.get_by_role("link", name=re.compile("^Open passage 1")).click()
        page.wait_for_url("**chunk=**")
        marked = page.locator("mark")
        marked.first.wait_for()
        assert answer in " ".join(marked.all_inner_texts())


def test_a_viewer_has_no_way_to_upload_and_dropping_does_nothing(
    open_browser: Callable[..., Any], people: World
) -> None:
    page = open_browser(people.bob)
    page.goto(f"/bases/{people.base.uid}/documents/")
    page.get_by_text("No documents yet").wait_for()
    assert page.get_by_role("link", name="Upload").count() == 0
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.method))
    page.evaluate(DROP, [["handbook.md", "text/markdown", HANDBOOK]])
    page.reload()
    page.get_by_text("No documents yet").wait_for()
    assert "POST" not in sent
