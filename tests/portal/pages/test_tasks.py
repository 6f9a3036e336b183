from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from knowledge import worklist
from knowledge.models import Document, Revision
from tests.support.people import World

Status = Revision.Status


def add(world: World, name: str, status: Status, **fields: Any) -> Revision:
    """A document whose newest revision stands in this state."""
    document, _ = Document.objects.get_or_create(base=world.base, source_key=name, name=name)
    number = document.revisions.count() + 1
    now = timezone.now()
    values = {"started_at": now, "finished_at": now, "created_by": world.alice, "attempts": 1, **fields}
    return Revision.objects.create(
        document=document, base=world.base, number=number, file="f", file_name=name, sha256=f"{name}{number}",
        mime="text/plain", size=1, status=status, **values,
    )  # fmt: skip


@pytest.fixture
def work(world: World) -> dict[str, Revision]:
    now = timezone.now()
    add(world, "mended.pdf", Status.FAILED)
    return {
        "failed": add(
            world, "failed.pdf", Status.FAILED, error_code="empty", error_message="%(name)s is empty.",
            error_params={"name": "failed.pdf"}, error_stage="parsing",
        ),
        "no_text": add(world, "scan.pdf", Status.NO_TEXT),
        "review": add(world, "review.md", Status.REVIEW),
        "running": add(
            world, "running.md", Status.VECTORIZING, heartbeat_at=now, claimed_by="w", done=3, total=9, unit="chunk"
        ),
        "stuck": add(world, "stuck.md", Status.PARSING, heartbeat_at=now - timedelta(minutes=6), claimed_by="w"),
        "pending": add(world, "pending.md", Status.PENDING),
        "indexed": add(world, "mended.pdf", Status.INDEXED),
    }  # fmt: skip


def counts_on(html: str) -> list[int]:
    tabs = html.split('aria-label="Which tasks"')[1].split("</nav>")[0]
    return [int(number) for number in re.findall(r'class="count[^"]*">(\d+)<', tabs)]


def rows_on(html: str) -> int:
    return len(re.findall(r'<tr id="task-', html))


def test_the_tabs_add_up_and_each_shows_as_many_rows_as_it_counts(alice: Client, work: dict[str, Revision]) -> None:
    html = alice.get("/tasks/").content.decode()
    whole, running, attention, done = counts_on(html)
    assert (whole, running, attention, done) == (8, 2, 4, 2)
    for tab, expected in [("all", whole), ("running", running), ("attention", attention), ("done", done)]:
        page = alice.get(f"/tasks/?tab={tab}").content.decode()
        assert rows_on(page) == expected
        assert counts_on(page) == [whole, running, attention, done]


def test_counts_of_the_home_page_the_top_bar_and_the_lists_agree(alice: Client, work: dict[str, Revision]) -> None:
    home = alice.get("/").content.decode()
    for state, expected in [("review", 1), ("failed", 2), ("stuck", 1)]:
        address = f"/tasks/?tab=attention&state={state}&can=edit"
        shown = re.search(rf'href="{re.escape(address.replace("&", "&amp;"))}">.*?<strong>(\d+)</strong>', home)
        assert shown is not None and int(shown.group(1)) == expected
        assert rows_on(alice.get(address).content.decode()) == expected
    assert "2 failed tasks" in home and "2 tasks running" in home
    bases = alice.get("/bases/").content.decode()
    assert re.search(r"Attention\s+4<", bases) and re.search(r"Running\s+2<", bases)


def test_a_viewer_sees_the_states_and_reasons_but_no_buttons(
    bob: Client, world: World, work: dict[str, Revision]
) -> None:
    html = bob.get("/tasks/").content.decode()
    assert rows_on(html) == 8
    assert "failed.pdf is empty." in html
    assert "/retry/" not in html.replace('action="/tasks/retry/"', "") and "/cancel/" not in html
    assert worklist.needs(world.principal(world.bob)).all == 0


def test_strangers_find_no_tasks_and_no_way_to_touch_one(mallory: Client, work: dict[str, Revision]) -> None:
    assert rows_on(mallory.get("/tasks/").content.decode()) == 0
    uid = work["failed"].uid
    for answer in (
        mallory.get(f"/tasks/{uid}/"),
        mallory.post(f"/tasks/{uid}/retry/"),
        mallory.post(f"/tasks/{work['running'].uid}/cancel/"),
    ):
        assert answer.status_code == 404
    mallory.post("/tasks/retry/", {"scope": "ids", "ids": [uid]})
    mallory.post("/tasks/retry/", {"scope": "all", "filter": ""})
    assert Revision.objects.get(uid=uid).status == Status.FAILED


