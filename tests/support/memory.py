"""Peak memory of running processes, sampled: for tests and benches that promise a limit. Linux only."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from types import TracebackType

EVERY = 0.02  # seconds


class MemoryWatch:
    """While entered, the peak resident megabytes of a process (`own`) and of the largest process below it (`below`).

    A child that lives for less than a sample or two may be missed; what needs much memory takes longer.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.own = 0
        self.below = 0

    def __enter__(self) -> MemoryWatch:
        # Forget the peak of what came before; refused for processes of others, whose whole life then counts.
        with contextlib.suppress(OSError):
            Path(f"/proc/{self._pid}/clear_refs").write_text("5")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._look()

    def _watch(self) -> None:
        while not self._stop.wait(EVERY):
            self._look()

    def _look(self) -> None:
        self.own = max(self.own, peak_of(self._pid))
        self.below = max([self.below, *map(peak_of, descendants(self._pid))])


def descendants(pid: int) -> list[int]:
    """All processes below `pid`, started by any of its threads."""
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = thread.read_text().split()
        except OSError:
            continue
        for child in children:
            found += [int(child), *descendants(int(child))]
    return found


def peak_of(pid: int) -> int:
    """The most resident megabytes that a process had, 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")), 0)
