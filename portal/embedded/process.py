"""One child process: started so that it ends with its parent, its output kept, stopped step by step."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from logging.handlers import RotatingFileHandler
from pathlib import Path

LAUNCHER = Path(__file__).with_name("launch.py")
LOG_BYTES, LOG_FILES, LAST_LINES = 5_000_000, 3, 20

Echo = Callable[[str, str], None]
Stopping = tuple[tuple[signal.Signals, float], ...]


def _nothing() -> None:
    pass


def _silent(name: str, line: str) -> None:
    pass


@dataclass(frozen=True)
class Program:
    """What to run. `stop` lists the signals to send and how many seconds each may take.

    `prepare` runs before each start. `environment` None means ours. `with_parent` is the signal that the child gets
    when this process dies. `not_root` is PostgreSQL's data folder, see `launch.py`. `descriptors` are handed on.
    The lines of a `quiet` program go to its log only.
    """

    name: str
    command: Callable[[], Sequence[str]]
    environment: Mapping[str, str] | None = None
    stdin: Callable[[], bytes] | None = None
    stop: Stopping = ((signal.SIGTERM, 10), (signal.SIGKILL, 5))
    with_parent: signal.Signals = signal.SIGTERM
    not_root: Path | None = None
    descriptors: tuple[int, ...] = ()
    directory: Path | None = None
    quiet: bool = False
    prepare: Callable[[], None] = _nothing


class Child:
    """A running `Program`. Start it from the main thread: the kernel ties it to the thread that made it."""

    def __init__(
        self,
        program: Program,
        log_folder: Path,
        echo: Echo = _silent,
        on_exit: Callable[[Child], None] | None = None,
    ) -> None:
        self.program = program
        self.last_lines: deque[str] = deque(maxlen=LAST_LINES)
        program.prepare()
        log_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Made before the process, so that a folder that can not be written leaves nothing running.
        self._log = RotatingFileHandler(
            log_folder / f"{program.name}.log", maxBytes=LOG_BYTES, backupCount=LOG_FILES, encoding="utf-8"
        )
        self._echo = _silent if program.quiet else echo
        self.process = subprocess.Popen(
            launching(program.command(), program.with_parent, program.not_root),
            stdin=subprocess.PIPE if program.stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=None if program.environment is None else dict(program.environment),
            # A session of its own: Ctrl-C in the terminal reaches the supervisor only, which stops in order.
            start_new_session=True,
            pass_fds=program.descriptors,
            cwd=program.directory,
        )
        if program.stdin and self.process.stdin:
            with contextlib.suppress(BrokenPipeError), self.process.stdin as stdin:
                stdin.write(program.stdin())
        self.gone = threading.Event()
        self._reaping = threading.Lock()
        self._on_exit = on_exit
        self._pump = threading.Thread(target=self._read, name=f"{program.name}-output", daemon=True)
        self._pump.start()
        threading.Thread(target=self._reap, name=f"{program.name}-exit", daemon=True).start()

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def running(self) -> bool:
        return not self.gone.is_set()

    def stop(self) -> bool:
        """Sends the program's signals one after the other until it is gone. True when the first was enough."""
        for step, (number, seconds) in enumerate(self.program.stop):
            self.send(number)
            if self.gone.wait(seconds):
                return step == 0
        return False

    def send(self, number: signal.Signals) -> None:
        """Sends a signal, unless the process is gone: its number may be somebody else's by then."""
        with self._reaping:
            if self.process.returncode is None:
                os.kill(self.process.pid, number)

    def _read(self) -> None:
        stream = self.process.stdout
        if stream is None:
            return
        with stream, contextlib.closing(self._log):
            for raw in stream:
                line = raw.decode("utf-8", "replace").rstrip()
                self.last_lines.append(line)
                self._log.handle(logging.makeLogRecord({"msg": line}))
                self._echo(self.name, line)

    def _reap(self) -> None:
        # Seen but not reaped yet, so the number is still its own: what it left behind can be ended safely.
        if hasattr(os, "waitid"):  # not on macOS
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        with self._reaping:
            self.process.wait()
        self._pump.join(timeout=2)
        self.gone.set()
        if self._on_exit:
            self._on_exit(self)


def launching(command: Sequence[str], number: signal.Signals, not_root: Path | None = None) -> list[str]:
    """The command line that runs `command` through `launch.py`."""
    identity = [] if not_root is None else ["--not-root", str(not_root)]
    launcher = [sys.executable, "-I", "-S", str(LAUNCHER), "--parent", str(os.getpid()), "--signal", str(int(number))]
    return [*launcher, *identity, "--", *command]
