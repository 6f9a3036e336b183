"""Temporary folders of fork servers, and how those of killed workers are found and removed.

A worker that is killed, or a Celery child that leaves by `os._exit`, removes nothing. So each folder
holds a lock that its owner keeps as long as it lives: a folder whose lock is free has no owner.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

PREFIX = "archway-parse-"
LOCK = "lock"
YOUNG = 60  # seconds in which a folder may not have its lock yet


def make_folder() -> tuple[Path, int]:
    """A new private folder and the descriptor of its lock. Abandoned folders are removed on the way."""
    sweep()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    lock = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return folder, lock


def sweep() -> int:
    """Remove the folders of this user that nobody owns any more; returns how many."""
    removed = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            state = folder.lstat()
            if state.st_uid == os.getuid() and time.time() - state.st_mtime > YOUNG and _is_free(folder):
                shutil.rmtree(folder, ignore_errors=True)
                removed += 1
    return removed


def _is_free(folder: Path) -> bool:
    if folder.is_symlink():
        return False
    lock = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True
