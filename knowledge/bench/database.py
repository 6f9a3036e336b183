"""A database of its own for a measurement: made beside the configured one, used by this process, dropped at the end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.core.management import call_command
from django.db import connection
from django.db.utils import DatabaseError
from psycopg import sql

# PostgreSQL cuts the file of a relation after so many bytes; it is read in pieces.
_SEGMENT, _PIECE = 2**30, 2**25


class Backend:
    """The database's processes for this database, when they run on this machine under Linux."""

    def milliseconds(self) -> float:
        """Processor time that this process and the database's have used so far."""
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND inet_server_addr() IS NULL"
            )
            pids = [pid for (pid,) in cursor.fetchall()]
        return time.process_time() * 1000 + sum(_run_for(pid) for pid in pids)


def _run_for(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text("ascii").split()[0]) / 1e6
    except (OSError, ValueError):
        return 0.0


def exists(name: str) -> bool:
    """Whether a database of this name is there."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM pg_database WHERE datname = %s)", [name])
        return bool(cursor.fetchone()[0])


def read_through() -> None:
    """Read all tables and indexes once, as a server that has run for a while has them in the machine's memory.

    Where the role may not read the server's files, nothing is done.
    """
    with contextlib.suppress(DatabaseError), connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_relation_filepath(oid), pg_relation_size(oid) FROM pg_class "
            "WHERE relkind IN ('r', 'i', 't') AND pg_relation_size(oid) > 0"
        )
        for path, size in cursor.fetchall():
            for place in range(0, size, _PIECE):
                segment, offset = divmod(place, _SEGMENT)
                cursor.execute(
                    "SELECT length(pg_read_binary_file(%s, %s, %s, true))",
                    [f"{path}.{segment}" if segment else path, offset, _PIECE],
                )


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
