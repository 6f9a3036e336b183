"""What the flows share: processes on the test database, and a model that stops when told to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.doors import Alices, everything_of_alices
from tests.support.people import World
from tests.support.running import database_environment
from tests.support.slow_model import SteppedProvider


@pytest.fixture(scope="module")
def environment(django_db_setup: None) -> dict[str, str]:
    """For processes that serve all tests of a module: they work on the test database."""
    return database_environment()


@pytest.fixture
def provider() -> Iterator[SteppedProvider]:
    with SteppedProvider() as running:
        yield running


@pytest.fixture
def alices(world: World) -> Alices:
    return everything_of_alices(world)
