"""The fork server: loads the parsers once, shuts itself in, and forks a process for each file.

It speaks over one socket of whole messages (SOCK_SEQPACKET): a request is JSON with the result pipe
attached, `stop` ends the running child, and every child's end is answered with its wait status. It
ends when its owner does, whatever way that happens.
"""

from __future__ import annotations

import array
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
from knowledge.ingestion.parsers import FILE_TYPES

MESSAGE = 256 * 1024
STOP = b"stop"
OWNER_CHECK = 1.0  # seconds
SOURCE = "source"  # the copy of the file to read, inside the scratch folder


def main(descriptor: int, scratch: str, root: str, modules: list[str]) -> None:
    """Serve until the owner is gone. `modules` are loaded besides the parsers, before the doors close."""
    control = socket.socket(fileno=descriptor)
    owner = os.getppid()
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the owner decides
    _preload(modules)
    baseline = resource.getpagesize() * int(Path("/proc/self/statm").read_text().split()[0])
    active = confine(Path(scratch), Path(root))
    control.send(json.dumps({"isolation": active}).encode())
    _Server(control, Path(scratch), wake, owner, baseline).serve()


class _Server:
    def __init__(self, control: socket.socket, scratch: Path, wake: int, owner: int, baseline: int) -> None:
        self._control = control
        self._scratch = scratch
        self._wake = wake
        self._owner = owner
        self._baseline = baseline
        self._child = 0

    def serve(self) -> None:
        while os.getppid() == self._owner:
            ready, _, _ = select.select([self._control.fileno(), self._wake], [], [], OWNER_CHECK)
            if self._wake in ready:
                os.read(self._wake, 1024)
                self._reap()
            if self._control.fileno() in ready and not self._receive():
                break
        self._kill()
        self._clear()

    def _receive(self) -> bool:
        try:
            message, descriptors, _, _ = socket.recv_fds(self._control, MESSAGE, 1)
        except OSError:
            return False
        if not message:
            return False
        if message == STOP:
            self._kill()
        else:
            self._start(json.loads(message), array.array("i", descriptors)[0])
        return True

    def _start(self, request: dict[str, Any], out: int) -> None:
        with (self._scratch / "stderr").open("wb") as errors:
            child = os.fork()
            if child == 0:
                os.dup2(errors.fileno(), parse_child.STDERR)
                signal.set_wakeup_fd(-1)
                parse_child.run(request, self._scratch / SOURCE, out, self._baseline)
        os.close(out)
        self._child = child

    def _reap(self) -> None:
        if not self._child:
            return
        child, status, usage = os.wait4(self._child, os.WNOHANG)
        if child:
            self._child = 0
            self._clear()
            report = {"status": status, "cpu": usage.ru_utime + usage.ru_stime, "rss_kb": usage.ru_maxrss}
            with contextlib.suppress(OSError):
                self._control.send(json.dumps({"ended": report}).encode())

    def _kill(self) -> None:
        if self._child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child, signal.SIGKILL)

    def _clear(self) -> None:
        for path in self._scratch.iterdir():
            if path.name == "stderr":
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _preload(modules: list[str]) -> None:
    """Load what parsing needs, and touch what is slow at its first use."""
    for name in [*dict.fromkeys(row.module for row in FILE_TYPES), *modules, "selectolax.lexbor", "pypdfium2"]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    import chardet

    from knowledge.ingestion.parsers.markdown import renderer

    chardet.detect("预热".encode("gb18030") * 8)
    renderer().render("*warm*")
    gc.collect()
    gc.freeze()  # pages of what is loaded stay shared with the children


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:])
