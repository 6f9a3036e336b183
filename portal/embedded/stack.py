"""Which processes make Archway on one machine, how each is started and how it is asked to end."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from portal.embedded import locations
from portal.embedded.postgres import Postgres
from portal.embedded.process import Program
from portal.embedded.supervisor import Service
from portal.embedded.valkey import Valkey
from portal.kernel.errors import Unavailable

PORTS_TRIED = 100
# One more than may be in long parses at once (ARCHWAY_HEAVY_PARSES), so that a small file always finds a slot.
INGEST_SLOTS = "3"
SERVERS, APPLICATION = 0, 1

# TERM lets a worker finish its slice, QUIT puts the message back, KILL is for one that hangs.
WORKER_STOP = ((signal.SIGTERM, 8.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0))
WEB_STOP = ((signal.SIGTERM, 8.0), (signal.SIGKILL, 5.0))


def servers(folder: Path, environment: Mapping[str, str] = os.environ) -> list[Service]:
    """The embedded servers that no URL replaces."""
    wanted: list[Postgres | Valkey] = []
    if not environment.get("DATABASE_URL"):
        wanted.append(Postgres(folder))
    if not environment.get("REDIS_URL"):
        wanted.append(Valkey(folder))
    return [Service(server.program(), SERVERS, server.wait_until_ready) for server in wanted]


def application(listener: socket.socket) -> list[Service]:
    """Web, embedding, workers and beat. `listener` is the web server's socket."""
    return [
        Service(program, APPLICATION)
        for program in (
            _embedding(),
            _web(listener),
            # Heavy work forks, so that a crash of a parser or a leak takes one child with it.
            _celery("worker-ingest", "worker", *_queue("ingest"), "--pool", "prefork", "--concurrency", INGEST_SLOTS),
            _celery("worker-light", "worker", *_queue("default"), "--pool", "threads", "--concurrency", "4"),
            _celery("beat", "beat", "--pidfile", "", level="WARNING", with_parent=signal.SIGTERM),
        )
    ]


def command(*arguments: str) -> Program:
    """A `manage.py` command that ends by itself."""
    return Program(
        name=arguments[0],
        command=lambda: [sys.executable, str(locations.REPOSITORY / "manage.py"), *arguments],
        environment=_environment(arguments[0]),
        directory=locations.REPOSITORY,
    )


def listen(host: str, port: int) -> socket.socket:
    """A listening socket on `port`, or on the next free one. Raises `Unavailable` when a hundred are taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in range(port, port + PORTS_TRIED):
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, candidate))
            listener.listen(2048)
        except (OSError, OverflowError) as error:
            listener.close()
            refusal = error
        else:
            return listener
    raise Unavailable("No free port from %(port)s on: %(reason)s.", port=port, reason=refusal)


def _web(listener: socket.socket) -> Program:
    number = listener.fileno()
    return Program(
        name="web",
        command=lambda: [sys.executable, "-m", "portal.embedded.web", "--fd", str(number)],
        environment=_environment("web", ARCHWAY_DATABASE_POOL="1"),
        stop=WEB_STOP,
        with_parent=signal.SIGKILL,
        descriptors=(number,),
        directory=locations.REPOSITORY,
    )


def _celery(name: str, *arguments: str, level: str = "INFO", with_parent: signal.Signals = signal.SIGKILL) -> Program:
    # SIGKILL when the supervisor is killed: a gentler end waits for a broker that is ending too, and what is
    # lost with it is a wake-up, which the sweeper sends again.
    return Program(
        name=name,
        command=lambda: [
            *(sys.executable, "-m", "celery", "--quiet", "-A", "portal.celery"),
            *(*arguments, "--loglevel", level),
        ],
        # Celery warns of root for the sake of pickle, which is switched off.
        environment=_environment(name, PYTHONWARNINGS="ignore:You're running the worker"),
        stop=WORKER_STOP,
        with_parent=with_parent,
        directory=locations.REPOSITORY,
    )


def _queue(name: str) -> list[str]:
    # Workers of one machine need no gossip; without it they are ready a second earlier.
    return ["-Q", name, "-n", f"{name}@%h", "--without-gossip", "--without-mingle"]


def demo_model() -> Service:
    """The demo model, on loopback."""
    port = _KeptPort(locations.demo_model_url_file())
    program = Program(
        name="demo-model",
        prepare=port.choose,
        command=lambda: [
            *(sys.executable, "-m", "portal.demo_model.server"),
            *("--host", "127.0.0.1", "--port", str(port.number)),
        ],
        environment=_environment("demo-model"),
        stop=WEB_STOP,
        with_parent=signal.SIGKILL,
        directory=locations.REPOSITORY,
    )
    return Service(program, APPLICATION)


class _KeptPort:
    """A port of loopback that stays the same over restarts as long as nobody else takes it; `file` holds its URL."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.number = 0

    def choose(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", self.number))
            except OSError:
                probe.bind(("127.0.0.1", 0))
            self.number = probe.getsockname()[1]
        locations.private_folder(self._file.parent)
        self._file.write_text(f"http://127.0.0.1:{self.number}", "utf-8")


def _embedding() -> Program:
    """The embedding server."""
    port = _KeptPort(locations.embedding_url_file())
    token = os.environ.get("ARCHWAY_EMBEDDING_TOKEN") or locations.secrets().embedding_token

    return Program(
        name="embedding",
        prepare=port.choose,
        command=lambda: [
            *(sys.executable, "-m", "portal.gateway.local.server"),
            *("--host", "127.0.0.1", "--port", str(port.number)),
        ],
        environment=_environment(
            "embedding", ARCHWAY_EMBEDDING_TOKEN=token, ARCHWAY_DATA_DIR=str(locations.data_dir())
        ),
        stop=WEB_STOP,
        with_parent=signal.SIGKILL,
        directory=locations.REPOSITORY,
    )


def _environment(process: str, **more: str) -> dict[str, str]:
    own = {
        "DJANGO_SETTINGS_MODULE": "portal.settings",
        "ARCHWAY_PROCESS": process,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        # Lines reach the log when they are written, whatever the locale.
        "PYTHONUNBUFFERED": "1",
        "PYTHONUTF8": "1",
    }
    return {**os.environ, **own, **more}
