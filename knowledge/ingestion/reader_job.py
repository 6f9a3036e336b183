"""One file in a reader process, seen from its owner: what it sends, until it ends or must be stopped.

Alone decides what the end of a reader means to people.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any

from knowledge.ingestion import frames
from knowledge.ingestion.blocks import Image, ParsedDocument
from portal.kernel.errors import ParseError

log = logging.getLogger(__name__)

PIPE_BYTES = 1024 * 1024
POLL = 0.1  # seconds between looks at the clock and at `should_stop`
STILL = 1.0  # seconds without a word of the reader after which its last progress is told again, as a sign of life

OUT_OF_MEMORY = "Reading this file needs more memory than is allowed."
TOO_SLOW = "Reading this file takes longer than is allowed."
CRASHED = "The reader of this file type failed on this file."


class ReaderJob:
    """Reads the frames of one child until it ends, breaks a limit or is no longer wanted."""

    def __init__(
        self,
        wall_seconds: float,
        result_mb: int,
        on_progress: Callable[[int, int], None] | None,
        should_stop: Callable[[], bool] | None,
        pipe: int,
    ) -> None:
        self.document: ParsedDocument | None = None
        self.error: ParseError | None = None
        self._pipe = pipe
        self._deadline = time.monotonic() + wall_seconds
        self._reader = frames.Reader(result_mb * 1024 * 1024)
        self._images: list[Image] = []
        self._step = (0, 0)  # of the progress that came last; nothing counted yet
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
        if self._on_progress is not None:
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


def death(ended: dict[str, Any], memory_kb: int) -> ParseError:
    """What the end of a process without a result means: `ended` as the fork server tells it."""
    status = int(ended.get("status", -1))
    number = os.WTERMSIG(status) if status >= 0 and os.WIFSIGNALED(status) else 0
    complaint = str(ended.get("complaint", ""))
    out_of_memory = any(word in complaint for word in ("memory allocation", "MemoryError", "bad_alloc"))
    if number in (signal.SIGXCPU, signal.SIGKILL) and not out_of_memory:
        # Beyond the hard CPU limit the kernel sends SIGKILL; so does the OOM killer, far more seldom.
        return ParseError(TOO_SLOW, code="too_slow")
    # Libraries also abort without a word when memory ends.
    if out_of_memory or (number and int(ended.get("rss_kb", 0)) > memory_kb // 2):
        return ParseError(OUT_OF_MEMORY, code="out_of_memory")
    log.error("A parser process ended with signal %s, status %s", number, status)
    return ParseError(CRASHED, code="parser_crashed")


def _error(value: dict[str, Any]) -> ParseError:
    code = str(value.get("code", "parser_crashed"))
    if code == "out_of_memory":
        return ParseError(OUT_OF_MEMORY, code=code)
    if code == "parser_crashed":
        log.error("A parser failed unexpectedly: %s", str(value.get("detail", ""))[:500])
        return ParseError(CRASHED, code=code)
    params = value.get("params")
    return ParseError(str(value.get("message", CRASHED)), code=code, **(params if isinstance(params, dict) else {}))
