"""Old Office files (DOC, PPT) to DOCX and PPTX, by LibreOffice where it is installed.

Alone decides which program converts and within which limits. LibreOffice runs in a session of its own, shut
in like a parser (`convert_child.py`): a profile that is made for one file, no network, no macros, and it
is ended with everything that it started.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from knowledge.ingestion.blocks import Source
from knowledge.ingestion.parsers.legacy import NEEDS_CONVERTER
from knowledge.ingestion.sandbox import import_path
from portal.kernel.errors import ParseError

OOXML = "application/vnd.openxmlformats-officedocument."
PROGRAMS = ("soffice", "libreoffice")
POLL = 0.1
KILL_SECONDS = 10
BOOTSTRAP = (
    "import sys, json; sys.path[:] = json.loads(sys.argv.pop(1)); from knowledge.ingestion.convert_child import main; "
    "main(json.loads(sys.argv[1]))"
)


@dataclass(frozen=True, slots=True)
class Target:
    """What an old type becomes: file suffixes, LibreOffice's filter, and the new type."""

    suffix: str
    new_suffix: str
    filter: str
    mime: str


LEGACY: dict[str, Target] = {
    "application/msword": Target("doc", "docx", "MS Word 2007 XML", f"{OOXML}wordprocessingml.document"),
    "application/vnd.ms-powerpoint": Target(
        "ppt", "pptx", "Impress MS PowerPoint 2007 XML", f"{OOXML}presentationml.presentation"
    ),
}


@dataclass(frozen=True, slots=True)
class ConvertLimits:
    """What one conversion may use. `program` names LibreOffice where it is not in the search path."""

    program: str = ""
    memory_mb: int = 3072
    seconds: int = 120
    file_mb: int = 512


def find_program(named: str = "") -> str:
    """Where LibreOffice is; "" when it is not installed."""
    if named:
        return shutil.which(named) or ""
    return next(filter(None, map(shutil.which, PROGRAMS)), "")


def refuse_without_program(mime: str, named: str = "") -> None:
    """Raises `ParseError` (`needs_converter`) for a type that only LibreOffice reads when there is none."""
    if mime in LEGACY and not find_program(named):
        raise ParseError(NEEDS_CONVERTER, code="needs_converter")


@contextmanager
def converted(source: Source, limits: ConvertLimits, should_stop: Callable[[], bool] | None = None) -> Iterator[Source]:
    """The file in the new format, for as long as the block runs.

    Raises `ParseError`: `needs_converter`, `damaged_file`, `too_slow`, `cancelled`, `file_missing`.
    """
    target = LEGACY[source.mime]
    program = find_program(limits.program)
    if not program:
        raise ParseError(NEEDS_CONVERTER, code="needs_converter")
    with tempfile.TemporaryDirectory(prefix="archway-convert-") as folder:
        scratch, root = Path(folder) / "scratch", Path(folder) / "root"
        for path in (scratch, root, scratch / "out"):
            path.mkdir(mode=0o700)
        given = scratch / f"document.{target.suffix}"
        try:
            shutil.copyfile(source.path, given)
        except OSError as error:
            raise ParseError("The stored file can not be opened.", code="file_missing") from error
        _run(program, scratch, root, target, limits, should_stop)
        made = scratch / "out" / f"document.{target.new_suffix}"
        if made.is_symlink() or not made.is_file() or not made.stat().st_size:
            raise ParseError("The file is damaged or incomplete.", code="damaged_file")
        yield Source(made, source.name, target.mime)


def _run(
    program: str,
    scratch: Path,
    root: Path,
    target: Target,
    limits: ConvertLimits,
    should_stop: Callable[[], bool] | None,
) -> None:
    """Run the conversion to its end, or end it. Raises `ParseError` (`too_slow`, `cancelled`)."""
    request = {
        "program": program,
        "scratch": str(scratch),
        "root": str(root),
        "given": f"document.{target.suffix}",
        "to": f"{target.new_suffix}:{target.filter}",
        "memory_mb": limits.memory_mb,
        "cpu_seconds": limits.seconds,
        "file_mb": limits.file_mb,
    }
    command = [sys.executable, "-I", "-X", "utf8", "-c", BOOTSTRAP, json.dumps(import_path()), json.dumps(request)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"PATH": os.defpath, "LANG": "C.UTF-8", "HOME": str(scratch), "TMPDIR": str(scratch)},
        cwd="/",
        start_new_session=True,
    )
    deadline = time.monotonic() + limits.seconds
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(POLL)
                return
            if time.monotonic() > deadline:
                raise ParseError("Converting this file takes longer than is allowed.", code="too_slow")
            if should_stop is not None and should_stop():
                raise ParseError("Reading this file was cancelled.", code="cancelled")
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill whatever of the session is left, the first process' children included."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(KILL_SECONDS)
