"""What the flows share: processes on the test database, and a model that stops when told to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection

from tests.support.doors import Alices, everything_of_alices
from tests.support.people import World
from tests.support.running import database_environment, until
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


_OTHERS_AT_WORK = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
      AND state <> 'idle'
"""


@pytest.fixture(autouse=True)
def nobody_at_work_when_tables_are_emptied(request: pytest.FixtureRequest) -> Iterator[None]:
    """A statement of a process that was killed goes on in PostgreSQL, and would meet the emptying of its tables."""
    marker = request.node.get_closest_marker("django_db")
    if marker is None or not marker.kwargs.get("transaction"):
        yield
        return
    request.getfixturevalue("transactional_db")  # its end, which empties the tables, comes after ours
    yield

    def idle() -> bool:
        with connection.cursor() as cursor:
            cursor.execute(_OTHERS_AT_WORK)
            return bool(cursor.fetchone() == (0,))

    until(idle, "other sessions end their statements")
