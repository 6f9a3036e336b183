"""The list: filters, states and reasons, one row, many rows at once, the recycle bin."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from knowledge.models import Document, Revision
from tests.knowledge.pages.desk import browser, text_of
from tests.support.people import World, indexed, put


@pytest.fixture
def alice(world: World) -> Client:
    return browser(world.alice)


def address(world: World, query: str = "") -> str:
    return f"/bases/{world.base.uid}/documents/{query}"


def fill(world: World, count: int, folder: str = "") -> list[Document]:
    principal = world.principal(world.alice)
    rows = [put(principal, world.base, f"doc-{n:03}.md", f"# {folder} {n}\n\nWords", folder) for n in range(count)]
    return [row.document for row in rows]


def names(page: str) -> list[str]:
    return re.findall(r'class="table__name">\s*<a href="[^"]+">([^<]+)</a>', page)


def set_state(document: Document, **fields: Any) -> None:
    Revision.objects.filter(document=document).update(**fields)


def test_search_state_sort_and_page_stand_in_the_address(world: World, alice: Client) -> None:
    rows = fill(world, 25)
    set_state(rows[3], status="failed", error_message="This file is damaged.")
    assert len(names(text_of(alice.get(address(world, "?size=20"))))) == 20
    assert names(text_of(alice.get(address(world, "?size=20&page=2&sort=name"))))[0] == "doc-020.md"
    assert names(text_of(alice.get(address(world, "?q=DOC-007")))) == ["doc-007.md"]
    assert names(text_of(alice.get(address(world, "?state=failed")))) == ["doc-003.md"]
    assert names(text_of(alice.get(address(world, "?sort=-name"))))[0] == "doc-024.md"


def test_first_use_no_match_and_rows_look_different(world: World, alice: Client) -> None:
    assert "Drop files or choose Upload" in text_of(alice.get(address(world)))
    assert "No documents yet" in text_of(browser(world.bob).get(address(world)))
    fill(world, 1)
    nothing = text_of(alice.get(address(world, "?q=zebra")))
    assert "No documents match these filters" in nothing and "Clear filters" in nothing
    assert names(text_of(alice.get(address(world)))) == ["doc-000.md"]


def test_folders_narrow_the_list_to_what_lies_below(world: World, alice: Client) -> None:
    fill(world, 1)
    fill(world, 2, "hr/leave")
    page = text_of(alice.get(address(world)))
    assert "?folder=hr" in page and len(names(page)) == 3
    inside = text_of(alice.get(address(world, "?folder=hr")))
    assert len(names(inside)) == 2 and "?folder=hr/leave" in inside


def test_a_failed_row_says_why_and_offers_the_next_step(world: World, alice: Client) -> None:
    document = fill(world, 1)[0]
    set_state(document, status="failed", error_code="encrypted", error_message="This file has a password.")
    page = text_of(alice.get(address(world)))
    assert "This file has a password." in page and "/retry/" in page
    assert "1 needs attention" in page
    set_state(document, status="no_text", error_message="")
    page = text_of(alice.get(address(world)))
    assert "No text was found in this file." in page and "Replace file" in page


def test_a_file_that_is_itself_at_fault_is_replaced_and_one_that_took_too_long_is_tried_again(
    world: World, alice: Client
) -> None:
    document = fill(world, 1)[0]
    set_state(
        document, status="failed", error_code="password_protected", error_stage="parsing", error_message="Locked."
    )
    assert "Replace file" in text_of(alice.get(address(world)))
    set_state(document, status="failed", error_code="too_slow", error_stage="parsing", error_message="Slow.")
    assert "Replace file" not in text_of(alice.get(address(world)))


def test_overlays_stuck_cancelling_and_earlier_version(world: World, alice: Client) -> None:
    principal = world.principal(world.alice)
    document = indexed(principal, world.base, "a.md", "# A\n\none")
    put(principal, world.base, "a.md", "# A\n\ntwo")
    newest = Revision.objects.filter(document=document, number=2)
    long_ago = timezone.now() - timedelta(minutes=6)
    newest.update(status="vectorizing", claimed_by="w", heartbeat_at=long_ago, started_at=long_ago, done=3, total=9)
    page = text_of(alice.get(address(world)))
    assert "Stuck" in page and "Earlier version still searchable" in page and "4/5" in page
    newest.update(cancel_requested=True, heartbeat_at=timezone.now())
    assert "Cancelling" in text_of(alice.get(address(world)))
    assert names(text_of(alice.get(address(world, "?state=stuck")))) == []


def test_the_row_tells_what_live_frames_are_compared_with(world: World, alice: Client) -> None:
    document = fill(world, 1)[0]
    row = text_of(alice.get(address(world, f"{document.uid}/row/")))
    assert f'id="doc-{document.uid}"' in row
    assert 'data-rev="1"' in row and 'data-attempt="0"' in row and 'data-state="pending"' in row
    assert re.search(r'data-seq="\d+"', row)
    assert 'id="document-counts"' in row and 'hx-swap-oob="true"' in row


def test_a_button_answers_htmx_with_the_row_and_a_form_with_the_list(world: World, alice: Client) -> None:
    first, second = fill(world, 2)
    row = alice.post(address(world, f"{first.uid}/cancel/"), headers={"HX-Request": "true"})
    assert row.status_code == 200 and "Cancelled" in text_of(row) and "<html" not in text_of(row)
    listed = alice.post(address(world, f"{second.uid}/cancel/"))
    assert listed.status_code == 302
    assert set(Revision.objects.values_list("status", flat=True)) == {"cancelled"}


def test_a_verb_that_comes_too_late_says_so_in_the_row(world: World, alice: Client) -> None:
    document = indexed(world.principal(world.alice), world.base, "a.md", "# A\n\none")
    late = alice.post(address(world, f"{document.uid}/cancel/"), headers={"HX-Request": "true"})
    assert late.status_code == 422 and "the work has ended" in text_of(late)
    alice.post(address(world, f"{document.uid}/cancel/"))
    assert "the work has ended" in text_of(alice.get(address(world)))


def test_delete_can_be_undone_from_the_list(world: World, alice: Client) -> None:
    document = fill(world, 1)[0]
    gone = alice.post(address(world, f"{document.uid}/delete/"), headers={"HX-Request": "true"})
    assert document.uid in gone.headers["HX-Trigger"] and "<tr" not in text_of(gone)
    alice.post(address(world, "restore/"), {"ids": [document.uid]})
    assert Document.objects.get(pk=document.pk).deleted_at is None
    alice.post(address(world, f"{document.uid}/delete/"))
    assert "data-undo" in text_of(alice.get(address(world)))
    assert "data-undo" not in text_of(alice.get(address(world)))


def test_the_recycle_bin_restores_and_deletes_for_good(world: World, alice: Client) -> None:
    first, second = fill(world, 2)
    for document in (first, second):
        alice.post(address(world, f"{document.uid}/delete/"))
    bin_address = f"/bases/{world.base.uid}/recycle-bin/"
    assert "doc-000.md" in text_of(alice.get(bin_address))
    alice.post(address(world, "restore/"), {"ids": [first.uid], "to": "bin"})
    alice.post(f"{bin_address}{second.uid}/purge/")
    assert list(Document.objects.values_list("uid", "deleted_at")) == [(first.uid, None)]
    assert "The recycle bin is empty" in text_of(alice.get(bin_address))


def test_bulk_on_ticked_rows_touches_those_only(world: World, alice: Client) -> None:
    rows = fill(world, 4)
    alice.post(address(world, "bulk/"), {"scope": "ids", "verb": "disable", "ids": [rows[0].uid, rows[2].uid]})
    assert list(Document.objects.order_by("pk").values_list("enabled", flat=True)) == [False, True, False, True]


def test_bulk_on_all_that_match_leaves_out_what_was_unticked(world: World, alice: Client) -> None:
    rows = fill(world, 30)
    data = {"scope": "all", "verb": "delete", "filter": "q=doc-0", "expected": "30", "exclude": [rows[5].uid]}
    alice.post(address(world, "bulk/"), data)
    assert list(Document.objects.filter(deleted_at__isnull=True)) == [rows[5]]
    page = text_of(alice.get(address(world)))
    assert "29 done" in page
    undo = re.search(r'action="(/bases/[^"]+/undo/)"', page)
    assert undo is not None
    alice.post(undo[1])
    assert Document.objects.filter(deleted_at__isnull=True).count() == 30


def test_bulk_on_a_filter_that_matches_more_than_was_shown_does_nothing(world: World, alice: Client) -> None:
    fill(world, 5)
    data = {"scope": "all", "verb": "delete", "filter": "", "expected": "4"}
    alice.post(address(world, "bulk/"), data)
    assert not Document.objects.filter(deleted_at__isnull=False).exists()
    assert "More documents match now" in text_of(alice.get(address(world)))


def test_bulk_follows_the_filter_over_all_pages(world: World, alice: Client) -> None:
    rows = fill(world, 25)
    set_state(rows[24], status="failed")
    set_state(rows[1], status="failed")
    alice.post(address(world, "bulk/"), {"scope": "all", "verb": "retry", "filter": "state=failed", "expected": "2"})
    assert not Revision.objects.filter(status="failed").exists()


def test_bulk_never_reaches_documents_of_other_bases(world: World, alice: Client) -> None:
    eves = put(world.principal(world.eve), world.eves_base, "plan.md", "# Plan\n\nsecret").document
    alice.post(address(world, "bulk/"), {"scope": "ids", "verb": "delete", "ids": [eves.uid]})
    assert Document.objects.get(pk=eves.pk).deleted_at is None


def test_bulk_names_what_did_not_work_and_does_the_rest(world: World, alice: Client) -> None:
    ready = indexed(world.principal(world.alice), world.base, "a.md", "# A\n\none")
    busy = fill(world, 1)[0]
    alice.post(address(world, "bulk/"), {"scope": "ids", "verb": "reindex", "ids": [ready.uid, busy.uid]})
    page = text_of(alice.get(address(world)))
    assert "doc-000.md: doc-000.md is still being processed" in page
    assert Revision.objects.filter(document=ready).count() == 2


def test_tags_are_added_and_removed_for_many(world: World, alice: Client) -> None:
    rows = fill(world, 2)
    ids = [row.uid for row in rows]
    alice.post(address(world, "bulk/"), {"verb": "tag", "tag": "hr, 2026", "ids": ids})
    alice.post(address(world, "bulk/"), {"verb": "untag", "tag": "2026", "ids": ids[:1]})
    assert list(Document.objects.order_by("pk").values_list("tags", flat=True)) == [["hr"], ["hr", "2026"]]
    assert names(text_of(alice.get(address(world, "?tag=2026")))) == ["doc-001.md"]
    alice.post(address(world, "bulk/"), {"verb": "tag", "tag": " ", "ids": ids})
    assert "Write the tag first." in text_of(alice.get(address(world)))
    alice.post(address(world, "bulk/"), {"verb": "explode", "ids": ids})
    assert "Choose what to do with the documents." in text_of(alice.get(address(world)))


def test_a_list_costs_the_same_number_of_statements_whatever_its_length(
    world: World, alice: Client, django_assert_max_num_queries: Any
) -> None:
    fill(world, 40)
    alice.get(address(world))
    with django_assert_max_num_queries(30):
        assert len(names(text_of(alice.get(address(world))))) == 40
