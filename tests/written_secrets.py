"""Pytest plugin: no secret of any test is written down anywhere, in the whole run.

Known are all values that were sealed or used as a `Secret`, the password of the people of tests, and everything that
looks like an API key of ours. Searched are, at the end of each test, the tables that it has written; at the end of
the run all keys of Redis, every file of the run's folder (data folders, logs, and the files and write-ahead log of
PostgreSQL, which hold rows that were rolled back or deleted too), and the files of the repository outside `tests`.

A test that must write a secret in the clear says so: `@pytest.mark.writes_secrets("why")`.
"""

from __future__ import annotations

import os
import re
import subprocess
import weakref
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from portal.embedded import locations

# Shorter values are words of ordinary text.
LEAST = 12
_API_KEY = re.compile(r"\bkb_[A-Za-z0-9_-]{43}\b")
_FOUND, _KNOWN, _ALLOWED = (pytest.StashKey[Any]() for _ in range(3))
PASSWORD = "correct-horse-battery"  # of `tests.support.people`
# What the running test has sealed or revealed.
_of_this_test: set[str] = set()


class Watched(weakref.WeakSet[Any]):
    """The living secrets of `secret_value`, noted also when they are gone."""

    def add(self, item: Any) -> None:
        super().add(item)
        _of_this_test.add(item.expose())


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "writes_secrets(why): secrets of this test stand somewhere in the clear")
    config.stash[_FOUND], config.stash[_ALLOWED] = [], set()
    config.stash[_KNOWN] = {PASSWORD}
    only_asked = config.option.help or config.option.version
    if not only_asked and (hasattr(config, "workerinput") or not config.getoption("numprocesses", None)):
        _listen()


def _listen() -> None:
    """Note what is sealed and what is revealed; both still do what they do."""
    from portal.kernel import secret_value
    from portal.kernel.secrets import sealing

    secret_value._live = Watched(secret_value._live)
    seal = sealing.seal

    def noted(source: Any, plaintext: str, identity: Any) -> sealing.Sealed:
        _of_this_test.add(plaintext)
        return seal(source, plaintext, identity)

    sealing.seal = noted


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    _of_this_test.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Before the test's transaction is rolled back: what has it written?"""
    written = _written_by(item)
    yield
    if written:
        pytest.fail(written, pytrace=False)


def _written_by(item: pytest.Item) -> str:
    made = set(_of_this_test)
    if item.get_closest_marker("writes_secrets"):
        item.config.stash[_ALLOWED] |= made
        return ""
    item.config.stash[_KNOWN] |= made
    if item.get_closest_marker("database") is None or not _may_ask():
        return ""
    values = _searched({PASSWORD, *made} - item.config.stash[_ALLOWED])
    from django.db import Error

    try:
        for table, text in _written_rows():
            if held := found_in(text, values):
                return f"the table {table} holds {held}"
    except Error:
        pass  # a test may leave a database behind that answers nothing; its files are searched at the end
    return ""


def _may_ask() -> bool:
    from django.db import connection

    # A test may have left a broken transaction behind, or closed its connection for good.
    return connection.connection is not None and not connection.needs_rollback and connection.is_usable()


def _written_rows() -> Iterator[tuple[str, str]]:
    """Every row of the tables that this transaction has written; outside of one, of all tables."""
    from django.db import connection

    inside = connection.in_atomic_block
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_stat_xact_user_tables WHERE n_tup_ins + n_tup_upd > 0"
            if inside
            else "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        )
        for (name,) in cursor.fetchall():
            cursor.execute(f"SELECT t::text FROM {connection.ops.quote_name(name)} AS t LIMIT 2000")
            yield name, "\n".join(row for (row,) in cursor.fetchall())


def _searched(known: Iterable[str]) -> frozenset[str]:
    """Those that are no words of ordinary text."""
    return frozenset(value for value in known if len(value) >= LEAST and not value.isalpha())


def found_in(text: str, values: Collection[str]) -> str:
    """What of it stands in a text, shortened; "" when nothing does."""
    for value in values:
        if any(form in text for form in forms(value)):
            return shortened(value)
    key = _API_KEY.search(text)
    return shortened(key[0]) if key else ""


@cache
def forms(value: str) -> frozenset[str]:
    """A secret as it may stand somewhere: as it is, in an address, in base64."""
    from portal.kernel.secret_value import _forms

    return frozenset(_forms(value))


def shortened(value: str) -> str:
    """Enough to find a secret in the tests, too little to be one."""
    return f"{value[:4]}… ({len(value)} characters)"


# -- the end of the run ---------------------------------------------------------------------------
@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """In the controller: what a worker knew and found."""
    said = getattr(node, "workeroutput", None) or {}
    node.config.stash[_KNOWN] |= set(said.get("secrets", ()))
    node.config.stash[_ALLOWED] |= set(said.get("allowed", ()))
    node.config.stash[_FOUND] += said.get("written", ())


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    stash = config.stash
    values = _searched(stash[_KNOWN] - stash[_ALLOWED])
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        stash[_FOUND] += _in_redis(values)
    if hasattr(config, "workerinput"):
        # The very object: xdist sends what it took hold of before.
        config.workeroutput.update(  # type: ignore[attr-defined]
            secrets=sorted(stash[_KNOWN]), allowed=sorted(stash[_ALLOWED]), written=list(stash[_FOUND])
        )
        return
    if folder := os.environ.get("ARCHWAY_TEST_FOLDER"):
        stash[_FOUND] += in_files(Path(folder), values)
    stash[_FOUND] += in_repository(values)
    if stash[_FOUND]:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if found := config.stash[_FOUND]:
        terminalreporter.section("secrets that were written down", red=True)
        for line in sorted(set(found)):
            terminalreporter.line(line)


def _in_redis(values: Collection[str]) -> list[str]:
    import redis

    found = []
    try:
        for number in range(locations.DATABASES_PER_TENANT):
            with redis.Redis.from_url(locations.redis().client_url(number)) as client:
                for key in client.scan_iter(count=1000):
                    # The serialised form holds the bytes of short values as they are, whatever the type.
                    text = f"{key.decode('latin-1')} {(client.dump(key) or b'').decode('latin-1')}"
                    if held := found_in(text, values):
                        found.append(f"Redis, {key[:60]!r}: {held}")
    except redis.RedisError as error:
        found.append(f"Redis could not be searched: {type(error).__name__}")
    return found


def in_files(folder: Path, values: Collection[str]) -> list[str]:
    """Files below `folder` that hold one of `values`. Thousands of values in gigabytes: `grep` does it in seconds."""
    return _grep(["grep", "-raoF", "-f", "-", "--", str(folder)], folder, values)


def in_repository(values: Collection[str]) -> list[str]:
    """Tracked files outside the tests that hold one of `values`."""
    root = locations.REPOSITORY
    return _grep(["git", "grep", "-aoIF", "-f", "-", "--", ":!tests"], root, values)


def _grep(command: list[str], folder: Path, values: Collection[str]) -> list[str]:
    patterns = "\n".join(sorted({form for value in values if "\n" not in value for form in forms(value)}))
    done = subprocess.run(command, cwd=folder, input=patterns.encode(), capture_output=True, check=False)
    found = []
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        place, _, held = line.partition(":")
        found.append(f"{place.removeprefix(f'{folder}/')}: {shortened(held)}")
    return sorted(set(found))
