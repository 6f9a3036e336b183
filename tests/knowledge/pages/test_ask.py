from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from knowledge import base_settings, bases
from knowledge.models import QueryRecord
from portal.kernel import events
from portal.kernel.models import AuditEntry, User
from tests.support.people import World, indexed

HANDBOOK = """# Leave

Employees have ten days of annual leave in a year.

# Travel

Trains are booked in second class.
"""


@pytest.fixture(autouse=True)
def fresh_limits() -> Iterator[None]:
    for key in events.client().scan_iter("limit:*"):
        events.client().delete(key)
    yield


@pytest.fixture
def library(world: World) -> World:
    indexed(world.principal(world.alice), world.base, "handbook.md", HANDBOOK)
    return world


def browser(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


def asked(client: Client, question: str = "annual leave", **more: str) -> QueryRecord:
    answer = client.post("/ask/", {"q": question, **more})
    assert answer.status_code == 302, answer.content.decode()
    return QueryRecord.objects.filter(kind=QueryRecord.Kind.ASK).latest("pk")


def test_without_scripts_a_question_leads_to_its_thread_with_citations(library: World) -> None:
    client = browser(library.bob)
    record = asked(client)
    shown = client.get(f"/ask/{record.thread}/").content.decode()
    assert f'id="m_{record.uid}"' in shown
    assert ">[1]</a>" in shown
    assert f"/bases/{library.base.uid}/documents/" in shown
    assert "&amp;chunk=c_" in shown
    assert "ten days of" in shown


def test_a_second_question_goes_into_the_same_thread(library: World) -> None:
    client = browser(library.bob)
    first = asked(client)
    second = asked(client, "trains", thread=first.thread)
    assert second.thread == first.thread
    assert client.get(f"/ask/{first.thread}/").content.decode().count("data-turn") == 2


def test_with_scripts_the_turn_comes_alone_and_names_its_thread(library: World) -> None:
    answer = browser(library.bob).post("/ask/", {"q": "annual leave"}, headers={"HX-Request": "true"})
    record = QueryRecord.objects.get()
    shown = answer.content.decode()
    assert answer["HX-Push-Url"] == f"/ask/{record.thread}/"
    assert "<html" not in shown
    assert f'value="{record.thread}" hx-swap-oob="true"' in shown


def test_a_question_in_the_address_is_asked_at_once_but_not_for_another_site_or_ahead_of_time(library: World) -> None:
    client = browser(library.bob)
    assert client.get("/ask/?q=trains").status_code == 302
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Purpose": "prefetch"}):
        answer = client.get("/ask/?q=trains", headers=headers)
        assert answer.status_code == 200
        assert ">trains</textarea>" in answer.content.decode()
    assert QueryRecord.objects.count() == 1


def test_an_empty_question_is_named(library: World) -> None:
    answer = browser(library.bob).post("/ask/", {"q": "  "})
    assert answer.status_code == 422
    assert "Enter a question." in answer.content.decode()


def test_a_person_who_sees_no_base_finds_nothing_and_is_told_so(library: World) -> None:
    client = browser(library.mallory)
    assert "No bases yet" in client.get("/ask/").content.decode()
    record = asked(client)
    assert record.hits == 0
    assert "Nothing in your sources supports an answer" in client.get(f"/ask/{record.thread}/").content.decode()


def test_the_scope_limits_what_is_asked_and_holds_no_foreign_base(library: World) -> None:
    alice = library.principal(library.alice)
    other = bases.create(alice, name="Second")
    indexed(alice, other, "second.md", "# Leave\n\nannual leave in the second base")
    record = asked(browser(library.alice), base=other.uid)
    assert {hit["base"] for hit in record.result["hits"]} == {other.uid}
    assert browser(library.bob).get(f"/ask/?base={other.uid}").status_code == 404
    assert browser(library.bob).post("/ask/", {"q": "x", "base": other.uid}).status_code == 404


def test_a_thread_is_its_askers_alone(library: World) -> None:
    record = asked(browser(library.bob))
    for person in (library.alice, library.mallory, library.eve, library.admin):
        client = browser(person)
        assert client.get(f"/ask/{record.thread}/").status_code == 404
        assert client.post("/ask/", {"q": "x", "thread": record.thread}).status_code == 404
        assert client.post(f"/ask/{record.thread}/delete/").status_code == 404
        assert client.post(f"/ask/{record.thread}/restore/").status_code == 404
        rating = client.post(f"/ask/{record.thread}/{record.uid}/rate/", {"helpful": "yes"})
        assert rating.status_code == 404


def test_after_a_revoked_grant_the_question_stays_and_its_answer_is_gone(library: World) -> None:
    client = browser(library.bob)
    record = asked(client)
    bases.revoke(library.principal(library.alice), library.base, library.base.grants.get(user=library.bob))
    shown = client.get(f"/ask/{record.thread}/").content.decode()
    assert "Source no longer available" in shown
    assert "annual leave" in shown
    assert "ten days" not in shown
    assert "handbook.md" not in shown
    assert client.post(f"/ask/{record.thread}/{record.uid}/rate/", {"helpful": "yes"}).status_code == 404


def test_ratings_are_kept_and_can_be_taken_back(library: World) -> None:
    client = browser(library.bob)
    record = asked(client)
    address = f"/ask/{record.thread}/{record.uid}/rate/"
    assert client.post(address, {"helpful": "no"})["Location"] == f"/ask/{record.thread}/#m_{record.uid}"
    assert QueryRecord.objects.get(helpful=False) == record
    answer = client.post(address, {"helpful": ""}, headers={"Accept": "application/json"})
    assert answer.json() == {"helpful": None}
    assert QueryRecord.objects.get(helpful=None) == record
    assert client.post(address, {"helpful": "perhaps"}).status_code == 404


def test_a_deleted_thread_comes_back_whole(library: World) -> None:
    client = browser(library.bob)
    record = asked(client)
    asked(client, "trains", thread=record.thread)
    before = list(QueryRecord.objects.order_by("pk").values())
    assert client.post(f"/ask/{record.thread}/delete/").status_code == 302
    assert not QueryRecord.objects.exists()
    assert "/restore/" in client.get("/ask/").content.decode()
    assert client.post(f"/ask/{record.thread}/restore/").status_code == 302
    assert list(QueryRecord.objects.order_by("pk").values()) == before
    assert client.post(f"/ask/{record.thread}/restore/").status_code == 404
    assert set(AuditEntry.objects.filter(action__startswith="thread.").values_list("action", flat=True)) == {
        "thread.delete",
        "thread.restore",
    }


def test_where_a_base_keeps_no_questions_the_answer_is_shown_and_not_kept(library: World) -> None:
    library.base.config = base_settings.with_section(library.base.config, "searching", {"log_queries": False})
    library.base.save(update_fields=["config"])
    answer = browser(library.bob).post("/ask/", {"q": "annual leave"})
    assert answer.status_code == 200
    assert "ten days of" in answer.content.decode()
    assert "keeps no questions" in answer.content.decode()
    assert not QueryRecord.objects.exists()


def test_examples_come_from_headings_of_the_scope(library: World) -> None:
    chapters = "".join(f"# Chapter {n}\n\n{'Rules of the house are written down. ' * 60}\n\n" for n in range(3))
    indexed(library.principal(library.alice), library.base, "rules.md", chapters)
    shown = browser(library.bob).get("/ask/").content.decode()
    assert "What does “rules” say about “Chapter 1”?" in shown
    assert "What is “handbook” about?" in shown
    assert "handbook" not in browser(library.mallory).get("/ask/").content.decode()


def test_copying_takes_text_numbers_and_addresses(library: World) -> None:
    client = browser(library.bob)
    record = asked(client)
    shown = client.get(f"/ask/{record.thread}/").content.decode()
    copied = shown.split("readonly")[1].split("</textarea>")[0]
    assert "[1] " in copied
    assert f"http://testserver/bases/{library.base.uid}/documents/" in copied


def test_strangers_are_sent_to_the_sign_in_page() -> None:
    answer = Client().get("/ask/")
    assert answer.status_code == 302
    assert answer["Location"].startswith("/sign-in/?next=")


def test_the_command_answers_in_its_stable_shape(library: World) -> None:
    out = StringIO()
    call_command("ask", "annual leave", "--kb", "Handbook", "--as", "bob", "--mode", "keywords", stdout=out)
    assert "[1] " in out.getvalue()


def test_the_command_prints_one_json_object_and_nothing_else(
    library: World, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("ask", "annual leave", "--kb", "Handbook", "--as", "bob", "--mode", "keywords", "--json")
    body = json.loads(capsys.readouterr().out)
    assert set(body) == {"answer", "mode", "hits", "trace"}
    assert body["mode"] == "keywords"
    assert set(body["hits"][0]) == {"document", "revision", "chunk", "text", "score", "citation"}


def test_the_command_sees_no_base_of_others(library: World) -> None:
    with pytest.raises(CommandError, match="not visible"):
        call_command("ask", "annual leave", "--kb", "Handbook", "--as", "mallory")
