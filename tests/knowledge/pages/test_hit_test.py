from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from django.http import QueryDict
from django.test import Client

from knowledge import base_settings, bases, hit_tests
from knowledge.base_settings import Searching
from knowledge.models import QueryRecord, Role
from knowledge.pages.search_settings import SearchSettings
from portal.kernel import events
from portal.kernel.models import User
from tests.support.people import World, indexed

HANDBOOK = """# Leave

Employees have ten days of annual leave in a year.

# Travel

Trains are booked in second class.
"""
FORM = {"q": "annual leave", "top_k": "3", "threshold": "0", "weight": "0.5", "fusion": "convex", "neighbours": "0"}


@pytest.fixture(autouse=True)
def fresh_limits() -> Iterator[None]:
    for key in events.client().scan_iter("limit:*"):
        events.client().delete(key)
    yield


@pytest.fixture
def library(world: World) -> World:
    indexed(world.principal(world.alice), world.base, "handbook.md", HANDBOOK, folder="rules/staff")
    return world


def browser(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


def page(world: World, rest: str = "") -> str:
    return f"/bases/{world.base.uid}/hit-test/{rest}"


def test_without_scripts_all_columns_come_at_once_and_the_run_is_kept(library: World) -> None:
    client = browser(library.alice)
    answer = client.post(page(library), FORM)
    run = QueryRecord.objects.get(kind=QueryRecord.Kind.HIT_TEST)
    assert answer.status_code == 302
    assert answer["Location"] == page(library, f"{run.uid}/")
    assert set(run.result) == {"embedding", "keywords", "blend"}
    shown = client.get(answer["Location"]).content.decode()
    assert shown.count("data-loaded") == 3
    assert "<mark>annual</mark>" in shown


def test_a_run_opened_again_shows_what_was_found_then(library: World) -> None:
    client = browser(library.alice)
    address = client.post(page(library), FORM)["Location"]
    before = QueryRecord.objects.get().result
    indexed(library.principal(library.alice), library.base, "more.md", "# More\n\nannual leave annual leave")
    client.get(address)
    assert QueryRecord.objects.get().result == before
    assert "annual leave" in client.get(page(library)).content.decode()  # the history


def test_with_scripts_the_columns_are_searched_one_by_one(library: World) -> None:
    client = browser(library.alice)
    answer = client.post(page(library), FORM, headers={"HX-Request": "true"})
    run = QueryRecord.objects.get()
    assert answer["HX-Push-Url"] == page(library, f"{run.uid}/")
    assert answer.content.decode().count('aria-busy="true"') == 3
    for mode in hit_tests.COLUMNS:
        column = client.post(page(library, "columns/"), {"run": run.uid, "mode": mode})
        assert column.status_code == 200
        assert "data-loaded" in column.content.decode()
    run.refresh_from_db()
    assert {mode: len(found["hits"]) > 0 for mode, found in run.result.items()} == dict.fromkeys(
        hit_tests.COLUMNS, True
    )


def test_a_card_says_where_its_passage_stood_in_the_other_columns(library: World) -> None:
    client = browser(library.alice)
    shown = client.get(client.post(page(library), {**FORM, "q": "travel trains"})["Location"]).content.decode()
    column = shown.split('id="column-keywords"')[1].split('id="column-blend"')[0]
    assert 'data-elsewhere="embedding"' in column
    assert "data-unknown" not in column


def test_text_of_a_document_never_becomes_markup(library: World) -> None:
    text = "Copper wire <script>alert(1)</script> and <b onclick=x>copper</b>."
    indexed(library.principal(library.alice), library.base, "notes.txt", text)
    client = browser(library.alice)
    shown = client.get(client.post(page(library), {**FORM, "q": "copper wire"})["Location"]).content.decode()
    assert "&lt;script&gt;alert(1)" in shown
    assert "<script>alert(1)" not in shown
    assert "<b onclick" not in shown


def test_nothing_found_says_how_much_was_searched(library: World) -> None:
    client = browser(library.alice)
    shown = client.get(client.post(page(library), {**FORM, "q": "zzzqqq"})["Location"]).content.decode()
    column = shown.split('id="column-keywords"')[1].split('id="column-blend"')[0]
    assert "No hits in 2 chunks" in column
    assert "Couldn't load" not in column


def test_the_threshold_says_how_many_it_kept_back(library: World) -> None:
    client = browser(library.alice)
    shown = client.get(client.post(page(library), {**FORM, "threshold": "1"})["Location"]).content.decode()
    assert "below threshold" in shown


def test_settings_out_of_their_limits_are_named_and_nothing_is_lost(library: World) -> None:
    answer = browser(library.alice).post(page(library), {**FORM, "top_k": "900"})
    shown = answer.content.decode()
    assert answer.status_code == 422
    assert 'aria-invalid="true"' in shown
    assert 'value="annual leave"' in shown
    assert not QueryRecord.objects.exists()


def test_filters_narrow_the_search(library: World) -> None:
    indexed(library.principal(library.alice), library.base, "other.md", "# Leave\n\nannual leave elsewhere", folder="b")
    client = browser(library.alice)
    client.post(page(library), {**FORM, "folder": "rules"})
    found = QueryRecord.objects.get().result["blend"]["hits"]
    assert {hit["folder"] for hit in found} == {"rules/staff"}


def test_ask_with_these_settings_has_the_same_fingerprint_on_both_pages(library: World) -> None:
    client = browser(library.alice)
    shown = client.get(client.post(page(library), {**FORM, "weight": "0.25"})["Location"]).content.decode()
    column = shown.split('id="column-blend"')[1]
    address = column.split('class="button button--quiet button--small ask-with" href="')[1].split('"')[0]
    address = address.replace("&amp;", "&")
    code = column.split("Ask with these settings <code>")[1].split("</code>")[0]
    assert parse_qs(urlsplit(address).query)["weight"] == ["0.25"]
    assert f"<code>{code}</code>" in client.get(address, follow=True).content.decode()


def test_a_base_that_keeps_no_questions_keeps_no_runs(library: World) -> None:
    library.base.config = base_settings.with_section(library.base.config, "searching", {"log_queries": False})
    library.base.save(update_fields=["config"])
    client = browser(library.alice)
    answer = client.post(page(library), FORM)
    assert answer.status_code == 200
    assert "runs are not saved" in answer.content.decode()
    assert not QueryRecord.objects.exists()


def test_a_link_with_settings_fills_the_form_for_whoever_sees_the_base(library: World) -> None:
    shown = browser(library.bob).get(page(library, "?q=annual+leave&top_k=7")).content.decode()
    assert 'value="7"' in shown
    assert shown.count('aria-busy="true"') == 3


def test_strangers_get_the_same_404_as_for_a_missing_base(library: World) -> None:
    address = browser(library.alice).post(page(library), FORM)["Location"]
    run = QueryRecord.objects.get()
    for person in (library.mallory, library.eve):
        client = browser(person)
        assert client.get(page(library)).status_code == 404
        assert client.post(page(library), FORM).status_code == 404
        assert client.get(address).status_code == 404
        assert client.post(page(library, "columns/"), {"run": run.uid, "mode": "blend"}).status_code == 404


def test_a_run_is_its_askers_alone_and_goes_with_the_grant(library: World) -> None:
    bob = browser(library.bob)
    address = bob.post(page(library), FORM)["Location"]
    assert browser(library.alice).get(address).status_code == 404
    grant = library.base.grants.get(user=library.bob)
    bases.revoke(library.principal(library.alice), library.base, grant)
    assert bob.get(address).status_code == 404
    bases.grant(library.principal(library.alice), library.base, Role.VIEWER, user=library.bob)
    assert bob.get(address).status_code == 200


def test_a_document_that_is_gone_shows_no_text_in_old_runs(library: World) -> None:
    from knowledge import documents

    client = browser(library.alice)
    address = client.post(page(library), FORM)["Location"]
    documents.delete(library.principal(library.alice), library.base.documents.get())
    shown = client.get(address).content.decode()
    assert "Source no longer available" in shown
    assert "ten days" not in shown


def test_the_trace_shows_in_people_s_words_what_diversity_moved(library: World) -> None:
    for place in range(3):
        text = f"# Leave\n\nEmployees of site {place} have ten days of annual leave in a year.\n"
        indexed(library.principal(library.alice), library.base, f"{place}.md", text)
    client = browser(library.alice)
    shown = client.get(client.post(page(library), {**FORM, "diversity": "0.9"})["Location"]).content.decode()
    assert "diversify" in shown and "diversity 0.9" in shown and "moved" in shown


def test_settings_read_back_what_they_wrote() -> None:
    settings = SearchSettings(
        mode="keywords", top_k=7, threshold=0.25, fusion="rrf", neighbours=1, tag="hr", diversity=0.3
    )
    assert SearchSettings.of(QueryDict(settings.encoded(["b"], "q"))) == settings


def test_nonsense_in_an_address_counts_as_absent() -> None:
    data = QueryDict("mode=x&top_k=-1&threshold=nan&weight=2&fusion=&neighbours=9")
    assert SearchSettings.of(data) == SearchSettings()


def test_the_fingerprint_changes_with_every_setting_and_base() -> None:
    plain = SearchSettings().filled(Searching())
    codes = {
        plain.fingerprint(["a"]),
        plain.fingerprint(["b"]),
        SearchSettings(top_k=6).filled(Searching()).fingerprint(["a"]),
        SearchSettings(folder="x").filled(Searching()).fingerprint(["a"]),
    }
    assert len(codes) == 4
    assert plain.fingerprint(["a", "b"]) == plain.fingerprint(["b", "a"])
