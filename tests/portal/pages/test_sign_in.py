from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client

from portal.kernel.models import User
from tests.support.people import PASSWORD, World


def sign_in(client: Client, username: str, password: str = PASSWORD, next_: str = "", **extra: Any) -> Any:
    data = {"username": username, "password": password, "next": next_}
    return client.post("/sign-in/", data, **extra)


def words(response: Any) -> str:
    """The page without what differs in every answer."""
    html = response.content.decode()
    return re.sub(r'name="csrfmiddlewaretoken" value="[^"]+"|value="(alice|nobody)"', "", html)


def test_a_stranger_is_sent_to_sign_in_and_comes_back_to_the_page(world: World) -> None:
    client = Client()
    response = client.get("/tasks/?tab=running")
    assert response.status_code == 302
    assert response["Location"] == "/sign-in/?" + urlencode({"next": "/tasks/?tab=running"})
    assert "You'll return to your page" in client.get(response["Location"]).content.decode()
    assert sign_in(client, "alice", next_="/tasks/?tab=running")["Location"] == "/tasks/?tab=running"


def test_a_fragment_asked_for_by_a_stranger_sends_the_whole_page_to_sign_in(world: World) -> None:
    response = Client().get("/shell-counts/", HTTP_HX_REQUEST="true", HTTP_HX_CURRENT_URL="http://testserver/bases/")
    assert response.status_code == 204
    assert response["HX-Redirect"] == "/sign-in/?" + urlencode({"next": "http://testserver/bases/"})


@pytest.mark.parametrize(
    "address",
    ["https://evil.example/", "//evil.example/", "javascript:alert(1)", "/\\evil.example", "https:evil.example"],
)
def test_sign_in_never_leads_to_another_site(world: World, address: str) -> None:
    assert sign_in(Client(), "alice", next_=address)["Location"] == "/"


def test_an_unknown_name_and_a_wrong_password_get_the_same_page(world: World) -> None:
    User.objects.filter(username="bob").update(is_active=False)
    unknown, wrong, locked = (
        sign_in(Client(), name, password) for name, password in [("nobody", "x"), ("alice", "x"), ("bob", PASSWORD)]
    )
    assert unknown.status_code == wrong.status_code == locked.status_code == 422
    assert "Username or password is incorrect." in words(unknown)
    assert words(unknown) == words(wrong) == words(locked).replace('value="bob"', "")


def test_names_are_found_however_they_are_typed(world: World) -> None:
    assert sign_in(Client(), "ALICE").status_code == 302


def test_guessing_at_one_account_is_stopped_whatever_address_it_comes_from(world: World, settings: Any) -> None:
    settings.ARCHWAY = {**settings.ARCHWAY, "RATE_SIGN_IN": 3}
    for number in range(3):
        sign_in(Client(), "alice", "wrong", REMOTE_ADDR=f"10.0.0.{number}")
    refused = sign_in(Client(), "Alice", PASSWORD, REMOTE_ADDR="10.0.0.9")
    assert refused.status_code == 429
    assert 0 < int(refused["Retry-After"]) <= 600
    assert "Too many attempts; try again in" in refused.content.decode()
    assert sign_in(Client(), "bob", PASSWORD, REMOTE_ADDR="10.0.0.9").status_code == 302


def test_guessing_from_one_address_is_stopped_whatever_accounts_it_tries(world: World, settings: Any) -> None:
    settings.ARCHWAY = {**settings.ARCHWAY, "RATE_SIGN_IN": 2}
    answers = [sign_in(Client(), f"guess{n}", "x", REMOTE_ADDR="10.1.1.1").status_code for n in range(11)]
    assert answers == [422] * 10 + [429]
    assert sign_in(Client(), "alice", REMOTE_ADDR="10.1.1.2").status_code == 302


def test_the_session_gets_a_new_key_at_sign_in(world: World) -> None:
    client = Client()
    client.session["seen"] = True
    session = client.session
    session.save()
    client.cookies["sessionid"] = session.session_key or ""
    before = session.session_key
    sign_in(client, "alice")
    assert client.cookies["sessionid"].value not in {"", before}


def test_sign_in_brings_the_persons_language_and_theme(world: World) -> None:
    User.objects.filter(pk=world.alice.pk).update(language="zh-hans", theme="dark")
    client = Client()
    sign_in(client, "alice")
    page = client.get("/").content.decode()
    assert '<html lang="zh-hans" data-theme="dark">' in page


def test_signing_out_takes_a_post_and_ends_the_session(alice: Client) -> None:
    assert alice.get("/sign-out/").status_code == 405
    assert alice.get("/").status_code == 200
    assert alice.post("/sign-out/")["Location"] == "/sign-in/"
    assert alice.get("/").status_code == 302


def test_a_person_without_a_workspace_is_told_so_and_can_sign_out(world: World) -> None:
    world.mallory.memberships.all().delete()
    client = Client()
    sign_in(client, "mallory")
    response = client.get("/")
    assert response.status_code == 403
    assert "You do not belong to a workspace yet" in response.content.decode()
    assert 'action="/sign-out/"' in response.content.decode()


def test_a_form_without_a_token_is_refused_with_a_sentence(world: World) -> None:
    client = Client(enforce_csrf_checks=True)
    response = client.post("/sign-in/", {"username": "alice", "password": PASSWORD})
    assert response.status_code == 403
    assert "The form has expired; reload the page and try again." in response.content.decode()
