"""Pytest plugin: one PostgreSQL and one Valkey for the whole run, whatever the number of workers.

Loaded by `-p tests.services`, before Django reads its settings. Given `DATABASE_URL` and `REDIS_URL`, it uses those.
Each xdist worker has its own test database (pytest-django), its own Redis databases and its own data folder.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.embedded import locations
from portal.embedded.servers import EmbeddedServers
from portal.kernel.errors import Unavailable

pytest_plugins = ["tests.written_secrets"]
_FOLDER = "ARCHWAY_TEST_FOLDER"
# Settings of the shell must not change what is tested; these are meant for the tests.
_KEPT = {_FOLDER, "ARCHWAY_POSTGRES_MAJOR", "ARCHWAY_REQUIRE_BROWSER"}
_servers: EmbeddedServers | None = None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> Iterator[None]:
    options = early_config.known_args_namespace
    if not (options.help or options.version):
        worker = os.environ.get("PYTEST_XDIST_WORKER", "")
        if not worker:
            _start()
        _choose_own_part(worker)
    return (yield)


def pytest_unconfigure(config: pytest.Config) -> None:
    global _servers
    if _servers is not None:
        _servers.__exit__(None, None, None)
        _servers = None
    if not hasattr(config, "workerinput") and (folder := os.environ.pop(_FOLDER, "")):
        shutil.rmtree(folder, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what touches the database, so that a second pass can run just that on another PostgreSQL."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if item.get_closest_marker("django_db") or fixtures & {"db", "transactional_db", "live_server"}:
            item.add_marker("database")


@pytest.fixture
def child_environment(transactional_db: None) -> dict[str, str]:
    """The environment for a process of ours started by a test: it works on the test's own database."""
    from django.conf import settings

    parts = settings.DATABASES["default"]
    url = locations.url_of_database(parts)
    return {**os.environ, "DATABASE_URL": url}


def _start() -> None:
    """In the controller: starts what no URL names, and leaves the addresses for the workers."""
    global _servers
    # Resolved, because a socket path must be short and macOS hides its temporary folder behind a link.
    folder = Path(tempfile.mkdtemp(prefix="archway-test-")).resolve()
    for name in [name for name in os.environ if name.startswith("ARCHWAY_") and name not in _KEPT]:
        del os.environ[name]
    os.environ[_FOLDER] = str(folder)
    if not (os.environ.get("DATABASE_URL") and os.environ.get("REDIS_URL")):
        try:
            _servers = EmbeddedServers(folder / "servers", durable=False).__enter__()
        except Unavailable as error:
            raise pytest.UsageError(str(error)) from error
        os.environ.setdefault("DATABASE_URL", _servers.database_url)
        os.environ.setdefault("REDIS_URL", _servers.redis_url)


def _choose_own_part(worker: str) -> None:
    if worker:
        shared = locations.redis_from_url(os.environ["REDIS_URL"])
        ahead = (int(worker.removeprefix("gw")) + 1) * locations.DATABASES_PER_TENANT
        os.environ["REDIS_URL"] = shared.client_url(ahead)
    os.environ["ARCHWAY_DATA_DIR"] = str(Path(os.environ[_FOLDER]) / f"data-{worker or 'main'}")
    os.environ["ARCHWAY_TESTING"] = "1"
    # One process is enough for the tests: the embedding server has tests of its own.
    os.environ["ARCHWAY_EMBEDDING"] = "inprocess"
    # Servers of outside companies are played on loopback.
    os.environ["ARCHWAY_EGRESS_ALLOW"] = "127.0.0.0/8"
