"""Parsing a stranger's file: in a child process under limits, shut in as far as the system allows.

`parse_file` is the one door from the rest of Archway to the parsers. Works as root and as an ordinary
user, in a Celery prefork child (which may not start `multiprocessing` processes), and in threads:
each caller takes an idle fork server, or starts one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from knowledge.ingestion.blocks import ParseContext, ParsedDocument, Source
from knowledge.ingestion.parse_child import RECOGNISED, REQUEST, SOURCE
from knowledge.ingestion.parsers import file_type
from knowledge.ingestion.reader_job import CRASHED, PIPE_BYTES, STILL, ReaderJob, death
from knowledge.ingestion.scratch import make_folder
from portal.kernel.errors import ParseError

START_SECONDS = 60
STOP_SECONDS = 10
LIFE_SECONDS = 10.0  # of reading, after which a process takes no further file
SENDFILE_BYTES = 1 << 30
# With these a file may have failed because of what files before it left in the process.
_LEFT_BEHIND = frozenset({"out_of_memory", "parser_crashed"})
F_SETPIPE_SZ = 1031
FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
BOOTSTRAP = (
    "import sys, json; sys.path[:] = json.loads(sys.argv.pop(1)); from knowledge.ingestion.fork_server import main; "
)
BOOTSTRAP += "main(int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:])"


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What one file may use. Memory is address space beyond what the loaded reader has itself.

    `files` is how many files of one group a process may read, one after the other.
    """

    memory_mb: int = 1200
    cpu_seconds: int = 600
    wall_seconds: float = 1200
    open_files: int = 128
    file_mb: int = 1024
    result_mb: int = 1024
    files: int = 100


def parse_file(
    source: Source,
    limits: SandboxLimits | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    *,
    context: ParseContext | None = None,
    parser: str | None = None,
    group: str | None = None,
) -> ParsedDocument:
    """Parse a file in a child process.

    A process reads one file, or several of the same `group`: files that one person brought into one base
    (decision 0118).

    `on_progress(done, total)` is called at most every 0.2 s and at least every 1.1 s, with (0, 0) while there is
    nothing to count; `should_stop()` is asked every 0.1 s.
    `parser` names another parser as `module:function` (for tests). Raises only `ParseError`: the
    parsers' own codes and `no_text`, `out_of_memory`, `too_slow`, `parser_crashed`, `cancelled`.
    """
    limits = limits or SandboxLimits()
    name = parser or f"{file_type(source.mime).module}:parse"
    module = name.partition(":")[0] if parser else ""
    server = _take(module, on_progress)
    try:
        document = server.parse(source, name, limits, context or ParseContext(), on_progress, should_stop, group)
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


def _take(module: str = "", on_progress: Callable[[int, int], None] | None = None) -> _ForkServer:
    mine = _idle.setdefault((os.getpid(), module), [])
    while True:
        try:
            server = mine.pop()
        except IndexError:
            return _ForkServer([module] if module else [], on_progress)
        if server.alive():
            return server
        server.close()


def _give_back(server: _ForkServer, module: str = "") -> None:
    _idle.setdefault((os.getpid(), module), []).append(server)


@dataclass(slots=True)
class _Reader:
    """A process that waits for a file: the number of its folder, its socket, and a descriptor of the folder.

    `group` and `limits` are those of the files that it read already.
    """

    number: int
    control: socket.socket
    folder: int
    group: str | None = None
    limits: SandboxLimits | None = None
    files: int = 0
    seconds: float = 0.0

    def close(self) -> None:
        self.control.close()
        os.close(self.folder)


class _Gone(Exception):
    """The process ended while it waited, or put something else where its file should lie."""


