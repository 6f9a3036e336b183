"""Real processes of ours at work on a test's own data, started with the very commands of the supervisor."""

from __future__ import annotations

import contextlib
import http.client
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from portal.embedded import locations, stack
from portal.embedded.process import Child, Program

# The machine may be busy with other tests: a deadline says when to give up, not how fast we are.
PATIENCE = 120.0
_LOOK_EVERY = 0.05

Found = TypeVar("Found")


def until(condition: Callable[[], Found | None], what: str = "", seconds: float = PATIENCE) -> Found:
    """The first true answer of `condition`, asked again and again; for states of other processes only.

    Fails with `what` (or the condition's name) when there is none within `seconds`.
    """
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"did not happen within {seconds:.0f} s: {what or condition}")
        time.sleep(_LOOK_EVERY)
    return found


def database_environment() -> dict[str, str]:
    """What a child needs, besides this process's environment, to work on the test's own database."""
    from django.conf import settings

    return {"DATABASE_URL": locations.url_of_database(settings.DATABASES["default"])}


class Running:
    """A started program: its lines, and whether one of them has come yet."""

    def __init__(self, program: Program, folder: Path) -> None:
        self._changed = threading.Condition()
        self._ended = False
        self.lines: list[str] = []
        self.child = Child(program, folder, self._take, self._end)

    def _take(self, name: str, line: str) -> None:
        with self._changed:
            self.lines.append(line)
            self._changed.notify_all()

    def _end(self, child: Child) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait_for(self, part: str, seconds: float = PATIENCE) -> None:
        """Returns when a line holds `part`; fails with the last lines when none does, or the program ends first."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._said(part), seconds)
            if self._said(part):
                return
        raise AssertionError(f"{self.child.name} did not say {part!r}:\n" + "\n".join(self.lines[-30:]))

    def _said(self, part: str) -> bool:
        return any(part in line for line in self.lines)

    @property
    def pid(self) -> int:
        return self.child.process.pid


@contextlib.contextmanager
def started(program: Program, environment: Mapping[str, str]) -> Iterator[Running]:
    """`program` with `environment` added to its own, stopped as the supervisor stops it."""
    named = replace(program, environment={**(program.environment or {}), **environment}, quiet=False)
    with tempfile.TemporaryDirectory(prefix="archway-log-") as folder:
        running = Running(named, Path(folder))
        try:
            yield running
        finally:
            running.child.stop()


def _programs(listener: socket.socket) -> dict[str, Program]:
    return {service.program.name: service.program for service in stack.application(listener)}


@contextlib.contextmanager
def worker(
    environment: Mapping[str, str], *, name: str = "ingest", children: int = 1, queue: str = "ingest"
) -> Iterator[Running]:
    """A Celery worker of the supervisor's kind for `queue`, ready to take messages; `children` processes or threads."""
    with contextlib.closing(socket.socket()) as unused:
        program = _programs(unused)["worker-ingest" if queue == "ingest" else "worker-light"]

    def command() -> Sequence[str]:
        given = list(program.command())
        given[given.index("-n") + 1] = f"{name}@%h"
        given[given.index("--concurrency") + 1] = str(children)
        return given

    # Two workers of one machine share the queue, so each carries its own name.
    own = replace(program, name=name, command=command)
    with started(own, {**environment, "ARCHWAY_PROCESS": name}) as running:
        running.wait_for("ready.")
        yield running


@contextlib.contextmanager
def beat(environment: Mapping[str, str]) -> Iterator[Running]:
    """The clock, with a schedule file of its own."""
    with contextlib.closing(socket.socket()) as unused:
        program = _programs(unused)["beat"]
    # The supervisor has made this folder by then; beat keeps its schedule there.
    own = replace(
        program, prepare=lambda: (locations.data_dir() / "run").mkdir(mode=0o700, parents=True, exist_ok=True)
    )
    with started(own, environment) as running:
        yield running


@dataclass(frozen=True)
class Web:
    """A running web process at `host:port`."""

    running: Running
    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def socket_url(self) -> str:
        return f"ws://{self.host}:{self.port}/ws/events/"


@contextlib.contextmanager
def web(environment: Mapping[str, str]) -> Iterator[Web]:
    """The web process on a free port of loopback, answering."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        with started(_programs(listener)["web"], environment) as running:
            host, port = listener.getsockname()
            # The socket listens already: the request waits in its queue until the process takes it.
            connection = http.client.HTTPConnection(host, port, timeout=PATIENCE)
            with contextlib.closing(connection):
                connection.request("GET", "/healthz")
                answer = connection.getresponse()
                assert answer.status == 200, (answer.status, running.lines[-20:])
            yield Web(running, host, port)
