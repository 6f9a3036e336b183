"""A database of its own for a measurement: made beside the configured one, used by this process, dropped at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.management import call_command
from django.db import connection
from psycopg import sql


def exists(name: str) -> bool:
    """Whether a database of this name is there."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM pg_database WHERE datname = %s)", [name])
        return bool(cursor.fetchone()[0])


@contextmanager
def own_database(name: str, *, keep: bool) -> Iterator[bool]:
    """All statements of this process go to the database `name` until the block ends; yields whether it is new.

    It is migrated when it is new. Dropped afterwards unless `keep`, or unless an earlier run kept it.
    """
    fresh = not exists(name)
    usual = connection.settings_dict["NAME"]
    if fresh:
        _maintain(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
    try:
        _switch(name)
        if fresh:
            with connection.cursor() as cursor:
                cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
        call_command("migrate", verbosity=0, interactive=False)
        yield fresh
    finally:
        _switch(usual)
        if not keep:
            _maintain(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def _switch(name: str) -> None:
    connection.close()
    connection.settings_dict["NAME"] = name


def _maintain(statement: sql.Composed) -> None:
    with connection.cursor() as cursor:
        cursor.cursor.execute(statement)
