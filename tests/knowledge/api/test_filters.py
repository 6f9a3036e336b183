"""Filters on metadata at the doors of programs: they narrow, they never reveal, and odd names do no harm."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from knowledge.details import Details
from knowledge.sources import pasted
from portal.kernel import keys
from portal.kernel.models import User
from tests.support.people import World, work_through

ODD: list[Any] = [
    "salary' OR '1'='1",
    "a.b->>'c'",
    "__class__",
    "metadata",
    "%s %(x)s",
    "base_id",
    "秘密",
    "x" * 60,
]


def with_key(world: World, person: User) -> Client:
    _, secret = keys.create(world.principal(person), name="k", scopes=["kb:read", "chat"], per_minute=1000)
    return Client(headers={"X-API-Key": secret})


@pytest.fixture
def filled(world: World) -> World:
    """A handbook of Alice's, and a text of Eve's with a fact that nobody else knows of."""
    for person, base, facts in ((world.alice, world.base, "year: 2026"), (world.eve, world.eves_base, "salary: 9000")):
        received = pasted.paste(
            world.principal(person), base, title="Leave", text="Twenty days.", details=Details.written("", facts)
        )
        work_through(received.revision)
    return world


def hits(client: Client, door: str, key: str, value: Any, op: str = "=") -> tuple[int, int]:
    """The status, and how many passages came."""
    conditions = [{"key": key, "op": op, "value": value}]
    body = {"query": "days", "mode": "keywords", "filters": {"metadata": conditions}}
    answer = client.post(f"/api/v1/{door}", body, content_type="application/json")
    return answer.status_code, len(answer.json().get("hits", []))


@pytest.mark.parametrize("door", ["search", "ask"])
def test_a_fact_narrows_and_one_of_a_foreign_base_finds_as_little_as_one_that_nobody_has(
    filled: World, door: str
) -> None:
    bob, eve = with_key(filled, filled.bob), with_key(filled, filled.eve)
    assert hits(bob, door, "year", 2026) == (200, 1)
    assert hits(bob, door, "year", 2026, ">") == (200, 0)
    assert hits(bob, door, "salary", 9000) == hits(bob, door, "nobody has this", 9000) == (200, 0)
    assert hits(eve, door, "salary", 9000) == (200, 1)
    assert hits(with_key(filled, filled.mallory), door, "year", 2026) == (200, 0)


@pytest.mark.parametrize("door", ["search", "ask"])
def test_odd_names_and_values_are_refused_or_find_nothing(filled: World, door: str) -> None:
    bob = with_key(filled, filled.bob)
    for key in ODD:
        for value in (1, "x", True, ["a"], {"$ne": 1}, None, 1e300):
            for op in ("=", "in", ">="):
                status, found = hits(bob, door, key, value, op)
                assert status in (200, 400, 422) and found == 0, (key, value, op)
