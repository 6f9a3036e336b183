"""Keeps a set of programs running: starts them in order, restarts what dies, stops everything.

Knows nothing of Archway: what to run is handed in. One main thread; children report their end through a queue.
"""

from __future__ import annotations

import heapq
import queue
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import FrameType
from typing import NoReturn

from portal.embedded.process import Child, Echo, Program
from portal.kernel.errors import ArchwayError

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
STEADY_SECONDS = 60.0  # having run so long, a program begins its pauses anew
IMPATIENCE_SECONDS = 1.0
# A signal that the kernel hands to another thread does not wake this one: no wait is longer than so many seconds.
LONGEST_WAIT = 1.0
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Say = Callable[[str], None]


class StopRequested(BaseException):
    """Somebody asked us to end; outside the error family because nothing may swallow it."""


@dataclass
class Service:
    """A program to keep running. `wait_until_ready` blocks at the first start only and raises `ArchwayError`.

    `tier` orders the end: the highest goes first, one tier at a time.
    """

    program: Program
    tier: int = 1
    wait_until_ready: Callable[[Child], None] | None = None
    child: Child | None = None
    failures: int = 0
    started: float = field(default=0.0)


class Supervisor:
    """Runs services until it is told to stop. Use it from the main thread, as a context manager."""

    def __init__(self, log_folder: Path, say: Say, echo: Echo, first_pause: float = FIRST_PAUSE) -> None:
        self._log_folder = log_folder
        self._say = say
        self._echo = echo
        self._first_pause = first_pause
        self._services: list[Service] = []
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._due: list[tuple[float, int, Service]] = []
        self._order = count()
        self._asked: float | None = None  # when we were asked to stop
        self._ending: list[Service] = []  # what is being stopped at the moment

    def __enter__(self) -> Supervisor:
        self._former = {number: signal.signal(number, self._on_stop_signal) for number in STOP_SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        self._asked = self._asked or time.monotonic()
        self._stop_all()
        for number, handler in self._former.items():
            signal.signal(number, handler)

    def start(self, *services: Service) -> None:
        """Starts services side by side and returns when all that can tell are ready. Raises `ArchwayError`."""
        for service in services:
            self._services.append(service)
            self._launch(service)
        for service in services:
            if service.wait_until_ready and service.child:
                service.wait_until_ready(service.child)

    def call_soon(self, action: Callable[[], None]) -> None:
        """Has the main loop run `action`. May be called from any thread."""
        self._events.put(action)

    def run(self) -> NoReturn:
        """Restarts what ends, for ever. `StopRequested` (a signal) is the way out."""
        while True:
            pause = max(0.0, self._due[0][0] - time.monotonic()) if self._due else LONGEST_WAIT
            try:
                action = self._events.get(timeout=min(pause, LONGEST_WAIT))
            except queue.Empty:
                if self._due and self._due[0][0] <= time.monotonic():
                    self._launch_or_postpone(heapq.heappop(self._due)[2])
            else:
                action()

    def _launch(self, service: Service) -> None:
        service.started = time.monotonic()
        service.child = Child(
            service.program,
            self._log_folder,
            self._echo,
            lambda child: self.call_soon(lambda: self._ended(service, child)),
        )

    def _launch_or_postpone(self, service: Service) -> None:
        try:
            self._launch(service)
        except (ArchwayError, OSError) as error:
            self._postpone(service, f"{service.program.name} can not be started: {error}")

    def _ended(self, service: Service, child: Child) -> None:
        code = child.process.returncode
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        lines = "".join(f"\n    {line}" for line in child.last_lines)
        if time.monotonic() - service.started > STEADY_SECONDS:
            service.failures = 0
        self._postpone(service, f"{child.name} {how}. Its last lines:{lines or ' none.'}")

    def _postpone(self, service: Service, reason: str) -> None:
        pause = min(LONGEST_PAUSE, self._first_pause * 2**service.failures)
        service.failures += 1
        log = self._log_folder / f"{service.program.name}.log"
        self._say(f"{reason}\n  Starting it again in {pause:g} s. Full log: {log}")
        heapq.heappush(self._due, (time.monotonic() + pause, next(self._order), service))

    def _stop_all(self) -> None:
        for tier in sorted({service.tier for service in self._services}, reverse=True):
            self._ending = [service for service in self._services if service.tier == tier]
            members = [service.child for service in self._ending if service.child]
            threads = [threading.Thread(target=child.stop, name=f"{child.name}-stop") for child in members]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def _on_stop_signal(self, number: int, frame: FrameType | None) -> None:
        if self._asked is None:
            self._asked = time.monotonic()
            # Python swallows what a signal raises inside a finaliser; the main loop then finds it here.
            self._events.put(_stop)
            raise StopRequested
        # Programs like `timeout` send a signal twice; only a later one is a person who loses patience.
        if time.monotonic() - self._asked > IMPATIENCE_SECONDS:
            for service in self._ending:
                if service.child:
                    service.child.send(service.program.stop[min(1, len(service.program.stop) - 1)][0])


def _stop() -> NoReturn:
    raise StopRequested


def run_to_end(program: Program, log_folder: Path, echo: Echo) -> None:
    """Runs a program that ends by itself. Raises `ArchwayError` with them if it fails."""
    child = Child(program, log_folder, echo)
    try:
        while not child.gone.wait(timeout=1):  # bounded waits, so that signals are seen
            pass
    except BaseException:
        child.stop()
        raise
    if child.process.returncode != 0:
        lines = "\n    ".join(child.last_lines)
        raise ArchwayError("%(name)s failed:\n    %(lines)s", code="start_failed", name=program.name, lines=lines)