class _ForkServer:
    """One fork server process, seen from its owner."""

    def __init__(self, modules: list[str], on_progress: Callable[[int, int], None] | None = None) -> None:
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
        self._ready: deque[_Reader] = deque()
        self._staying: _Reader | None = None  # has read files of a group and waits for more of them
        self._ended: dict[int, dict[str, Any]] = {}
        self._running = 0  # a job whose result is here but whose end is not yet reported
        self._await(lambda: bool(self._ready), START_SECONDS, on_progress)

    def alive(self) -> bool:
        return self.usable and self._process.poll() is None

    def close(self) -> None:
        self.usable = False
        if self._staying is not None:
            self._staying.close()
            self._staying = None
        while self._ready:
            self._ready.pop().close()
        self._finalizer()

    def parse(
        self,
        source: Source,
        parser: str,
        limits: SandboxLimits,
        context: ParseContext,
        on_progress: Callable[[int, int], None] | None,
        should_stop: Callable[[], bool] | None,
        group: str | None,
    ) -> ParsedDocument:
        # Landlock keeps each process in its own folder; without it none may stay beside another.
        keeps = group is not None and limits.files > 1 and "landlock" in self.active
        request = {
            "parser": parser,
            "name": source.name,
            "mime": source.mime,
            "recognised": source.recognised is not None,
            "limits": dataclasses.asdict(limits),
            "stay_seconds": LIFE_SECONDS if keeps else 0,
            "context": {
                field.name: getattr(context, field.name)
                for field in dataclasses.fields(context)
                if field.name != "progress"
            },
        }

        def read(group: str | None) -> tuple[ParsedDocument | ParseError, bool]:
            job = partial(ReaderJob, limits.wall_seconds, limits.result_mb, on_progress, should_stop)
            return self._read(source, json.dumps(request).encode(), limits, group, job)

        outcome, again = read(group if keeps else None)
        if again:
            outcome, _ = read(None)
        if isinstance(outcome, ParseError):
            raise outcome
        return outcome

    def _read(
        self,
        source: Source,
        request: bytes,
        limits: SandboxLimits,
        group: str | None,
        listen: Callable[[int], ReaderJob],
    ) -> tuple[ParsedDocument | ParseError, bool]:
        """What became of a file, and whether files before it may be why it was not read."""
        ours, theirs = os.pipe()
        try:
            with contextlib.suppress(OSError):
                fcntl.fcntl(ours, F_SETPIPE_SZ, PIPE_BYTES)
            try:
                reader = self._begin(source, request, theirs, group, limits)
            finally:
                os.close(theirs)
            began = time.monotonic()
            job = listen(ours)
            try:
                verdict = job.listen()
            except BaseException:
                self.usable = False  # a callback gave up in the middle; the child ends with its server
                reader.close()
                raise
        finally:
            os.close(ours)
        reader.files += 1
        took = time.monotonic() - began
        reader.seconds += took
        if (
            group is not None
            and job.document is not None
            and reader.files < limits.files
            and reader.seconds < LIFE_SECONDS
        ):
            reader.group, reader.limits = group, limits
            self._staying = reader
            return job.document, False
        # Whatever it would still do after its result, nobody wants it.
        self._dismiss(reader, stop=verdict is not None or job.finished)
        outcome = verdict or job.error or job.document
        ended = outcome is None
        if outcome is None:
            outcome = death(self._end_of(reader.number), limits.memory_mb * 1024)
        perhaps = ended or (job.error is not None and job.error.code in _LEFT_BEHIND)
        return outcome, perhaps and reader.files > 1 and took < limits.cpu_seconds

    def _begin(self, source: Source, request: bytes, out: int, group: str | None, limits: SandboxLimits) -> _Reader:
        """Give the file and the request to a waiting process."""
        while True:
            reader = self._chosen(group, limits)
            try:
                _hand_over(source.path, reader.folder, SOURCE)
                if source.recognised is not None:
                    _hand_over(source.recognised, reader.folder, RECOGNISED)
                socket.send_fds(reader.control, [request], [out])
                return reader
            except (_Gone, ConnectionError):  # another takes its place
                self._dismiss(reader, stop=True)
            except BaseException:
                self._dismiss(reader, stop=True)
                raise

    def _chosen(self, group: str | None, limits: SandboxLimits) -> _Reader:
        """The process that stayed for this group, or one that has read nothing yet."""
        staying = self._staying
        if staying is not None and group is not None:
            self._staying = None
            if (staying.group, staying.limits) == (group, limits):
                return staying
            self._dismiss(staying, stop=True)
        if self._running and "landlock" not in self.active:
            self._end_of(self._running)
        self._ended.clear()
        self._await(lambda: bool(self._ready), START_SECONDS)
        return self._ready.popleft()

    def _dismiss(self, reader: _Reader, *, stop: bool) -> None:
        """Let go of a process; the server makes another in its place."""
        reader.close()
        self._running = reader.number
        self._send({"job": reader.number, "stop": stop})

    def _end_of(self, number: int) -> dict[str, Any]:
        self._await(lambda: number in self._ended, STOP_SECONDS)
        return self._ended[number]

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._control.send(json.dumps(message).encode())
        except OSError as error:
            self._lost(error)

    def _await(
        self,
        condition: Callable[[], bool],
        seconds: float,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Take messages until `condition` holds. A server that stays silent is given up."""
        deadline = time.monotonic() + seconds
        while not condition():
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._control], [], [], max(0.0, min(STILL, left)))
            if not ready and left > STILL:
                if on_progress is not None:
                    on_progress(0, 0)
                continue
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
            control = socket.socket(fileno=handed[0])
            try:
                folder = os.open(self._scratch / str(message["ready"]), FOLDER)
            except OSError:  # killed already, and tidied away
                control.close()
                return
            self._ready.append(_Reader(message["ready"], control, folder))
        elif "ended" in message:
            self._ended[message["ended"]] = message
        else:
            self.active = message["isolation"]

    def _lost(self, cause: OSError | None) -> NoReturn:
        self.usable = False
        self._process.kill()
        raise ParseError(CRASHED, code="parser_crashed") from cause


def _hand_over(path: Path, folder: int, name: str) -> None:
    """Copy a file into the folder of a process. What the process put there itself is never followed or written to."""
    try:
        given = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise ParseError("The stored file can not be opened.", code="file_missing") from error
    try:
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            target = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EEXIST, errno.EISDIR):
                raise _Gone from error
            raise ParseError("The stored file can not be opened.", code="file_missing") from error
        try:
            while os.sendfile(target, given, None, SENDFILE_BYTES):
                pass
        except OSError as error:
            raise ParseError("The stored file can not be opened.", code="file_missing") from error
        finally:
            os.close(target)
    finally:
        os.close(given)


def _environment(scratch: Path) -> dict[str, str]:
    """Nothing of ours: no addresses, no keys. Threads would only cost address space."""
    return {
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        "TMPDIR": str(scratch),
        "MALLOC_ARENA_MAX": "2",
        # A font of the system takes 20 MB for each PDF: kept for the next one, they need not be cleared again.
        "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20),
        "MALLOC_TRIM_THRESHOLD_": str(64 * 2**20),
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
