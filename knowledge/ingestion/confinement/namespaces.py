"""Own user, mount, network, IPC and host-name namespaces: a root folder that holds only what parsing reads.

Works for ordinary users where the kernel lets them make user namespaces.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path

from knowledge.ingestion.confinement.system import MACHINE, PIVOT_ROOT, call, system_call

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
DETACH = 2


def enter_network() -> bool:
    """A network namespace without any interface, and the user namespace that allows it."""
    return _unshare(NEWUSER | NEWNET | NEWIPC | NEWUTS) or _unshare(NEWNET | NEWIPC | NEWUTS)


def enter_root(root: Path, readable: Sequence[Path], writable: Sequence[Path]) -> bool:
    """Make `root` (an empty folder) the root folder: `readable` bound read-only and `writable` inside, nothing else.

    Paths keep their names. Returns False, with everything as it was, where the system does not allow it.
    """
    if MACHINE not in PIVOT_ROOT or not _unshare(NEWNS):
        return False
    try:
        _mount(None, Path("/"), None, MS_REC | MS_PRIVATE)
        _mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755")
        for path in readable:
            _bind(path, root, read_only=True)
        for path in writable:
            _bind(path, root, read_only=False)
        os.chdir(root)
        system_call(PIVOT_ROOT[MACHINE], b".", b".")
        call("umount2", b".", DETACH)
        os.chdir("/")
    except OSError:
        return False
    return True


def _unshare(flags: int) -> bool:
    user, group = os.getuid(), os.getgid()
    try:
        call("unshare", flags)
        if flags & NEWUSER:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
            Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    except OSError:
        return False
    return True


def _bind(path: Path, root: Path, *, read_only: bool) -> None:
    target = root / path.relative_to("/")
    if path.is_symlink():
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() and not target.is_symlink():
            target.symlink_to(path.readlink())
        return
    if path.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    _mount(str(path), target, None, MS_BIND | MS_REC)
    if read_only:
        # Flags that the outer mount has are locked and must be named again. 1, 2, 4, 8: ro, nosuid, nodev, noexec.
        locked = os.statvfs(path).f_flag & 0xF
        _mount(None, target, None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | locked)


def _mount(source: str | None, target: Path, kind: str | None, flags: int, options: str | None = None) -> None:
    call(
        "mount",
        source.encode() if source else None,
        os.fsencode(target),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        options.encode() if options else None,
    )
