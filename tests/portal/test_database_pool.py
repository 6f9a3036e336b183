"""The connection pool of the web process outlives a restart of PostgreSQL."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.running import database_environment

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = """
import django, psycopg
django.setup()
from django.db import connection
connection.ensure_connection()
parameters = {**connection.get_connection_params(), "application_name": "somebody else"}
connection.close()
connection.pool.wait()
for name in ("pool", "cursor_factory", "context", "prepare_threshold"):
    parameters.pop(name, None)
with psycopg.connect(**parameters, autocommit=True) as other:
    mine = "FROM pg_stat_activity WHERE application_name = 'the pool of this test'"
    ended = other.execute(f"SELECT count(pg_terminate_backend(pid, 10000)) {mine}").fetchone()[0]
assert ended
with connection.cursor() as cursor:
    cursor.execute("SELECT 1")
print("served")
connection.close()
connection.close_pool()
"""


@pytest.mark.django_db
def test_a_connection_that_died_in_the_pool_is_not_handed_out() -> None:
    environment = {**os.environ, **database_environment(), "ARCHWAY_DATABASE_POOL": "1"}
    environment["ARCHWAY_PROCESS"] = "the pool of this test"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**environment, "DJANGO_SETTINGS_MODULE": "portal.settings"},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "served", done.stderr
