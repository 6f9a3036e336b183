"""The pages of a base in Chromium: uploads, live rows, selection, undo, the reader, narrow screens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from knowledge import lifecycle
from knowledge.models import Chunk, Document, Revision
from tests.support.people import World, indexed, put, work_through

pytestmark = [pytest.mark.browser, pytest.mark.slow]

DROP = """([files, kind]) => {
  const carried = new DataTransfer();
  if (kind === "text") carried.setData("text/plain", "just words");
  for (const [name, text] of files) carried.items.add(new File([text], name));
  for (const type of ["dragenter", "dragover", "drop"]) {
    document.querySelector("main").dispatchEvent(
      new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer: carried }));
  }
}"""


def list_of(world: World, query: str = "") -> str:
    return f"/bases/{world.base.uid}/documents/{query}"


def newest() -> Revision:
    return Revision.objects.select_related("document").latest("pk")


def ready(world: World, name: str, text: str) -> Document:
    return indexed(world.principal(world.alice), world.base, name, text)


def fill(world: World, count: int) -> list[Document]:
    principal = world.principal(world.alice)
    return [put(principal, world.base, f"doc-{n:02}.md", f"# {n}\n\nWords").document for n in range(count)]


def test_files_dropped_on_the_list_are_uploaded_and_become_searchable_before_ones_eyes(
    people: World, open_browser: Callable[..., Any], apart: Callable[..., Any]
) -> None:
    page = open_browser(people.alice)
    page.goto(list_of(people))
    page.evaluate(DROP, [[], "text"])
    assert page.locator("#upload-tray").is_hidden()
    page.evaluate(DROP, [[["valve.md", "# Valve\n\nIt opens at 4 bar."], ["tool.exe", "MZ"]], "files"])
    tray = page.locator("#upload-tray")
    tray.get_by_text("1 uploaded, 1 failed").wait_for()
    assert "tool.exe" in tray.locator("li").first.inner_text()
    row = page.locator("tr", has_text="valve.md")
    row.get_by_text("Queued").wait_for()
    apart(lambda: work_through(newest()))
    row.get_by_text("Searchable", exact=True).wait_for()
    page.locator("#document-counts").get_by_text("1 searchable").wait_for()
    tray.get_by_role("button", name="Clear finished").click()
    assert tray.locator("li").count() == 1 and "tool.exe" in tray.inner_text()


def test_a_name_that_exists_is_asked_about_before_it_is_replaced(
    people: World, open_browser: Callable[..., Any], apart: Callable[..., Any]
) -> None:
    apart(ready, people, "valve.md", "# Valve\n\nIt opens at 4 bar.")
    page = open_browser(people.alice)
    page.goto(list_of(people))
    for button, expected in (("Skip", 1), ("New revision", 2)):
        page.evaluate(DROP, [[["valve.md", "# Valve\n\nIt opens at 5 bar."]], "files"])
        dialog = page.get_by_role("dialog", name="Name exists")
        dialog.get_by_text("valve.md").wait_for()
        assert page.evaluate("document.activeElement.value") == "skip"
        dialog.get_by_role("button", name=button).click()
        if expected == 2:
            page.locator("#upload-tray").get_by_text("Uploaded as a new revision").wait_for()
        assert apart(Revision.objects.count) == expected
    row = page.locator("tr", has_text="valve.md")
    row.get_by_text("Earlier version still searchable").wait_for()


def test_a_deleted_row_leaves_and_comes_back_with_undo_for_everybody(
    people: World, open_browser: Callable[..., Any], apart: Callable[..., Any]
) -> None:
    apart(fill, people, 2)
    alice, bob = open_browser(people.alice), open_browser(people.bob)
    for page in (alice, bob):
        page.goto(list_of(people))
    row = alice.locator("tr", has_text="doc-01.md")
    row.get_by_label("More for doc-01.md").click()
    row.get_by_role("button", name="Delete").click()
    alice.locator("#toasts").get_by_text("is in the recycle bin").wait_for()
    assert alice.locator("tr", has_text="doc-01.md").count() == 0
    bob.locator("tr", has_text="doc-01.md").wait_for(state="detached")
    alice.locator("#toasts").get_by_role("button", name="Undo").click()
    alice.locator("tr", has_text="doc-01.md").wait_for()
    bob.locator("tr", has_text="doc-01.md").wait_for()


def test_all_that_match_may_be_chosen_but_one_and_are_asked_about(
    people: World, open_browser: Callable[..., Any], apart: Callable[..., Any]
) -> None:
    apart(fill, people, 23)
    page = open_browser(people.alice)
    page.goto(list_of(people, "?size=20&sort=name"))
    page.get_by_label("Select all on this page").check()
    summary = page.locator(".bulk")
    summary.get_by_text("20 on this page selected").wait_for()
    page.get_by_role("button", name="Select all 23 matching").click()
    page.get_by_label("Select doc-03.md").uncheck()
    summary.get_by_text("22 matching selected").wait_for()
    page.locator(".bulk").get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog", name="Delete 22 documents?")
    dialog.get_by_role("button", name="Delete").click()
    page.locator(".batch-notice").get_by_text("22 done").wait_for()
    assert apart(lambda: list(Document.objects.filter(deleted_at=None).values_list("name", flat=True))) == ["doc-03.md"]


def test_a_row_restarted_by_somebody_else_is_followed_though_its_attempts_begin_anew(
    people: World, open_browser: Callable[..., Any], apart: Callable[..., Any]
) -> None:
    document = apart(fill, people, 1)[0]
    apart(lambda: Revision.objects.filter(document=document).update(status="failed", attempts=3))
    page = open_browser(people.bob)
    page.goto(list_of(people))
    row = page.locator(f"#doc-{document.uid}")
    row.get_by_text("Failed").wait_for()
    apart(lambda: lifecycle.retry(people.principal(people.alice), newest()))
    row.get_by_text("Queued").wait_for()


def test_a_citation_opens_at_its_mark_and_pages_fit_a_phone(
    people: World, open_browser: Callable[..., Any], apart: Callable[..., Any]
) -> None:
    text = (
        "\n\n".join(f"## Part {n}\n\n" + f"Filler of part {n}. " * 30 for n in range(20)) + "\n\nThe treasure is here."
    )
    document = apart(ready, people, "long.md", text)
    leaf = apart(Chunk.objects.get, revision__document=document, level="leaf", text__contains="treasure")
    page = open_browser(people.alice, width=390)
    page.goto(list_of(people, f"{document.uid}/?rev=1&chunk=c_{leaf.pk}#c_{leaf.pk}"))
    mark = page.locator(f"#c_{leaf.pk}")
    mark.wait_for()
    assert page.evaluate("document.activeElement.id") == f"c_{leaf.pk}"
    box = mark.bounding_box()
    assert box is not None and 56 <= box["y"] < 844
    for path in (
        "documents/", "documents/upload/", "recycle-bin/", "members/", "settings/", "settings/?section=splitting",
        f"documents/{document.uid}/chunks/", f"documents/{document.uid}/revisions/",
    ):  # fmt: skip
        page.goto(f"/bases/{people.base.uid}/{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
