"""Landlock: which files a process may still open, and no TCP. Works for ordinary users and in containers.

Reference: the Linux kernel's userspace-api/landlock documentation.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path

from knowledge.ingestion.confinement.system import forbid_new_privileges, system_call

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION_FLAG = 1
RULE_PATH_BENEATH = 1
READ = 1 << 0 | 1 << 2 | 1 << 3  # execute (shared libraries), read file, read folder
WRITE, READ_FOLDER, REMOVE_FILE, MAKE_SOCKET = 1 << 1, 1 << 3, 1 << 5, 1 << 9
ALL_BY_VERSION = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF, 5: 0xFFFF}
TCP = 1 << 0 | 1 << 1
Opened = int
SCOPES = 1 << 0 | 1 << 1  # abstract Unix sockets, signals


def version() -> int:
    """The Landlock version of the running kernel, 0 if it has none."""
    try:
        return system_call(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(VERSION_FLAG))
    except OSError:
        return 0


def restrict(readable: Sequence[Opened], writable: Path, more: Sequence[tuple[Opened, int]] = ()) -> bool:
    """From now on only `readable` may be read and only `writable` written, besides what `more` allows each folder.

    False if the kernel can not.
    """
    known = version()
    if not known:
        return False
    everything = ALL_BY_VERSION.get(known, ALL_BY_VERSION[5])
    attributes = (ctypes.c_uint64 * 3)(everything, TCP if known >= 4 else 0, SCOPES if known >= 6 else 0)
    size = 24 if known >= 6 else 16 if known >= 4 else 8
    ruleset = system_call(CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), ctypes.c_uint32(0))
    try:
        for target in readable:
            _allow(ruleset, target, READ)
        for target, access in more:
            _allow(ruleset, target, access)
        target = opened(writable)
        try:
            _allow(ruleset, target, everything)
        finally:
            os.close(target)
        forbid_new_privileges()
        system_call(RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)
    return True


def opened(folder: Path) -> Opened:
    """A descriptor that stands for a folder in rules and opens nothing by itself."""
    return os.open(folder, os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY)


def _allow(ruleset: int, target: Opened, access: int) -> None:
    rule = _PathBeneath(access, target)
    system_call(
        ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(RULE_PATH_BENEATH), ctypes.byref(rule), ctypes.c_uint32(0)
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32)]
