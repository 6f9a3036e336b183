"""Large files and whole folders in Chromium: pieces, pause and restart, what is left out, and the list of refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from knowledge.models import Document, Upload
from tests.support.people import World
from tests.support.running import until

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FOLDER = """files => {
  const carried = new DataTransfer();
  for (const [path, text] of files) {
    const file = new File([text], path.split("/").pop());
    Object.defineProperty(file, "webkitRelativePath", { value: path });
    carried.items.add(file);
  }
  const input = document.getElementById("folder-files");
  Object.defineProperty(input, "files", { value: [...files].map(([path, text]) => {
    const file = new File([text], path.split("/").pop());
    Object.defineProperty(file, "webkitRelativePath", { value: path });
    return file;
  }) });
  input.dispatchEvent(new Event("change"));
}"""


def upload_page(world: World) -> str:
    return f"/bases/{world.base.uid}/documents/upload/"


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """13 MB of different lines."""
    path = tmp_path / "large.txt"
    path.write_text("\n".join(f"Line {number} of a large text." for number in range(450_000)))
    return path


def test_a_large_file_goes_in_pieces_waits_on_demand_and_goes_on_after_a_reload(
    people: World, open_browser: Callable[..., Any], apart: Callable[..., Any], large: Path
) -> None:
    page = open_browser(people.alice)
    # Each piece waits until the test lets it through, so that it can look at what is under way.
    passing: list[Any] = []
    page.route("**/api/v1/uploads/*", lambda route: passing.append(route))
    page.goto(f"/bases/{people.base.uid}/documents/")
    page.set_input_files("#upload-files", large)
    tray = page.locator("#upload-tray")

    def let_through(number: int = 1) -> None:
        for _ in range(number):
            _wait_for(page, lambda: passing)
            passing.pop(0).continue_()

    let_through()
    _wait_for(page, lambda: passing)
    assert apart(lambda: Upload.objects.get().offset) == 4 * 1024 * 1024
    tray.get_by_role("button", name="Pause").click()
    tray.get_by_text("Paused", exact=True).wait_for()
    passing.clear()
    page.reload()
    page.unroute("**/api/v1/uploads/*")
    page.set_input_files("#upload-files", large)
    page.locator("#upload-tray").get_by_text("Uploaded", exact=True).wait_for()
    apart(lambda: until(lambda: Document.objects.filter(name="large.txt").exists()))
    upload = apart(Upload.objects.get)
    assert (upload.state, upload.length) == ("done", large.stat().st_size)
    assert apart(lambda: Document.objects.get().revisions.get().size) == large.stat().st_size


def _wait_for(page: Any, condition: Callable[[], Any]) -> None:
    """Until `condition` holds; the browser's events come in meanwhile."""
    for _ in range(600):
        if condition():
            return
        page.wait_for_timeout(50)
    raise AssertionError("did not happen")


def test_a_lost_connection_does_not_lose_what_was_sent(
    people: World, open_browser: Callable[..., Any], apart: Callable[..., Any], large: Path
) -> None:
    page = open_browser(people.alice)
    failures = iter(["internetdisconnected", "connectionreset"])

    def unreliable(route: Any) -> None:
        if route.request.method == "PATCH" and route.request.headers["upload-offset"] != "0":
            reason = next(failures, "")
            if reason:
                route.abort(reason)
                return
        route.continue_()

    page.route("**/api/v1/uploads/*", unreliable)
    page.goto(f"/bases/{people.base.uid}/documents/")
    page.set_input_files("#upload-files", large)
    page.locator("#upload-tray").get_by_text("Uploaded", exact=True).wait_for()
    assert apart(lambda: Document.objects.get().revisions.get().size) == large.stat().st_size


def test_a_large_file_of_the_wrong_type_is_refused_early(
    people: World, open_browser: Callable[..., Any], apart: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "report.pdf"
    path.write_bytes(b"\x89PNG" + bytes(12_000_000))
    page = open_browser(people.alice)
    page.goto(f"/bases/{people.base.uid}/documents/")
    page.set_input_files("#upload-files", path)
    page.locator("#upload-tray").get_by_text("The content of this file is not PDF").wait_for()
    assert apart(lambda: Upload.objects.get().offset) == 4 * 1024 * 1024


def test_a_folder_keeps_its_folders_leaves_junk_out_and_lists_what_was_refused(
    people: World, open_browser: Callable[..., Any], apart: Callable[..., Any]
) -> None:
    page = open_browser(people.alice)
    page.goto(upload_page(people))
    files = [
        ["manual/start.md", "# Start\n\nHow it begins."],
        ["manual/care/oil.md", "# Oil\n\nOnce a year."],
        ["manual/care/oil.exe", "MZ"],
        ["manual/.DS_Store", "x"],
        ["manual/__MACOSX/start.md", "x"],
        ["manual/care/~$oil.docx", "x"],
        ["manual/Thumbs.db", "x"],
    ]
    page.evaluate(FOLDER, files)
    tray = page.locator("#upload-tray")
    tray.get_by_text("4 system files left out").wait_for()
    page.get_by_role("button", name="Start upload").click()
    tray.get_by_text("2 uploaded, 1 failed").wait_for()
    with page.expect_download() as saved:
        tray.get_by_role("button", name="Save list").click()
    report = Path(saved.value.path()).read_text(encoding="utf-8-sig")
    assert report == "manual/care/oil.exe\tUnsupported type\n"
    rows = apart(lambda: sorted(Document.objects.values_list("folder", "name")))
    assert rows == [("manual", "start.md"), ("manual/care", "oil.md")]
