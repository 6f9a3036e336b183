"""Both embedded servers for as long as a `with` block lasts; the supervisor and the tests' runner use it."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from portal.embedded import locations
from portal.embedded.postgres import Postgres
from portal.embedded.process import Child
from portal.embedded.valkey import Valkey
from portal.kernel.errors import Conflict


class FolderLock:
    """The right to run servers in a data folder; the kernel frees it when the holder ends, however it ends.

    Raises `Conflict` (code `already_running`) when another process holds it.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file: IO[str] = (folder / "up.lock").open("a")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise Conflict("Archway already runs in %(folder)s.", code="already_running", folder=folder) from error

    def release(self) -> None:
        self._file.close()


class EmbeddedServers:
    """PostgreSQL and Valkey in `folder`, ready when the block begins and gone when it ends."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.folder = folder
        self.postgres = Postgres(folder, durable)
        self.valkey = Valkey(folder, durable)
        self.children: dict[str, Child] = {}

    def __enter__(self) -> Self:
        self._lock = FolderLock(self.folder)
        try:
            for name, server in (("postgres", self.postgres), ("valkey", self.valkey)):
                self.children[name] = Child(server.program(), self.folder / "log")
            self.postgres.wait_until_ready(self.children["postgres"])
            self.valkey.wait_until_ready(self.children["valkey"])
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    @property
    def database_url(self) -> str:
        return locations.database_url(self.folder)

    @property
    def redis_url(self) -> str:
        return locations.redis_url(self.folder)

    def _stop(self) -> None:
        stops: list[Callable[[], bool]] = [child.stop for child in reversed(self.children.values())]
        for stop in stops:
            stop()
        self._lock.release()
