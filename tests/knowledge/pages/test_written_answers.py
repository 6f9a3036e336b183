"""Answers by a model on the ask page, without scripts; and as text that is safe to show."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from knowledge import bases
from knowledge.models import QueryRecord, Role
from knowledge.pages import passages
from knowledge.pages.written import as_html
from portal.kernel import events
from tests.knowledge.pages.desk import browser, text_of
from tests.support.model_server import ModelServer
from tests.support.models import chat_endpoint
from tests.support.people import World, indexed

HANDBOOK = "# Leave\n\nEmployees have ten days of annual leave in a year.\n\n# Travel\n\nTrains are booked early.\n"


@pytest.fixture(autouse=True)
def fresh_limits() -> None:
    for key in events.client().scan_iter("limit:*"):
        events.client().delete(key)


@pytest.fixture
def library(world: World) -> World:
    indexed(world.principal(world.alice), world.base, "handbook.md", HANDBOOK)
    return world


def asked(client: Client, question: str = "How many days of annual leave?", **more: str) -> QueryRecord:
    answer = client.post("/ask/", {"q": question, "processing": "model_opt", **more})
    assert answer.status_code == 302, text_of(answer)
    return QueryRecord.objects.latest("pk")


def test_without_scripts_the_whole_answer_comes_with_links_to_what_it_cites(
    library: World, models: ModelServer
) -> None:
    chat_endpoint(models, is_default=True)
    client = browser(library.bob)
    record = asked(client)
    shown = text_of(client.get(f"/ask/{record.thread}/"))
    assert record.answering == "done"
    assert f'class="citation" href="/bases/{library.base.uid}/documents/' in shown
    assert "Written by demo, outside of this installation" in shown


def test_the_demo_model_is_labelled(library: World, models: ModelServer, settings: Any) -> None:
    settings.ARCHWAY = {**settings.ARCHWAY, "DEMO_MODEL_URL": models.url}
    chat_endpoint(models, provider="demo", is_default=True)
    client = browser(library.bob)
    record = asked(client)
    assert record.answer["demo"] is True
    assert "Demo model" in text_of(client.get(f"/ask/{record.thread}/"))


def test_with_scripts_the_answer_waits_to_be_followed(library: World, models: ModelServer) -> None:
    chat_endpoint(models, is_default=True)
    client = browser(library.bob)
    response = client.post("/ask/", {"q": "annual leave", "processing": "model_opt"}, headers={"HX-Request": "true"})
    record = QueryRecord.objects.get()
    assert record.answering == "waiting" and not models.seen
    assert f'data-follow="/ask/{record.thread}/{record.uid}/"' in text_of(response)


def test_what_was_copied_into_an_answer_goes_with_the_base(library: World, models: ModelServer) -> None:
    chat_endpoint(models, is_default=True)
    client = browser(library.bob)
    record = asked(client)
    alice = library.principal(library.alice)
    bases.revoke(alice, library.base, library.base.grants.get(user=library.bob))
    shown = text_of(client.get(f"/ask/{record.thread}/"))
    assert "ten days" not in shown and "Source no longer available" in shown
    for address in ("", "events/"):
        assert client.get(f"/ask/{record.thread}/{record.uid}/{address}").status_code == 404
    assert client.post(f"/ask/{record.thread}/{record.uid}/stop/").status_code == 404


def test_an_answer_carries_the_bases_of_the_turns_that_the_model_was_told_of(
    library: World, models: ModelServer
) -> None:
    chat_endpoint(models, is_default=True)
    alice = library.principal(library.alice)
    other = bases.create(alice, name="Canteen")
    indexed(alice, other, "menu.md", "# Menu\n\nLunch is served at noon in the canteen.\n")
    bases.grant(alice, other, Role.VIEWER, user=library.bob)
    client = browser(library.bob)
    first = asked(client, base=library.base.uid)
    second = asked(client, "When is lunch served?", base=other.uid, thread=first.thread)
    assert set(second.base_ids) == {library.base.pk, other.pk}
    assert "ten days" in models.seen[-1].body["messages"][2]["content"]


def test_strangers_find_no_answer(library: World, models: ModelServer) -> None:
    chat_endpoint(models, is_default=True)
    record = asked(browser(library.bob))
    for stranger in (library.alice, library.mallory, library.eve):
        for address in ("", "events/"):
            assert browser(stranger).get(f"/ask/{record.thread}/{record.uid}/{address}").status_code == 404


def card(number: int) -> passages.Card:
    hit = {"rank": number, "citation": "/bases/b/documents/d/#c_1", "document_name": 'a"<b>.md', "page": 3}
    return passages.Card(hit, 1.0, True, (), (), False, "", "")


def test_markdown_is_shown_and_markup_is_not() -> None:
    text = "# Big\n\n**Ten** days [1].\n\n<script>alert(1)</script> [x](javascript:alert(1)) ![p](http://e.com/a.png)"
    html = as_html(text, {1: card(1)})
    assert "<h3>Big</h3>" in html and "<strong>Ten</strong>" in html
    assert "<script" not in html and "<img" not in html and "javascript:alert(1)" in html
    assert html.count("<a ") == 1 and 'href="/bases/b/documents/d/#c_1"' in html
    assert 'aria-label="Citation 1, a&quot;&lt;b&gt;.md page 3"' in html


def test_a_number_in_code_is_no_citation() -> None:
    assert "<a " not in as_html("`a[1]`\n\n```\nb[1]\n```\n", {1: card(1)})
