"""The fork server: loads the parsers once, shuts itself in, and keeps processes waiting for the next files.

It speaks over one socket of whole JSON messages (SOCK_SEQPACKET). It announces `{"ready": n}` when job
n has a folder and a process, and hands over the socket of that process with it: the owner sends the
request and the result pipe straight there, so that nobody but the reader must wake up before it reads.
Afterwards, which may be some files later, `{"job": n, "stop": bool}` says that the process of job n is
done with, and whether it is to be killed; only then the next process is made, so that it takes no time
from the reader. The end of a process is told as `{"ended": n, "status", "rss_kb", "complaint"}`. The
server ends when its owner does, whatever way that happens.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import select
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from knowledge.ingestion import parse_child
from knowledge.ingestion.confinement import confine
from knowledge.ingestion.confinement.landlock import Opened
from knowledge.ingestion.parsers import FILE_TYPES
from knowledge.ingestion.warming import warm

MESSAGE = 256 * 1024
OWNER_CHECK = 1.0  # seconds
SPARES = 2  # waiting processes: small files come faster than one process gets ready


def main(descriptor: int, scratch: str, root: str, modules: list[str]) -> None:
    """Serve until the owner is gone. `modules` are loaded besides the parsers, before the doors close."""
    control = socket.socket(fileno=descriptor)
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the owner decides
    _preload(modules, Path(scratch))
    baseline = resource.getpagesize() * int(Path("/proc/self/statm").read_text().split()[0])
    active, readable = confine(Path(scratch), Path(root))
    control.send(json.dumps({"isolation": active}).encode())
    _Server(control, Path(scratch), readable, wake, baseline).serve()


class _Server:
    """Keeps children waiting, so that neither forking nor ending a process costs the reader of a file time."""

    def __init__(self, control: socket.socket, scratch: Path, readable: list[Opened], wake: int, baseline: int) -> None:
        self._control = control
        self._readable = readable
        self._scratch = scratch
        self._wake = wake
        self._owner = os.getppid()
        self._baseline = baseline
        self._number = 0
        self._current: set[int] = set()  # jobs whose process waits or works, and is not replaced yet
        self._children: dict[int, int] = {}  # process: number of its job

    def serve(self) -> None:
        for _ in range(SPARES):
            self._fork()
        while os.getppid() == self._owner:
            ready, _, _ = select.select([self._control.fileno(), self._wake], [], [], OWNER_CHECK)
            if self._wake in ready:
                os.read(self._wake, 1024)
                self._reap()
            if self._control.fileno() in ready and not self._receive():
                break
        for child in self._children:
            _kill(child)
        for folder in self._scratch.iterdir():
            shutil.rmtree(folder, ignore_errors=True)

    def _receive(self) -> bool:
        try:
            message = self._control.recv(MESSAGE)
        except OSError:
            return False
        if not message:
            return False
        order = json.loads(message)
        if order["stop"]:
            for child, job in self._children.items():
                if job == order["job"]:
                    _kill(child)
        self._replace(order["job"])
        return True

    def _replace(self, number: int) -> None:
        """Make a process for the one of job `number`, if that is not done yet."""
        if number in self._current:
            self._current.discard(number)
            self._fork()

    def _fork(self) -> None:
        """Make the folder and the process of the next job, and say so."""
        self._number += 1
        folder = self._scratch / str(self._number)
        folder.mkdir(mode=0o700)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MESSAGE)
        with (folder / parse_child.COMPLAINTS).open("wb") as errors:
            child = os.fork()
            if child == 0:
                os.dup2(errors.fileno(), parse_child.STDERR)
                signal.set_wakeup_fd(-1)
                parse_child.wait_and_run(theirs, folder, self._readable, self._baseline)
        self._children[child] = self._number
        self._current.add(self._number)
        with ours, theirs:
            self._tell({"ready": self._number}, ours)

    def _reap(self) -> None:
        for child, number in list(self._children.items()):
            ended, status, usage = os.wait4(child, os.WNOHANG)
            if not ended:
                continue
            del self._children[child]
            folder = self._scratch / str(number)
            report = {
                "ended": number,
                "status": status,
                "rss_kb": usage.ru_maxrss,
                "complaint": _tail(folder / parse_child.COMPLAINTS),
            }
            shutil.rmtree(folder, ignore_errors=True)
            self._tell(report)
            self._replace(number)

    def _tell(self, message: dict[str, Any], handed: socket.socket | None = None) -> None:
        with contextlib.suppress(OSError):
            socket.send_fds(self._control, [json.dumps(message).encode()], [handed.fileno()] if handed else [])


def _kill(child: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)


def _tail(path: Path) -> str:
    try:
        return path.read_bytes()[-2000:].decode("utf-8", "replace")
    except OSError:
        return ""


def _preload(modules: list[str], scratch: Path) -> None:
    """Load what parsing needs, and touch what is slow at its first use."""
    for name in [
        *dict.fromkeys(row.module for row in FILE_TYPES),
        *modules,
        "selectolax.lexbor",
        "pypdfium2",
        "chardet",
    ]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    warm(scratch)
    gc.collect()
    gc.freeze()  # pages of what is loaded stay shared with the children


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:])
