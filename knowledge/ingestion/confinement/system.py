"""The few Linux calls that Python 3.11 has no function for."""

from __future__ import annotations

import ctypes
import os
import platform

PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 1, 38, 22
CAPSET = {"x86_64": 126, "aarch64": 91}
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
MACHINE = platform.machine()

_libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object) -> int:
    """A libc function by name. Raises `OSError` with its errno when it returns -1."""
    result: int = getattr(_libc, name)(*arguments)
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def system_call(number: int, *arguments: object) -> int:
    """A system call by number. Raises `OSError`."""
    return call("syscall", ctypes.c_long(number), *arguments)


def die_with_parent(signal_number: int) -> None:
    """Have the kernel send this process a signal when the thread that forked it ends."""
    call("prctl", PR_SET_PDEATHSIG, signal_number, 0, 0, 0)


def forbid_new_privileges() -> None:
    """No set-uid program can raise rights any more; Landlock and seccomp ask for this first."""
    call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def drop_capabilities() -> bool:
    """Give up every capability: being root then means no more than owning root's files."""
    number = CAPSET.get(MACHINE)
    if number is None:
        return False
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)(*[0] * 6)
    try:
        system_call(number, ctypes.byref(header), ctypes.byref(data))
    except OSError:
        return False
    return True
