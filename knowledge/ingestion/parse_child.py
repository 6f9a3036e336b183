"""The process that reads a file: sets its limits, parses, writes frames, ends; or waits for more of the same group."""

from __future__ import annotations

import importlib
import json
import math
import os
import resource
import select
import shutil
import signal
import socket
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from knowledge.ingestion.blocks import ParseContext, Parser, Source
from knowledge.ingestion.confinement import landlock
from knowledge.ingestion.confinement.seccomp import refuse_processes
from knowledge.ingestion.confinement.system import die_with_parent
from knowledge.ingestion.finishing import finished
from knowledge.ingestion.frames import ERROR, PROGRESS, document_frames, json_frame
from knowledge.ingestion.warming import touch
from portal.kernel.errors import ParseError

PROGRESS_EVERY = 0.2  # seconds
STDERR = 2
IDLE_SECONDS = 30.0  # that a process waits for another file of its group
MOST_KB = 256 * 1024  # of memory that a file may have taken in a process that reads another one
REQUEST = 256 * 1024  # bytes of a request at most
SOURCE = "source"  # name of the copy of the file to read, inside the job's folder
COMPLAINTS = "stderr"  # and of what the process writes to its standard error
RECOGNISED = "recognised"  # and of what text recognition found in it, where there is such
OUT_OF_MEMORY = json_frame(ERROR, {"code": "out_of_memory"})


def wait_and_run(control: socket.socket, folder: Path, readable: list[landlock.Opened], baseline: int) -> None:
    """Wait for a request, parse `source` in `folder`, write the result to the pipe that came along.

    Does not return. `baseline` is the address space in bytes that the process has before it reads
    anything. All that does not depend on the request is done while waiting costs nobody time. After a file
    that was read well, and as long as its request allows, it waits for the next one.
    """
    try:
        die_with_parent(signal.SIGKILL)
        landlock.restrict(readable, folder)
        _close_all_but(control.fileno())
        tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
        refuse_processes()
        if not select.select([control], [], [], 0)[0]:
            touch(folder)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        wait: float | None = None  # until the first file came
        while select.select([control], [], [], wait)[0]:
            message, descriptors, _, _ = socket.recv_fds(control, REQUEST, 1)
            if not message:
                break
            request = json.loads(message)
            # Not when a file is done: the owner may hand over the next one at the same moment.
            _tidy(folder, {SOURCE, COMPLAINTS, RECOGNISED} if request["recognised"] else {SOURCE, COMPLAINTS})
            stays = request["stay_seconds"]
            if not stays:
                control.close()
            _limit(request["limits"], baseline, 0 if wait is None else math.ceil(time.process_time()), stays)
            read = _parse(request, folder / SOURCE, descriptors[0])
            os.close(descriptors[0])
            if not (stays and read) or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > memory + MOST_KB:
                break
            wait = IDLE_SECONDS
    finally:
        os._exit(0)


def _tidy(folder: Path, kept: set[str]) -> None:
    """Remove what the file before has left."""
    for path in folder.iterdir():
        if path.name in kept:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def load(name: str) -> Parser:
    """The parser that `module:function` names."""
    module, _, function = name.partition(":")
    parser: Parser = getattr(importlib.import_module(module), function)
    return parser


def _parse(request: dict[str, Any], path: Path, out: int) -> bool:
    """Whether the file was read."""
    try:
        parser = load(request["parser"])
        context = ParseContext(**request["context"], progress=_reporter(out))
        recognised = path.with_name(RECOGNISED)
        source = Source(path, request["name"], request["mime"], recognised if recognised.exists() else None)
        for part in document_frames(finished(parser(source, context), context)):
            _write(out, part)
        return True
    except MemoryError:
        _write(out, OUT_OF_MEMORY)
    except ParseError as error:
        params = {key: value if isinstance(value, int) else str(value) for key, value in error.params.items()}
        _write(out, json_frame(ERROR, {"code": error.code, "message": error.message, "params": params}))
    except RecursionError:
        message = "The file is nested too deep to be read safely."
        _write(out, json_frame(ERROR, {"code": "nested_too_deep", "message": message, "params": {}}))
    except Exception as error:  # noqa: BLE001 - outermost edge: the parent logs it and tells people `parser_crashed`
        _write(out, json_frame(ERROR, {"code": "parser_crashed", "detail": _where(error)}))
    return False


def _reporter(out: int) -> Callable[[int, int], None]:
    last = 0.0

    def report(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= PROGRESS_EVERY:
            last = now
            _write(out, json_frame(PROGRESS, {"done": done, "total": total}))

    return report


def _write(out: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(out, view) :]


def _where(error: Exception) -> str:
    """Type and place of an error, without its message (which may quote the document) and without paths."""
    places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
    return f"{type(error).__name__} at {' > '.join(places[-6:])}"


def _close_all_but(kept: int) -> None:
    os.closerange(STDERR + 1, kept)
    os.closerange(kept + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _limit(limits: dict[str, int], baseline: int, used: int, stay_seconds: float) -> None:
    """`used` are the seconds that files before this one took, `stay_seconds` what they may take in all.

    The hard limit can not be raised again, so it has room for them from the beginning.
    """
    cpu = limits["cpu_seconds"]
    _at_most(resource.RLIMIT_AS, baseline + limits["memory_mb"] * 1024 * 1024)
    _at_most(resource.RLIMIT_CPU, used + cpu, cpu + 1 + math.ceil(stay_seconds))
    _at_most(resource.RLIMIT_NOFILE, limits["open_files"])
    _at_most(resource.RLIMIT_FSIZE, limits["file_mb"] * 1024 * 1024)
    _at_most(resource.RLIMIT_CORE, 0)


def _at_most(kind: int, soft: int, hard: int | None = None) -> None:
    _, present = resource.getrlimit(kind)
    hard = soft if hard is None else hard
    if present != resource.RLIM_INFINITY:
        soft, hard = min(soft, present), min(hard, present)
    resource.setrlimit(kind, (soft, hard))
