"""Real servers in folders whose names hold spaces and Chinese letters."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.embedded.servers import EmbeddedServers


@pytest.fixture
def folder() -> Iterator[Path]:
    """A new data folder, short enough to hold its own sockets (pytest's tmp_path is not)."""
    path = Path(tempfile.mkdtemp(prefix="a 数据 ")).resolve()
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def pair() -> Iterator[EmbeddedServers]:
    """PostgreSQL and Valkey, running."""
    path = Path(tempfile.mkdtemp(prefix="a 数据 ")).resolve()
    with EmbeddedServers(path, durable=False) as servers:
        yield servers
    shutil.rmtree(path, ignore_errors=True)
