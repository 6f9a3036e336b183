"""What this machine has to offer: memory and disk, containers' limits included. All in megabytes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

MEGABYTE = 1024 * 1024
CONTAINER_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def megabytes_of_memory() -> int:
    """Physical memory, or the container's limit when that is smaller."""
    amounts = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in CONTAINER_LIMITS:
        try:
            amounts.append(int(path.read_text("ascii")))
        except (OSError, ValueError):  # no container, or "max"
            continue
    return min(amounts) // MEGABYTE


def megabytes_free(folder: Path) -> int:
    """Free space of the file system of `folder`; 0 when there is no such folder."""
    try:
        return shutil.disk_usage(folder).free // MEGABYTE
    except OSError:
        return 0
