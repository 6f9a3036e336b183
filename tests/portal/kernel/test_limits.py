"""The sliding window, and whose address a request comes from."""

from __future__ import annotations

import uuid
from types import SimpleNamespace

import pytest
import redis
from django.conf import settings
from django.test import Client

from portal.kernel import events, keys, limits
from portal.kernel.errors import TooMany
from tests.support.people import World

PROXIES = ["10.0.0.0/8", "::1"]


class Clock:
    """A clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_800_000_000.0
        monkeypatch.setattr(limits, "time", SimpleNamespace(time=lambda: self.now))

    def wait_after(self, subject: str, limit: int, window: int = 60) -> int:
        """Seconds to wait after one more request; 0 when it passes."""
        try:
            limits.hit("test", subject, limit, window)
        except TooMany as error:
            return error.retry_after
        return 0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def subject() -> str:
    return uuid.uuid4().hex


@pytest.mark.parametrize("offset", [0.0, 0.25, 29.5, 59.9])
@pytest.mark.parametrize("limit", [1, 2, 7])
def test_who_waits_as_long_as_told_is_let_in_again(clock: Clock, subject: str, offset: float, limit: int) -> None:
    clock.now += offset
    for _ in range(limit):
        assert clock.wait_after(subject, limit) == 0
    wait = clock.wait_after(subject, limit)
    assert 1 <= wait <= 61
    clock.now += wait
    assert clock.wait_after(subject, limit) == 0


def test_the_window_slides_so_that_no_burst_passes_at_its_edge(clock: Clock, subject: str) -> None:
    clock.now += 59.0
    assert [clock.wait_after(subject, 10) for _ in range(10)] == [0] * 10
    clock.now += 2.0
    passed = sum(clock.wait_after(subject, 10) == 0 for _ in range(10))
    assert passed <= 1


def test_a_steady_caller_below_the_limit_is_never_refused(clock: Clock, subject: str) -> None:
    for _ in range(40):
        assert clock.wait_after(subject, 10) == 0
        clock.now += 7


def test_subjects_are_counted_apart_and_not_named_in_redis(clock: Clock, subject: str) -> None:
    assert clock.wait_after(subject, 1) == 0
    assert clock.wait_after(subject, 1) > 0
    assert clock.wait_after(f"{subject}-other", 1) == 0
    assert not [key for key in events.client().scan_iter("limit:*") if subject.encode() in key]


def test_a_limiter_without_redis_locks_nobody_out(monkeypatch: pytest.MonkeyPatch, subject: str) -> None:
    monkeypatch.setattr(events, "_client", None)
    monkeypatch.setattr(settings, "REDIS_URL", "unix:///nonexistent/socket")
    for _ in range(3):
        limits.hit("test", subject, 1)
    with pytest.raises(redis.RedisError):
        events.client().ping()


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("203.0.113.9", "", "203.0.113.9"),
        ("203.0.113.9", "198.51.100.1", "203.0.113.9"),
        ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "192.0.2.66, 198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "192.0.2.66, 198.51.100.1, 10.0.0.7", "198.51.100.1"),
        ("10.0.0.1", "10.0.0.8, 10.0.0.7", "10.0.0.1"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "not an address", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1, not an address", "10.0.0.1"),
        ("::1", "2001:db8::5", "2001:db8::5"),
        ("", "198.51.100.1", ""),
    ],
)
def test_the_address_is_what_our_own_proxies_say(peer: str, forwarded: str, address: str) -> None:
    assert limits.client_address(peer, forwarded, PROXIES) == address


def test_a_key_above_its_limit_gets_429_and_when_to_come_back(world: World) -> None:
    _, secret = keys.create(world.principal(world.alice), name="slow", scopes=["kb:read"], per_minute=2)
    client = Client(headers={"X-API-Key": secret})
    assert [client.get("/api/v1/bases").status_code for _ in range(2)] == [200, 200]
    refused = client.get("/api/v1/bases")
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
    assert 1 <= int(refused["Retry-After"]) <= 61
    assert refused.json()["retryable"] is True
    _, other = keys.create(world.principal(world.alice), name="other", scopes=["kb:read"])
    assert Client(headers={"X-API-Key": other}).get("/api/v1/bases").status_code == 200


def test_a_forged_forwarding_header_gives_no_fresh_allowance(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings.ARCHWAY, "RATE_PER_ADDRESS", 2)
    peer = f"203.0.113.{uuid.uuid4().int % 250}"
    codes = [
        Client(REMOTE_ADDR=peer).get("/api/v1/bases", headers={"X-Forwarded-For": f"198.51.100.{number}"}).status_code
        for number in range(4)
    ]
    assert codes[2:] == [429, 429]


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::9", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("::ffff:198.51.100.1", "198.51.100.1", True),
        ("198.51.100.1", "198.51.100.2", False),
        ("not an address", "not an address", True),
    ],
)
def test_addresses_of_one_customer_count_together(subject: str, one: str, other: str, together: bool) -> None:
    limits.hit_address(subject, one, 1)
    if together:
        with pytest.raises(TooMany):
            limits.hit_address(subject, other, 1)
    else:
        limits.hit_address(subject, other, 1)
    with pytest.raises(TooMany):
        limits.hit_address(subject, other, 1)
