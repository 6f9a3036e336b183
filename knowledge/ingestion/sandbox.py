"""Parsing a stranger's file: in a child process under limits, shut in as far as the system allows.

`parse_file` is the one door from the rest of Archway to the parsers. Works as root and as an ordinary
user, in a Celery prefork child (which may not start `multiprocessing` processes), and in threads:
each caller takes an idle fork server, or starts one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import logging
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from knowledge.ingestion import frames
from knowledge.ingestion.blocks import Image, ParseContext, ParsedDocument, Source
from knowledge.ingestion.parse_child import RECOGNISED, REQUEST, SOURCE
from knowledge.ingestion.parsers import file_type
from knowledge.ingestion.scratch import make_folder
from portal.kernel.errors import ParseError

log = logging.getLogger(__name__)

PIPE_BYTES = 1024 * 1024
POLL = 0.1  # seconds between looks at the clock and at `should_stop`
STILL = 1.0  # seconds without a word of the reader after which its last progress is told again, as a sign of life
START_SECONDS = 60
STOP_SECONDS = 10
F_SETPIPE_SZ = 1031
BOOTSTRAP = (
    "import sys, json; sys.path[:] = json.loads(sys.argv.pop(1)); from knowledge.ingestion.fork_server import main; "
)
BOOTSTRAP += "main(int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:])"

OUT_OF_MEMORY = "Reading this file needs more memory than is allowed."
TOO_SLOW = "Reading this file takes longer than is allowed."
CRASHED = "The reader of this file type failed on this file."


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What one file may use. Memory is address space beyond what the loaded reader has itself."""

    memory_mb: int = 1200
    cpu_seconds: int = 600
    wall_seconds: float = 1200
    open_files: int = 128
    file_mb: int = 1024
    result_mb: int = 1024


def parse_file(
    source: Source,
    limits: SandboxLimits | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    *,
    context: ParseContext | None = None,
    parser: str | None = None,
) -> ParsedDocument:
    """Parse a file in a child process.

    `on_progress(done, total)` is called at most every 0.2 s, and after its first time at least every 1.1 s;
    `should_stop()` is asked every 0.1 s.
    `parser` names another parser as `module:function` (for tests). Raises only `ParseError`: the
    parsers' own codes and `no_text`, `out_of_memory`, `too_slow`, `parser_crashed`, `cancelled`.
    """
    limits = limits or SandboxLimits()
    name = parser or f"{file_type(source.mime).module}:parse"
    module = name.partition(":")[0] if parser else ""
    server = _take(module)
    try:
        document = server.parse(source, name, limits, context or ParseContext(), on_progress, should_stop)
    except BaseException:
        if server.usable:
            _give_back(server, module)
        else:
            server.close()
        raise
    _give_back(server, module)
    return document


def isolation() -> list[str]:
    """Which measures hold on this system, for `doctor`: of namespaces, Landlock, seccomp, dropped capabilities."""
    server = _take()
    try:
        return list(server.active)
    finally:
        _give_back(server)


def close_idle(module: str) -> None:
    """End the waiting servers that have loaded `module` besides the parsers."""
    for server in _idle.pop((os.getpid(), module), []):
        server.close()


# Idle servers by process (a forked worker must not talk to its parent's) and by what they have loaded
# besides the parsers (behind their closed doors they could not load it later).
_idle: dict[tuple[int, str], list[_ForkServer]] = {}


def _take(module: str = "") -> _ForkServer:
    mine = _idle.setdefault((os.getpid(), module), [])
    while True:
        try:
            server = mine.pop()
        except IndexError:
            return _ForkServer([module] if module else [])
        if server.alive():
            return server
        server.close()


def _give_back(server: _ForkServer, module: str = "") -> None:
    _idle.setdefault((os.getpid(), module), []).append(server)


