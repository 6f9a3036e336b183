"""Uploading, by the form without scripts and by the tray's JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.conf import settings

from knowledge.models import Document
from tests.knowledge.pages.desk import a_file, browser, text_of
from tests.support.people import World, put, work_through


def send(world: World, name: str, data: str | bytes, **fields: str) -> Any:
    return browser(world.alice).post(
        f"/bases/{world.base.uid}/documents/upload/",
        {"file": a_file(name, data), **fields},
        headers={"Accept": "application/json"},
    )


def documents(world: World) -> list[tuple[str, str]]:
    rows = Document.objects.filter(base=world.base, deleted_at__isnull=True).order_by("pk")
    return list(rows.values_list("folder", "name"))


def test_the_form_takes_many_files_without_scripts(world: World) -> None:
    files = [a_file("a.md", "# A\n\none"), a_file("b.txt", "two two")]
    address = f"/bases/{world.base.uid}/documents/upload/"
    response = browser(world.alice).post(address, {"file": files, "folder": "policies/2026"})
    assert response.status_code == 302
    assert documents(world) == [("policies/2026", "a.md"), ("policies/2026", "b.txt")]


def test_the_form_says_what_became_of_each_file_failures_first(world: World) -> None:
    files = [a_file("a.md", "# A\n\none"), a_file("b.rar", b"Rar!\x1a\x07\x00 nothing"), a_file("c.md", "")]
    response = browser(world.alice).post(f"/bases/{world.base.uid}/documents/upload/", {"file": files})
    page = text_of(response)
    assert response.status_code == 200
    assert "1 uploaded, 2 failed" in page
    assert page.index("b.rar") < page.index("c.md") < page.index("a.md")
    assert documents(world) == [("", "a.md")]


def test_a_form_of_which_nothing_came_in_is_422_and_keeps_its_values(world: World) -> None:
    address = f"/bases/{world.base.uid}/documents/upload/"
    none = browser(world.alice).post(address, {"folder": "here", "same_name": "skip"})
    assert none.status_code == 422
    assert "Choose at least one file." in text_of(none)
    assert 'value="here"' in text_of(none)
    assert 'value="skip" checked' in text_of(none)


def test_the_tray_gets_json_for_what_came_in(world: World) -> None:
    response = send(world, "a.md", "# A\n\none", path="handbook/leave/a.md", folder="hr")
    body = response.json()
    assert response.status_code == 201
    assert body["status"] == "created" and body["revision"] == 1
    assert body["document"]["url"].startswith(f"/bases/{world.base.uid}/documents/")
    assert documents(world) == [("hr/handbook/leave", "a.md")]


@pytest.mark.parametrize(
    ("name", "data", "status", "code"),
    [
        ("b.rar", b"Rar!\x1a\x07\x00 nothing", 422, "unsupported_type"),
        ("c.md", b"", 422, "empty_file"),
        ("d.pdf", b"just some text, no PDF at all", 422, "type_mismatch"),
    ],
)
def test_the_tray_gets_a_problem_with_a_code_and_nothing_is_kept(
    world: World, name: str, data: bytes, status: int, code: str
) -> None:
    response = send(world, name, data)
    body = response.json()
    assert (response.status_code, body["code"]) == (status, code)
    assert body["title"] and response.headers["Content-Type"] == "application/problem+json"
    assert documents(world) == []


def test_a_file_over_the_limit_is_refused_with_the_limit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings.ARCHWAY, "MAX_UPLOAD_BYTES", 1_048_576)
    response = send(world, "big.txt", b"x" * 1_048_577)
    assert (response.status_code, response.json()["code"]) == (413, "too_large")
    assert "1 MB" in response.json()["title"]
    assert documents(world) == []


def test_the_same_bytes_are_refused_with_a_link_to_where_they_are(world: World) -> None:
    send(world, "a.md", "# A\n\none")
    response = send(world, "copy.md", "# A\n\none")
    body = response.json()
    assert (response.status_code, body["code"]) == (409, "duplicate")
    assert "a.md" in body["title"]
    assert browser(world.alice).get(body["document"]["url"]).status_code == 200


def test_names_that_exist_are_told_before_bytes_travel(world: World) -> None:
    send(world, "a.md", "# A\n\none", path="x/a.md")
    address = f"/bases/{world.base.uid}/documents/upload/names/"
    asked = browser(world.alice).post(address, {"path": ["x/a.md", "a.md", "x/b.md"]})
    assert asked.json() == {"existing": ["x/a.md"]}
    below = browser(world.alice).post(address, {"path": ["a.md"], "folder": "x"})
    assert below.json() == {"existing": ["a.md"]}


def test_what_to_do_with_a_name_that_exists_is_the_persons_choice(world: World) -> None:
    work_through(put(world.principal(world.alice), world.base, "a.md", "# A\n\none").revision)
    assert send(world, "a.md", "# A\n\ntwo", same_name="skip").json()["status"] == "skipped"
    assert send(world, "a.md", "# A\n\nthree", same_name="revision").json()["status"] == "revision"
    assert send(world, "a.md", "# A\n\nfour", same_name="keep_both").json()["status"] == "created"
    assert documents(world) == [("", "a.md"), ("", "a (2).md")]


def test_the_page_names_limits_and_types(world: World) -> None:
    page = text_of(browser(world.alice).get(f"/bases/{world.base.uid}/documents/upload/"))
    assert f"Each up to {settings.ARCHWAY['MAX_UPLOAD_BYTES'] // 1_048_576} MB" in page
    assert ".docx" in page and "Markdown" in page
    limits = page.split('data-limits="')[1].split('"')[0].replace("&quot;", '"')
    assert json.loads(limits)["md"] == 20


def test_a_name_that_is_a_script_stays_text(world: World) -> None:
    send(world, "a.md", "# A\n\none", path="<img src=x onerror=alert(1)>.md")
    page = text_of(browser(world.alice).get(f"/bases/{world.base.uid}/documents/"))
    assert "<img src=x" not in page and "&lt;img src=x onerror=alert(1)&gt;.md" in page
