"""seccomp: the system calls that reading a document never needs are refused by the kernel.

Sockets of every kind (Landlock does not cover connecting to a Unix socket by path), new programs,
mounts, tracing, kernel modules. The reader's own process may start threads but no processes.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable

from knowledge.ingestion.confinement.system import MACHINE, PR_SET_SECCOMP, call, forbid_new_privileges

MODE_FILTER = 2
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# name: number on x86_64, number on aarch64 (None: the call does not exist there)
REFUSED: dict[str, tuple[int, int | None]] = {
    "socket": (41, 198), "connect": (42, 203), "accept": (43, 202), "accept4": (288, 242), "bind": (49, 200),
    "listen": (50, 201), "execve": (59, 221), "execveat": (322, 281), "ptrace": (101, 117),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97), "setns": (308, 268), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "bpf": (321, 280), "userfaultfd": (323, 282), "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "keyctl": (250, 219), "add_key": (248, 217),
    "request_key": (249, 218), "open_by_handle_at": (304, 265), "kexec_load": (246, 104), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "reboot": (169, 142), "swapon": (167, 224),
    "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424), "mknodat": (259, 33), "mknod": (133, None),
}  # fmt: skip
NO_PROCESSES: dict[str, tuple[int, int | None]] = {
    "fork": (57, None), "vfork": (58, None), "kill": (62, 129), "tkill": (200, 130), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
}  # fmt: skip
CLONE, CLONE3, TGKILL = (56, 220), (435, 435), (234, 131)
CLONE_THREAD = 0x10000
X32 = 0x40000000

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16
Step = tuple[int, int, int, int]
_Steps = Callable[[int], list[Step]]


def refuse_calls() -> bool:
    """Refuse the calls in `REFUSED` for this process and its children. False where that is not to be had."""
    return _install(lambda column: [step for numbers in REFUSED.values() for step in _refusal(numbers[column])])


# What a program of its own needs besides: to start its parts, and to speak to them over Unix sockets.
_FOR_PROGRAMS = frozenset({"execve", "execveat", "socket", "connect", "accept", "accept4", "bind", "listen"})
AF_UNIX = 1


def refuse_calls_of_programs() -> bool:
    """As `refuse_calls`, for a whole program (LibreOffice): it may start others, and sockets are Unix ones only."""

    def steps(column: int) -> list[Step]:
        refused = [numbers[column] for name, numbers in REFUSED.items() if name not in _FOR_PROGRAMS]
        socket = REFUSED["socket"][column]
        assert socket is not None
        return [
            *(step for number in refused for step in _refusal(number)),
            (_EQUAL, 0, 4, socket),
            (_LOAD, 0, 0, _FIRST_ARGUMENT),
            (_EQUAL, 1, 0, AF_UNIX),
            (_RETURN, 0, 0, _ERROR | errno.EPERM),
            (_RETURN, 0, 0, _ALLOW),
        ]

    return _install(steps)


def refuse_processes() -> bool:
    """Additionally no fork, and signals only to itself (abort needs that). For the process that parses."""

    def steps(column: int) -> list[Step]:
        refusals = [step for numbers in NO_PROCESSES.values() for step in _refusal(numbers[column])]
        # glibc tries clone3 first, whose flags a filter can not see, and falls back to clone on ENOSYS.
        refusals += _refusal(CLONE3[column], errno.ENOSYS)
        return [
            *refusals,
            (_EQUAL, 0, 4, CLONE[column]),
            (_LOAD, 0, 0, _FIRST_ARGUMENT),
            (_ANY_BIT, 1, 0, CLONE_THREAD),
            (_RETURN, 0, 0, _ERROR | errno.EPERM),
            (_RETURN, 0, 0, _ALLOW),
            (_EQUAL, 0, 4, TGKILL[column]),
            (_LOAD, 0, 0, _FIRST_ARGUMENT),
            (_EQUAL, 1, 0, os.getpid()),
            (_RETURN, 0, 0, _ERROR | errno.EPERM),
            (_RETURN, 0, 0, _ALLOW),
        ]

    return _install(steps)


def _refusal(number: int | None, error: int = errno.EPERM) -> list[Step]:
    return [] if number is None else [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERROR | error)]


def _install(steps: _Steps) -> bool:
    if MACHINE not in AUDIT_ARCH:
        return False
    program: list[Step] = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, AUDIT_ARCH[MACHINE]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if MACHINE == "x86_64":  # the x32 variants of all calls would walk around the list
        program += [(_AT_LEAST, 0, 1, X32), (_RETURN, 0, 0, _ERROR | errno.EPERM)]
    program += steps(list(AUDIT_ARCH).index(MACHINE))
    program.append((_RETURN, 0, 0, _ALLOW))
    instructions = (_Instruction * len(program))(*(_Instruction(*step) for step in program))
    filter_ = _Program(len(program), ctypes.cast(instructions, ctypes.POINTER(_Instruction)))
    try:
        forbid_new_privileges()
        call("prctl", PR_SET_SECCOMP, MODE_FILTER, ctypes.byref(filter_), 0, 0)
    except OSError:
        return False
    return True


class _Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8), ("k", ctypes.c_uint32)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("filter", ctypes.POINTER(_Instruction))]