class _ForkServer:
    """One fork server process, seen from its owner."""

    def __init__(self, modules: list[str]) -> None:
        self.usable = True
        folder, lock = make_folder()
        self._scratch = folder / "scratch"
        root = folder / "root"
        self._scratch.mkdir(mode=0o700)
        root.mkdir(mode=0o700)
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for side in (self._control, theirs):
            side.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, REQUEST)
        command = [sys.executable, "-I", "-X", "utf8", "-c", BOOTSTRAP, json.dumps(import_path())]
        with theirs:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno()), str(self._scratch), str(root), *modules],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=_environment(self._scratch),
                cwd="/",
                start_new_session=True,
            )
        self._finalizer = weakref.finalize(self, _end, os.getpid(), self._control, self._process, folder, lock)
        self.active: list[str] = []
        self._ready: deque[tuple[int, socket.socket]] = deque()  # waiting processes by the number of their job
        self._ended: dict[int, dict[str, Any]] = {}
        self._running = 0  # a job whose result is here but whose end is not yet reported
        self._await(lambda: bool(self._ready), START_SECONDS)

    def alive(self) -> bool:
        return self.usable and self._process.poll() is None

    def close(self) -> None:
        self.usable = False
        while self._ready:
            self._ready.pop()[1].close()
        self._finalizer()

    def parse(
        self,
        source: Source,
        parser: str,
        limits: SandboxLimits,
        context: ParseContext,
        on_progress: Callable[[int, int], None] | None,
        should_stop: Callable[[], bool] | None,
    ) -> ParsedDocument:
        request = {
            "parser": parser,
            "name": source.name,
            "mime": source.mime,
            "limits": dataclasses.asdict(limits),
            "context": {
                field.name: getattr(context, field.name)
                for field in dataclasses.fields(context)
                if field.name != "progress"
            },
        }
        ours, theirs = os.pipe()
        try:
            with contextlib.suppress(OSError):
                fcntl.fcntl(ours, F_SETPIPE_SZ, PIPE_BYTES)
            try:
                number = self._begin(source, json.dumps(request).encode(), theirs)
            finally:
                os.close(theirs)
            job = _Job(ours, limits, on_progress, should_stop)
            try:
                verdict = job.listen()
            except BaseException:
                self.usable = False  # a callback gave up in the middle; the child ends with its server
                raise
        finally:
            os.close(ours)
        self._running = number
        # Whatever it would still do after its result, nobody wants it.
        self._send({"job": number, "stop": verdict is not None or job.finished})
        if verdict is not None:
            raise verdict
        if job.error is not None:
            raise job.error
        if job.document is not None:
            return job.document
        raise self._death(job)

    def _begin(self, source: Source, request: bytes, out: int) -> int:
        """Give the file and the request to a waiting process; returns the number of its job."""
        # Landlock keeps each process in its own folder; without it the last one must be gone first.
        if self._running and "landlock" not in self.active:
            self._end_of(self._running)
        self._ended.clear()
        while True:
            self._await(lambda: bool(self._ready), START_SECONDS)
            number, child = self._ready[0]
            try:
                shutil.copyfile(source.path, self._scratch / str(number) / SOURCE)
                if source.recognised is not None:
                    shutil.copyfile(source.recognised, self._scratch / str(number) / RECOGNISED)
            except OSError as error:
                if (self._scratch / str(number)).is_dir():
                    raise ParseError("The stored file can not be opened.", code="file_missing") from error
            with child:
                self._ready.popleft()
                with contextlib.suppress(OSError):  # killed while it waited: another takes its place
                    socket.send_fds(child, [request], [out])
                    return number

    def _death(self, job: _Job) -> ParseError:
        """What the end of the process without a result means."""
        ended = self._end_of(self._running)
        status = int(ended.get("status", -1))
        number = os.WTERMSIG(status) if status >= 0 and os.WIFSIGNALED(status) else 0
        complaint = str(ended.get("complaint", ""))
        out_of_memory = any(word in complaint for word in ("memory allocation", "MemoryError", "bad_alloc"))
        if number in (signal.SIGXCPU, signal.SIGKILL) and not out_of_memory:
            # Beyond the hard CPU limit the kernel sends SIGKILL; so does the OOM killer, far more seldom.
            return ParseError(TOO_SLOW, code="too_slow")
        # Libraries also abort without a word when memory ends.
        if out_of_memory or (number and int(ended.get("rss_kb", 0)) > job.memory_kb // 2):
            return ParseError(OUT_OF_MEMORY, code="out_of_memory")
        log.error("A parser process ended with signal %s, status %s", number, status)
        return ParseError(CRASHED, code="parser_crashed")

    def _end_of(self, number: int) -> dict[str, Any]:
        self._await(lambda: number in self._ended, STOP_SECONDS)
        return self._ended[number]

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._control.send(json.dumps(message).encode())
        except OSError as error:
            self._lost(error)

    def _await(self, condition: Callable[[], bool], seconds: float) -> None:
        """Take messages until `condition` holds. A server that stays silent is given up."""
        deadline = time.monotonic() + seconds
        while not condition():
            ready, _, _ = select.select([self._control], [], [], max(0.0, deadline - time.monotonic()))
            data: bytes = b""
            handed: list[int] = []
            if ready:
                with contextlib.suppress(OSError):
                    data, handed, _, _ = socket.recv_fds(self._control, REQUEST, 1)
            if not data:
                self._lost(None)
            self._note(json.loads(data), handed)

    def _note(self, message: dict[str, Any], handed: list[int]) -> None:
        if "ready" in message:
            self._ready.append((message["ready"], socket.socket(fileno=handed[0])))
        elif "ended" in message:
            self._ended[message["ended"]] = message
        else:
            self.active = message["isolation"]

    def _lost(self, cause: OSError | None) -> NoReturn:
        self.usable = False
        self._process.kill()
        raise ParseError(CRASHED, code="parser_crashed") from cause


class _Job:
    """Reads the frames of one child until it ends, breaks a limit or is no longer wanted."""

    def __init__(
        self,
        pipe: int,
        limits: SandboxLimits,
        on_progress: Callable[[int, int], None] | None,
        should_stop: Callable[[], bool] | None,
    ) -> None:
        self.document: ParsedDocument | None = None
        self.error: ParseError | None = None
        self.memory_kb = limits.memory_mb * 1024
        self._pipe = pipe
        self._deadline = time.monotonic() + limits.wall_seconds
        self._reader = frames.Reader(limits.result_mb * 1024 * 1024)
        self._images: list[Image] = []
        self._step: tuple[int, int] | None = None  # of the progress that came last
        self._heard = time.monotonic()
        self._on_progress = on_progress
        self._should_stop = should_stop

    @property
    def finished(self) -> bool:
        return self.document is not None or self.error is not None

    def listen(self) -> ParseError | None:
        """None when the result is here or the child is gone, else why it must be stopped."""
        while True:
            ready, _, _ = select.select([self._pipe], [], [], POLL)
            if time.monotonic() > self._deadline:
                return ParseError(TOO_SLOW, code="too_slow")
            if self._should_stop is not None and self._should_stop():
                return ParseError("Reading this file was cancelled.", code="cancelled")
            if time.monotonic() - self._heard > STILL:
                self._tell()  # the reader works, within its limits, though it has nothing to count
            if not ready:
                continue
            data = os.read(self._pipe, PIPE_BYTES)
            if not data:
                return None
            try:
                for kind, body in self._reader.feed(data):
                    self._frame(kind, body)
                if self.finished:
                    return None
            except frames.FrameError:
                log.error("A parser process sent what is no frame of ours")
                return ParseError(CRASHED, code="parser_crashed")

    def _tell(self) -> None:
        self._heard = time.monotonic()
        if self._on_progress is not None and self._step is not None:
            self._on_progress(*self._step)

    def _frame(self, kind: bytes, body: bytes) -> None:
        if kind == frames.PROGRESS:
            value = frames.read_json(body)
            self._step = int(value.get("done", 0)), int(value.get("total", 0))
            self._tell()
        elif kind == frames.IMAGE:
            self._images.append(frames.read_image(body))
        elif kind == frames.DOCUMENT:
            self.document = frames.read_document(body, self._images)
        elif kind == frames.ERROR:
            self.error = _error(frames.read_json(body))
        else:
            raise frames.FrameError


def _error(value: dict[str, Any]) -> ParseError:
    code = str(value.get("code", "parser_crashed"))
    if code == "out_of_memory":
        return ParseError(OUT_OF_MEMORY, code=code)
    if code == "parser_crashed":
        log.error("A parser failed unexpectedly: %s", str(value.get("detail", ""))[:500])
        return ParseError(CRASHED, code=code)
    params = value.get("params")
    return ParseError(str(value.get("message", CRASHED)), code=code, **(params if isinstance(params, dict) else {}))


def _environment(scratch: Path) -> dict[str, str]:
    """Nothing of ours: no addresses, no keys. Threads would only cost address space."""
    return {
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        "TMPDIR": str(scratch),
        "MALLOC_ARENA_MAX": "2",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "RAYON_NUM_THREADS": "2",
        "ORT_DISABLE_TELEMETRY": "1",
    }


def import_path() -> list[str]:
    """Our import path in absolute form, the folder of this checkout included."""
    here = str(Path(__file__).resolve().parents[2])
    return list(dict.fromkeys([here, *(os.path.abspath(entry) for entry in sys.path if entry)]))  # noqa: PTH100


def _end(owner: int, control: socket.socket, process: subprocess.Popen[bytes], folder: Path, lock: int) -> None:
    """Close one server: it ends when its socket does. A forked copy of the owner only lets go."""
    if os.getpid() != owner:
        control.close()
        return
    with contextlib.suppress(OSError):
        control.shutdown(socket.SHUT_RDWR)  # reaches the server even if a fork of ours holds a copy
    control.close()
    try:
        process.wait(timeout=STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)
