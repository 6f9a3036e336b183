"""Requests that no browser of good will sends: characters and numbers that no column holds, bodies that never end."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from portal.kernel import keys, limits
from portal.kernel.errors import TooMany
from tests.support.people import World, indexed


@pytest.fixture
def alice(world: World) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(world.alice)
    return client


@pytest.mark.parametrize(
    "address",
    [
        "/api/v1/bases?q=%00",
        "/api/v1/bases/%00",
        "/api/v1/people?q=%00",
        "/api/v1/tasks?state=%00",
        "/api/v1/documents/%00",
        "/bases/%00/documents/",
        "/ask/%00/",
        "/tasks/%00/",
        "/notifications/%00/",
    ],
)
def test_a_nul_in_an_address_is_the_callers_fault(alice: Client, address: str) -> None:
    response = alice.get(address)
    assert response.status_code in {400, 404}
    if address.startswith("/api/"):
        assert response.json()["code"] == "bad_request"


@pytest.mark.parametrize(
    ("address", "fields"),
    [
        ("/ask/", {"q": "x", "thread": "\x00"}),
        ("/workspace/", {"workspace": "\x00"}),
        ("/tasks/retry/", {"ids": "\x00"}),
        ("/bases/{base}/documents/bulk/", {"verb": "delete", "ids": "\x00"}),
        ("/bases/{base}/documents/restore/", {"ids": "\x00"}),
        ("/bases/{base}/members/add/", {"subject": "user:\x00", "role": "viewer"}),
        ("/bases/{base}/hit-test/columns/", {"mode": "blend", "run": "\x00"}),
    ],
)
def test_a_nul_in_a_form_is_the_callers_fault(
    world: World, alice: Client, address: str, fields: dict[str, str]
) -> None:
    response = alice.post(address.format(base=world.base.uid), fields)
    assert response.status_code < 500


def test_a_nul_in_settings_is_the_callers_fault(world: World, alice: Client) -> None:
    values = {"mode": "separators", "separators": ["a\x00b"]}
    response = alice.put(
        f"/api/v1/bases/{world.base.uid}/settings/splitting", {"values": values}, content_type="application/json"
    )
    assert (response.status_code, response.json()["code"]) == (400, "bad_request")


@pytest.mark.parametrize("uid", ["\x00", {"a": 1}, ["x"]])
def test_ids_that_no_notification_has_are_wrong_fields(alice: Client, uid: Any) -> None:
    response = alice.post("/api/v1/notifications", {"ids": [uid]}, content_type="application/json")
    assert (response.status_code, response.json()["code"]) == (422, "fields_invalid")


@pytest.mark.parametrize("cookie", ['"aaaaaaaaaaaa\\000"', "x" * 3000, "../../etc/passwd", "%00" * 12])
@pytest.mark.parametrize("address", ["/sign-in/", "/api/v1/health"])
def test_a_session_cookie_that_we_never_made_is_no_session(db: None, cookie: str, address: str) -> None:
    response = Client(raise_request_exception=False, headers={"Cookie": f"sessionid={cookie}"}).get(address)
    assert response.status_code == 200


@pytest.mark.parametrize("body", ["[" * 100_000, '{"query":' * 100_000])
def test_json_that_is_nested_without_end_is_no_json(alice: Client, body: str) -> None:
    response = alice.post("/api/v1/search", body, content_type="application/json")
    assert (response.status_code, response.json()["code"]) == (422, "bad_json")


def test_the_last_day_of_the_calendar_is_a_day(world: World, alice: Client) -> None:
    indexed(world.principal(world.alice), world.base, "a.md", "# Leave\n\nAnnual leave is fifteen days.\n")
    body: dict[str, Any] = {
        "query": "annual leave",
        "mode": "keywords",
        "filters": {"updated_from": "0001-01-01", "updated_to": "9999-12-31"},
    }
    response = alice.post("/api/v1/search", body, content_type="application/json")
    assert response.status_code == 200
    assert len(response.json()["hits"]) == 1


def test_a_made_up_key_lifts_no_limit_from_pages(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings.ARCHWAY, "RATE_PER_ADDRESS", 2)
    client = Client(REMOTE_ADDR=f"203.0.113.{uuid.uuid4().int % 250}", headers={"X-API-Key": "junk"})
    assert [client.get("/sign-in/").status_code for _ in range(4)][2:] == [429, 429]


def test_the_addresses_of_one_ipv6_customer_share_one_allowance(db: None) -> None:
    network = f"2001:db8:{uuid.uuid4().int % 65536:x}:{uuid.uuid4().int % 65536:x}"
    limits.hit_address("test", f"{network}::1", 1)
    with pytest.raises(TooMany):
        limits.hit_address("test", f"{network}:ffff:1:2:3", 1)
    limits.hit_address("test", f"::ffff:192.0.2.{uuid.uuid4().int % 250}", 10)


@pytest.mark.parametrize("other", ["al\u0131ce", "AL\u0131CE", "ALICE"])
def test_a_name_spelt_in_a_way_that_signs_in_counts_for_the_same_account(
    world: World, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    monkeypatch.setitem(settings.ARCHWAY, "RATE_SIGN_IN", 1)
    world.alice.username = f"alice{uuid.uuid4().hex}"
    world.alice.save()
    suffix = world.alice.username[5:]
    peer = Client(REMOTE_ADDR=f"2001:db8:{uuid.uuid4().int % 65536:x}::1")
    first = peer.post("/sign-in/", {"username": f"alice{suffix}", "password": "wrong"})
    assert first.status_code == 422
    assert peer.post("/sign-in/", {"username": f"{other}{suffix}", "password": "wrong"}).status_code == 429


def test_a_key_hands_its_rights_to_no_other_key(world: World) -> None:
    _, secret = keys.create(world.principal(world.alice), name="k", scopes=["chat"], per_minute=5)
    client = Client(headers={"X-API-Key": secret})
    made = client.post("/api/v1/keys", {"name": "child", "scopes": ["chat"]}, content_type="application/json")
    assert (made.status_code, made.json()["code"]) == (403, "scope_missing")
    assert client.get("/api/v1/keys").status_code == 403


def test_a_key_made_by_an_admins_key_ends_no_later_and_asks_no_faster(world: World) -> None:
    maker, secret = keys.create(world.principal(world.admin), name="k", scopes=["admin", "chat"], per_minute=5)
    body = {"name": "child", "scopes": ["chat"], "per_minute": 9_999, "expires_at": "2999-01-01T00:00:00Z"}
    client = Client(headers={"X-API-Key": secret})
    made = client.post("/api/v1/keys", body, content_type="application/json").json()["key"]
    maker.refresh_from_db()
    assert made["per_minute"] == 5
    assert maker.expires_at is not None
    assert made["expires_at"] == maker.expires_at.isoformat().replace("+00:00", "Z")
