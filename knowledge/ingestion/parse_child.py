"""The process that reads one file: sets its limits, parses, writes frames, ends."""

from __future__ import annotations

import importlib
import json
import os
import resource
import select
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
REQUEST = 256 * 1024  # bytes of a request at most
SOURCE = "source"  # name of the copy of the file to read, inside the job's folder
RECOGNISED = "recognised"  # and of what text recognition found in it, where there is such
OUT_OF_MEMORY = json_frame(ERROR, {"code": "out_of_memory"})


def wait_and_run(control: socket.socket, folder: Path, readable: list[landlock.Opened], baseline: int) -> None:
    """Wait for the request, parse `source` in `folder`, write the result to the pipe that came along.

    Does not return. `baseline` is the address space in bytes that the process has before it reads
    anything. All that does not depend on the request is done while waiting costs nobody time.
    """
    try:
        die_with_parent(signal.SIGKILL)
        landlock.restrict(readable, folder)
        _close_all_but(control.fileno())
        tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
        refuse_processes()
        if not select.select([control], [], [], 0)[0]:
            touch(folder)
        message, descriptors, _, _ = socket.recv_fds(control, REQUEST, 1)
        control.close()
        if message:
            request = json.loads(message)
            _limit(request["limits"], baseline)
            _parse(request, folder / SOURCE, descriptors[0])
    finally:
        os._exit(0)


def load(name: str) -> Parser:
    """The parser that `module:function` names."""
    module, _, function = name.partition(":")
    parser: Parser = getattr(importlib.import_module(module), function)
    return parser


def _parse(request: dict[str, Any], path: Path, out: int) -> None:
    try:
        parser = load(request["parser"])
        context = ParseContext(**request["context"], progress=_reporter(out))
        recognised = path.with_name(RECOGNISED)
        source = Source(path, request["name"], request["mime"], recognised if recognised.exists() else None)
        for part in document_frames(finished(parser(source, context), context)):
            _write(out, part)
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


def _limit(limits: dict[str, int], baseline: int) -> None:
    cpu = limits["cpu_seconds"]
    _at_most(resource.RLIMIT_AS, baseline + limits["memory_mb"] * 1024 * 1024)
    _at_most(resource.RLIMIT_CPU, cpu, cpu + 1)
    _at_most(resource.RLIMIT_NOFILE, limits["open_files"])
    _at_most(resource.RLIMIT_FSIZE, limits["file_mb"] * 1024 * 1024)
    _at_most(resource.RLIMIT_CORE, 0)


def _at_most(kind: int, soft: int, hard: int | None = None) -> None:
    _, present = resource.getrlimit(kind)
    hard = soft if hard is None else hard
    if present != resource.RLIM_INFINITY:
        soft, hard = min(soft, present), min(hard, present)
    resource.setrlimit(kind, (soft, hard))