def test_a_viewer_may_not_retry(bob: Client, work: dict[str, Revision]) -> None:
    assert bob.post(f"/tasks/{work['failed'].uid}/retry/").status_code == 403
    bob.post("/tasks/retry/", {"scope": "ids", "ids": [work["failed"].uid]})
    assert Revision.objects.get(pk=work["failed"].pk).status == Status.FAILED


def test_ticked_rows_are_queued_again(alice: Client, work: dict[str, Revision]) -> None:
    ids = [work["failed"].uid, work["no_text"].uid, work["running"].uid, "nonsense"]
    response = alice.post("/tasks/retry/", {"scope": "ids", "ids": ids, "next": "/tasks/?tab=attention"}, follow=True)
    assert "2 tasks queued again" in response.content.decode()
    assert response.redirect_chain[-1][0] == "/tasks/?tab=attention"
    assert set(Revision.objects.filter(status=Status.PENDING).values_list("document__name", flat=True)) == {
        "failed.pdf", "scan.pdf", "pending.md",
    }  # fmt: skip


def test_all_matching_means_the_filter_less_the_excluded_ones(alice: Client, work: dict[str, Revision]) -> None:
    form = {"scope": "all", "filter": "tab=attention&state=failed", "exclude": [work["no_text"].uid]}
    alice.post("/tasks/retry/", form)
    assert Revision.objects.get(pk=work["failed"].pk).status == Status.PENDING
    assert Revision.objects.get(pk=work["no_text"].pk).status == Status.NO_TEXT


def test_all_matching_never_takes_more_than_was_shown(alice: Client, world: World, work: dict[str, Revision]) -> None:
    form = {"scope": "all", "filter": "tab=attention", "expected": "2"}
    add(world, "later.md", Status.FAILED)
    refused = alice.post("/tasks/retry/", form)
    assert refused.status_code == 409
    assert "More tasks match now" in refused.content.decode()
    assert not Revision.objects.filter(status=Status.PENDING, document__name="later.md").exists()
    assert alice.post("/tasks/retry/", {**form, "expected": "3"}).status_code == 302


def test_a_failure_that_a_newer_revision_has_mended_is_not_retried(alice: Client, work: dict[str, Revision]) -> None:
    old = Revision.objects.get(document__name="mended.pdf", number=1)
    alice.post("/tasks/retry/", {"scope": "all", "filter": ""})
    assert Revision.objects.get(pk=old.pk).status == Status.FAILED


def test_cancelling_running_work_says_so_until_the_worker_stops(alice: Client, work: dict[str, Revision]) -> None:
    alice.post(f"/tasks/{work['running'].uid}/cancel/")
    assert "Cancelling" in alice.get("/tasks/?q=running").content.decode()
    alice.post(f"/tasks/{work['pending'].uid}/cancel/")
    assert Revision.objects.get(pk=work["pending"].pk).status == Status.CANCELLED


def test_filters_that_make_no_sense_are_ignored(alice: Client, work: dict[str, Revision]) -> None:
    html = alice.get("/tasks/?tab=x&state=%27&base=%00&q=%00&page=-1&size=9999").content.decode()
    assert rows_on(html) == 8


def test_a_filter_without_matches_differs_from_having_no_tasks(
    alice: Client, mallory: Client, work: dict[str, Revision]
) -> None:
    assert "No tasks match these filters" in alice.get("/tasks/?q=zzz").content.decode()
    assert "No tasks yet" in mallory.get("/tasks/").content.decode()
    assert "Nothing needs attention" in mallory.get("/tasks/?tab=attention").content.decode()


def test_the_details_name_the_code_and_the_reason(alice: Client, work: dict[str, Revision]) -> None:
    html = alice.get(f"/tasks/{work['failed'].uid}/").content.decode()
    assert "failed.pdf is empty." in html and "<code>empty</code>" in html


def test_the_list_takes_as_many_statements_for_many_rows_as_for_few(
    alice: Client, world: World, work: dict[str, Revision], django_assert_max_num_queries: Any
) -> None:
    for number in range(40):
        add(world, f"more{number}.md", Status.INDEXED)
    with django_assert_max_num_queries(22):
        assert rows_on(alice.get("/tasks/").content.decode()) == 48
