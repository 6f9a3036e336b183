"""PostgreSQL and Valkey killed under a worker and brought back: the document ends whole, never found in part."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from knowledge.ingestion.embed import BATCH
from portal.embedded import locations
from portal.embedded.process import Child
from portal.embedded.servers import EmbeddedServers
from tests.support.running import PATIENCE, beat, until, worker
from tests.support.slow_model import SteppedProvider

pytestmark = [pytest.mark.flow, pytest.mark.slow]

CHUNKS = 2_000


@dataclass
class Own:
    """Servers of this module, a worker, and the clock, working on them."""

    servers: EmbeddedServers
    environment: dict[str, str]
    provider: SteppedProvider

    def run(self, *arguments: str) -> str:
        environment = {**os.environ, **self.environment, "DJANGO_SETTINGS_MODULE": "portal.settings"}
        command = [sys.executable, *arguments]
        ended = subprocess.run(
            command, cwd=locations.REPOSITORY, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert ended.returncode == 0, ended.stderr[-2000:]
        return ended.stdout.strip()

    def ask(self, query: str, *values: object) -> Any:
        with psycopg.connect(self.environment["DATABASE_URL"], autocommit=True) as connection:
            return connection.execute(query, values).fetchone()

    def upload_and_stop_midway(self, name: str) -> int:
        """The revision of a document of which ten batches are embedded, the next one held."""
        self.provider.hold_after(10)
        revision = int(self.run("-m", "tests.support.uploading", self.provider.url, name))
        until(lambda: self.provider.waiting, "ten batches are through")
        counted = "SELECT count(*) FROM knowledge_chunkvector WHERE revision_id = %s"
        until(lambda: self.ask(counted, revision)[0] == 10 * BATCH, "and written")
        assert self.state(revision) == ("vectorizing", False)
        return revision

    def state(self, revision: int) -> tuple[str, bool]:
        """The status, and whether searches may find the document."""
        found: tuple[str, bool] = self.ask(
            "SELECT r.status, d.active_revision_id IS NOT NULL FROM knowledge_revision r"
            " JOIN knowledge_document d ON d.id = r.document_id WHERE r.id = %s",
            revision,
        )
        return found

    def kill(self, name: str) -> None:
        child = self.servers.children[name]
        child.send(signal.SIGKILL)
        assert child.gone.wait(PATIENCE)

    def bring_back(self, name: str) -> None:
        server = self.servers.postgres if name == "postgres" else self.servers.valkey
        child = self.servers.children[name] = Child(server.program(), self.servers.folder / "log")
        server.wait_until_ready(child)

    def wait_until_whole(self, revision: int) -> None:
        """Until it is searchable; on the way it is never found while it is not whole."""

        (claim,) = self.ask("SELECT claim_no FROM knowledge_revision WHERE id = %s", revision)

        def ended() -> bool:
            status, found = self.state(revision)
            assert found == (status == "indexed"), status
            # A person would press "retry" at a failure; nobody is needed here.
            assert status in {"pending", "vectorizing", "parsing", "segmenting", "indexed"}, status
            # Spare the test the pause before another attempt, and most of the claim's time to live.
            self.ask("UPDATE knowledge_revision SET not_before = NULL WHERE id = %s RETURNING id", revision)
            self.ask(
                "UPDATE knowledge_revision SET heartbeat_at = heartbeat_at - interval '1 hour'"
                " WHERE id = %s AND claim_no = %s AND heartbeat_at < now() - interval '10 seconds' RETURNING id",
                *(revision, claim),
            )
            return status == "indexed"

        until(ended, "it is searchable", 3 * PATIENCE)
        leaves = (
            "SELECT count(*), count(DISTINCT ordinal) FROM knowledge_chunk WHERE revision_id = %s AND level = 'leaf'"
        )
        assert self.ask(leaves, revision) == (CHUNKS, CHUNKS)
        vectors = "SELECT count(*), count(DISTINCT chunk_id) FROM knowledge_chunkvector WHERE revision_id = %s"
        assert self.ask(vectors, revision) == (CHUNKS, CHUNKS)


@pytest.fixture(scope="module")
def own() -> Iterator[Own]:
    folder = Path(tempfile.mkdtemp(prefix="archway-own-")).resolve()
    try:
        with ExitStack() as stack:
            provider = stack.enter_context(SteppedProvider())
            servers = stack.enter_context(EmbeddedServers(folder / "servers"))
            environment = {
                "DATABASE_URL": servers.database_url,
                "REDIS_URL": servers.redis_url,
                "ARCHWAY_DATA_DIR": str(folder / "data"),
            }
            place = Own(servers, environment, provider)
            place.run("manage.py", "migrate", "--verbosity", "0")
            (folder / "data" / "run").mkdir(mode=0o700, parents=True, exist_ok=True)
            stack.enter_context(worker(environment))
            stack.enter_context(worker(environment, name="light", queue="default"))
            stack.enter_context(beat(environment))
            yield place
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("name", ["postgres", "valkey"])
def test_work_survives_the_death_of_a_server_whole_and_without_doubles(own: Own, name: str) -> None:
    revision = own.upload_and_stop_midway(name)
    own.kill(name)
    own.provider.release()
    own.bring_back(name)
    own.wait_until_whole(revision)
    assert own.state(revision)[0] == "indexed"


def test_a_wake_up_that_was_lost_with_valkey_is_sent_again(own: Own) -> None:
    own.kill("valkey")
    revision = int(own.run("-m", "tests.support.uploading", own.provider.url, "unheard"))
    assert own.state(revision) == ("pending", False)
    own.bring_back("valkey")
    own.wait_until_whole(revision)
