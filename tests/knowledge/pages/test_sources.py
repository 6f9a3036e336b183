"""Sources, pasted texts and sheets of questions at the pages: forms, lists, what went wrong, and who sees them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from knowledge.models import Document, Source, Upload
from knowledge.retrieval.contract import RetrievalRequest
from knowledge.retrieval.search import retrieve
from knowledge.sources import crawl, pasted, runs
from tests.knowledge.pages.desk import a_file, browser, text_of
from tests.support.people import World, work_through
from tests.support.website import Site, website


@pytest.fixture
def site(settings: Any) -> Any:
    settings.ARCHWAY = {**settings.ARCHWAY, "CRAWL_DELAY": 0}
    with website() as running:
        yield running


def home(world: World) -> str:
    return f"/bases/{world.base.uid}/sources/"


def fields(site: Site, **more: str) -> dict[str, str]:
    base = {"url": site.url(), "kind": "site", "schedule": "daily", "gone": "disable", "main_only": "on"}
    return {**base, "depth": "1", "page_limit": "10", "limit_mb": "10", "include": "", "exclude": "/no\n", **more}


def finish(source: Source) -> None:
    while claim := runs.claim("test", source.runs.latest("number").pk):
        crawl.work(claim)


def test_the_first_source_is_added_from_the_empty_state_and_its_run_is_shown(world: World, site: Site) -> None:
    alice = browser(world.alice)
    assert "No web sources yet" in text_of(alice.get(home(world)))
    site.page("/", "Manual", "How the pump is used.", "/a.html", "/closed.html", "/no/x.html")
    site.page("/a.html", "Oil", "Change the oil each year.")
    site.put("/closed.html", "", status=403)
    made = alice.post(f"{home(world)}new/", fields(site, name="The <b>manual</b>"))
    source = Source.objects.get()
    assert made.status_code == 302 and made["Location"] == f"{home(world)}{source.uid}/"
    assert source.exclude == ["/no"] and source.schedule == "daily"
    under_way = text_of(alice.get(made["Location"]))
    assert 'hx-trigger="every 2s"' in under_way and "Cancel" in under_way
    finish(source)
    page = text_of(alice.get(made["Location"]))
    assert "2 new, 1 failed" in page and "Synchronise now" in page and "every 2s" not in page
    assert "The site does not show this page to everybody (403)." in page
    assert "<b>manual</b>" not in page
    assert "Oil" in page and "/no/x.html" not in page
    assert "Oil" not in text_of(alice.get(f"{made['Location']}?state=failed"))
    assert "2 new, 1 failed" in text_of(alice.get(home(world)))


def test_a_wrong_address_is_told_beside_its_field_and_nothing_is_lost(world: World, site: Site) -> None:
    page = browser(world.alice).post(f"{home(world)}new/", fields(site, url="ftp://x", name="Kept"))
    assert page.status_code == 422
    assert "Give an address that starts with http://" in text_of(page) and 'value="Kept"' in text_of(page)
    assert not Source.objects.exists()


def test_settings_are_changed_and_a_source_deleted_with_its_documents(world: World, site: Site) -> None:
    alice = browser(world.alice)
    site.page("/", "Manual", "How the pump is used.")
    alice.post(f"{home(world)}new/", fields(site))
    source = Source.objects.get()
    finish(source)
    address = f"{home(world)}{source.uid}/"
    changed = {
        name: value for name, value in fields(site, schedule="off", depth="").items() if name not in ("url", "kind")
    }
    assert alice.post(f"{address}settings/", changed).status_code == 302
    source.refresh_from_db()
    assert (source.schedule, source.next_run_at, source.depth) == ("off", None, 1)
    assert alice.post(f"{address}cancel/", follow=True).status_code == 200
    alice.post(f"{address}sync/")
    assert "synchronised already" in text_of(alice.post(f"{address}sync/", follow=True))
    alice.post(f"{address}delete/", {"documents": "yes"})
    assert not Source.objects.exists()
    assert Document.objects.get().deleted_at is not None


def test_viewers_see_no_sources_and_strangers_find_nothing(world: World, site: Site) -> None:
    browser(world.alice).post(f"{home(world)}new/", fields(site))
    source = Source.objects.get()
    for path in ("", "new/", f"{source.uid}/", f"{source.uid}/settings/"):
        assert browser(world.bob).get(home(world) + path).status_code == 403
        assert browser(world.mallory).get(home(world) + path).status_code == 404
    other = f"/bases/{world.eves_base.uid}/sources/{source.uid}/"
    assert browser(world.eve).get(other).status_code == 404
    assert "Sources" not in text_of(browser(world.bob).get(f"/bases/{world.base.uid}/documents/"))


def test_a_source_of_another_base_is_absent_even_for_its_owner(world: World, site: Site) -> None:
    from knowledge import bases

    browser(world.alice).post(f"{home(world)}new/", fields(site))
    other = bases.create(world.principal(world.alice), name="Second")
    assert browser(world.alice).get(f"/bases/{other.uid}/sources/{Source.objects.get().uid}/").status_code == 404


# -- texts --


def test_text_is_pasted_edited_and_kept_apart_from_a_later_change(world: World) -> None:
    alice = browser(world.alice)
    address = f"/bases/{world.base.uid}/documents/paste/"
    assert "Paste text" in text_of(alice.get(f"{address}?folder=hr"))
    empty = alice.post(address, {"title": "", "text": "", "kind": "markdown"})
    assert empty.status_code == 422 and "2 things to fix" in text_of(empty)
    alice.post(address, {"title": "Leave", "text": "  # Leave\n\nTwenty days.", "kind": "markdown", "folder": "hr"})
    document = Document.objects.get()
    work_through(document.revisions.get())
    form = f"/bases/{world.base.uid}/documents/{document.uid}/text/"
    page = text_of(alice.get(form))
    assert "Twenty days." in page
    number = re.search(r'name="number" value="(\d+)"', page)
    assert number is not None
    assert alice.post(form, {"text": "Thirty days.", "number": number[1]}).status_code == 302
    late = alice.post(form, {"text": "Forty days.", "number": number[1]})
    assert late.status_code == 422
    assert "Somebody has changed this text meanwhile" in text_of(late) and "Forty days." in text_of(late)
    assert browser(world.bob).get(form).status_code == 403
    assert "/text/" in text_of(alice.get(f"/bases/{world.base.uid}/documents/{document.uid}/"))


# -- questions --


def test_a_sheet_is_looked_at_first_and_what_was_left_out_stays_on_the_page(world: World) -> None:
    alice = browser(world.alice)
    address = f"/bases/{world.base.uid}/question-sheets/"
    assert "Template:" in text_of(alice.get(address))
    data = "Question,Answer\nHow <many>?,Twenty.\nWhy?,\n"
    preview = text_of(alice.post(address, {"file": a_file("faq.csv", data), "folder": "qa"}))
    assert "1 row can be imported." in preview and "1 row is left out." in preview
    assert "The answer is missing." in preview and "How &lt;many&gt;?" in preview
    held = re.search(r'name="held" value="(\w+)"', preview)
    assert held is not None and not Document.objects.exists()
    assert "faq.csv" not in text_of(alice.get(f"/bases/{world.base.uid}/documents/upload/"))
    for stranger, status in ((world.admin, 422), (world.mallory, 404)):
        assert browser(stranger).post(address, {"held": held[1]}).status_code == status
    done = text_of(alice.post(address, {"held": held[1]}))
    assert "1 question imported" in done and "The answer is missing." in done
    document = Document.objects.get()
    assert (document.folder, document.name) == ("qa", "faq.csv") and not Upload.objects.exists()
    assert alice.post(address, {"held": held[1]}).status_code == 422


def test_a_sheet_without_columns_is_told_on_the_page(world: World) -> None:
    page = browser(world.alice).post(
        f"/bases/{world.base.uid}/question-sheets/", {"file": a_file("a.csv", "x,y\n1,2\n")}
    )
    assert page.status_code == 422 and "No columns for question and answer" in text_of(page)


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_the_template_is_a_download_in_the_readers_language(world: World, kind: str) -> None:
    answer = browser(world.alice).get(f"/question-sheet/?type={kind}")
    assert answer.status_code == 200 and "attachment" in answer.headers["Content-Disposition"]
    if kind == "csv":
        assert answer.content.decode("utf-8-sig").startswith("Question,Answer,Similar questions,Tags")


def test_unfinished_uploads_are_listed_and_discarded(world: World) -> None:
    from knowledge import resumable

    alice = world.principal(world.alice)
    upload = resumable.begin(alice, world.base, path="big.md", length=1000)
    resumable.append(alice, upload, 0, [b"a" * 100])
    page = f"/bases/{world.base.uid}/documents/upload/"
    assert "big.md" in text_of(browser(world.alice).get(page))
    assert "big.md" not in text_of(browser(world.admin).get(page))
    assert browser(world.admin).post(f"{page}discard/", {"upload": upload.uid}).status_code == 404
    assert browser(world.alice).post(f"{page}discard/", {"upload": upload.uid}).status_code == 302
    assert not Upload.objects.exists()


def test_citations_name_the_address_that_a_document_came_from(world: World, site: Site) -> None:
    from knowledge.models import Origin

    document = pasted.paste(world.principal(world.alice), world.base, title="A", text="The pump hums.").document
    work_through(document.revisions.get())
    Origin.objects.create(document=document, url="https://docs.example.com/pump")
    page = text_of(browser(world.bob).get(f"/bases/{world.base.uid}/documents/{document.uid}/"))
    assert "https://docs.example.com/pump" in page
    result = retrieve(world.principal(world.bob), RetrievalRequest(query="pump"))
    assert [hit.origin for hit in result.hits] == ["https://docs.example.com/pump"]


def test_a_source_says_which_tags_and_metadata_its_new_documents_get(world: World, site: Site) -> None:
    alice = browser(world.alice)
    site.page("/", "Manual", "How the pump is used.")
    alice.post(f"{home(world)}new/", fields(site, tags="web, pump", metadata="year: 2026"))
    source = Source.objects.get()
    assert (source.tags, source.metadata) == (["web", "pump"], {"year": 2026})
    address = f"{home(world)}{source.uid}/settings/"
    shown = text_of(alice.get(address))
    assert 'value="web, pump"' in shown and "year: 2026" in shown
    wrong = alice.post(address, fields(site, metadata="no colon"))
    assert wrong.status_code == 422 and "Write each line as key: value." in text_of(wrong)
    alice.post(address, fields(site, tags="", metadata=""))
    source.refresh_from_db()
    assert (source.tags, source.metadata) == ([], {})
