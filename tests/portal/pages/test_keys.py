from __future__ import annotations

import re
from typing import Any

from django.test import Client

from portal.kernel import keys
from portal.kernel.models import ApiKey
from portal.kernel.principal import for_key
from tests.support.people import World

NEW = "/account/keys/new/"


def once(client: Client) -> str:
    found = re.search(r'name="once" value="(\w+)"', client.get(NEW).content.decode())
    assert found is not None
    return found.group(1)


def make(client: Client, **data: object) -> Any:
    form = {"name": "script", "scopes": ["kb:read"], "days": 90, "once": once(client), **data}
    return client.post(NEW, form)


def secret_in(response: Any) -> str:
    found = re.search(r"kb_[\w-]{40,}", response.content.decode())
    assert found is not None
    return found.group(0)


def test_the_secret_is_shown_once_and_works(alice: Client, world: World) -> None:
    secret = secret_in(make(alice))
    key = keys.authenticate(secret)
    assert (key.owner_id, key.scopes, key.base_ids) == (world.alice.pk, ["kb:read"], None)
    again = alice.get("/account/keys/").content.decode()
    assert secret not in again and key.prefix in again
    assert secret not in str(list(ApiKey.objects.values()))


def test_sending_the_form_again_makes_no_second_key(alice: Client) -> None:
    token = once(alice)
    form = {"name": "script", "scopes": ["kb:read"], "days": 90, "once": token}
    assert alice.post(NEW, form).status_code == 200
    assert alice.post(NEW, form).status_code == 302
    assert ApiKey.objects.count() == 1


def test_a_key_lives_ninety_days_unless_told_otherwise(alice: Client) -> None:
    make(alice)
    key = ApiKey.objects.get()
    assert key.expires_at is not None
    assert (key.expires_at - key.created_at).days in {89, 90}


def test_a_key_is_limited_to_the_ticked_bases(alice: Client, world: World) -> None:
    key = keys.authenticate(secret_in(make(alice, bases=[world.base.uid])))
    assert for_key(key).base_ids == frozenset({world.base.pk})
    assert make(alice, narrow="on").status_code == 422


def test_a_key_can_not_name_bases_or_scopes_that_its_maker_does_not_hold(bob: Client, world: World) -> None:
    assert make(bob, bases=[world.eves_base.uid]).status_code == 422
    assert make(bob, scopes=["admin"]).status_code == 422
    assert ApiKey.objects.count() == 0
    assert "Eve" not in bob.get(NEW).content.decode()


def test_revoking_asks_first_and_then_ends_the_key(alice: Client) -> None:
    make(alice)
    key = ApiKey.objects.get()
    address = f"/account/keys/{key.uid}/revoke/"
    question = alice.post(address, {"confirmed": "no"})
    assert "It was never used." in question.content.decode()
    assert not ApiKey.objects.filter(revoked_at__isnull=False).exists()
    assert alice.post(address, {"confirmed": "yes"}).status_code == 302
    assert ApiKey.objects.filter(revoked_at__isnull=False).exists()
    assert key.prefix in alice.get("/account/keys/?show=revoked").content.decode()


def test_keys_of_others_are_as_absent_as_missing_ones(alice: Client, bob: Client) -> None:
    make(alice)
    key = ApiKey.objects.get()
    hidden = bob.post(f"/account/keys/{key.uid}/revoke/", {"confirmed": "yes"})
    missing = bob.post("/account/keys/2222222222222222/revoke/", {"confirmed": "yes"})
    assert hidden.status_code == missing.status_code == 404
    assert key.prefix not in bob.get("/account/keys/").content.decode()
    assert ApiKey.objects.get().revoked_at is None
