"""Browsers of the people of the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import Client

from portal.kernel import events
from tests.support.people import World


@pytest.fixture(autouse=True)
def fresh_limits() -> Iterator[None]:
    """No test is refused because of what another one counted."""
    connection = events.client()
    for key in connection.scan_iter("limit:*"):
        connection.delete(key)
    yield


@pytest.fixture
def alice(world: World) -> Client:
    """Alice's browser: she owns the base."""
    return _browser(world.alice)


@pytest.fixture
def bob(world: World) -> Client:
    """Bob's browser: he views the base."""
    return _browser(world.bob)


@pytest.fixture
def mallory(world: World) -> Client:
    """Mallory's browser: no grant."""
    return _browser(world.mallory)


def _browser(user: object) -> Client:
    client = Client()
    client.force_login(user)  # type: ignore[arg-type]
    return client
