"""Becomes another program that ends with its parent and, for PostgreSQL, does not run as root.

Run by path (`python -I -S launch.py …`), standard library only: it is the last thing before `exec`.

    launch.py --parent PID --signal NUMBER [--not-root FOLDER] -- PROGRAM ARGUMENT…

`--signal` is what the kernel sends when the parent dies, however it dies. `--not-root` takes the data folder of
PostgreSQL, which refuses to run as root. Two ways out of root, the first that this machine allows:

1. a user namespace in which root outside is user 1 inside: files stay root's, and no right is left;
2. the owner of the folder (else `nobody`), with one capability kept, to get through folders that are root's.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import pwd
import signal
import sys
from pathlib import Path

CLONE_NEWUSER = 0x10000000
PR_SET_PDEATHSIG, PR_SET_KEEPCAPS, PR_CAP_AMBIENT = 1, 8, 47
PR_CAP_AMBIENT_RAISE = 2
CAP_DAC_OVERRIDE = 1
CAPABILITY_VERSION_3 = 0x20080522
INSIDE = 1  # a user that every password file knows: PostgreSQL looks its own name up


class RefusedError(Exception):
    """The machine does not allow what is needed; the text says what."""


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--signal", type=int, required=True)
    parser.add_argument("--not-root", type=Path)
    parser.add_argument("command", nargs="+")
    given = parser.parse_args(arguments)
    # A shell starts background jobs with these ignored, and ignoring is inherited: the child could not be stopped.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    try:
        if given.not_root and _needs_another_identity():
            _leave_root(given.not_root)
        # After the change of identity, which clears it.
        if sys.platform == "linux":
            _call("prctl", PR_SET_PDEATHSIG, given.signal, 0, 0, 0)
            if os.getppid() != given.parent:
                raise RefusedError("the parent is gone already")
        os.execvp(given.command[0], given.command)  # noqa: S606
    except (OSError, RefusedError) as error:
        sys.stderr.write(f"{given.command[0]} can not be started: {error}\n")
        sys.exit(126)


def _needs_another_identity() -> bool:
    if os.geteuid() == 0:
        return True
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:  # a container that runs under a number without a name
        return True
    return False


def _leave_root(folder: Path) -> None:
    if sys.platform != "linux":
        raise RefusedError("PostgreSQL does not run as root; use an ordinary account")
    owner = folder.stat().st_uid
    if owner == os.geteuid() and _namespaces_work():
        _enter_namespace()
    elif os.geteuid() == 0:
        _become(owner or pwd.getpwnam("nobody").pw_uid, folder)
    else:
        raise RefusedError("this account has no name in the password file, and user namespaces are switched off")


def _namespaces_work() -> bool:
    """Tries it in a child, because a half-made namespace can not be left again."""
    child = os.fork()
    if child == 0:
        try:
            _enter_namespace()
        except (OSError, RefusedError):
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def _enter_namespace() -> None:
    user, group = os.geteuid(), os.getegid()
    _call("unshare", CLONE_NEWUSER)
    own = Path("/proc/self")
    (own / "setgroups").write_text("deny")
    (own / "uid_map").write_text(f"{INSIDE} {user} 1")
    (own / "gid_map").write_text(f"{INSIDE} {group} 1")


def _become(user: int, folder: Path) -> None:
    group = pwd.getpwuid(user).pw_gid
    for path in (folder, *folder.rglob("*")):
        if path.lstat().st_uid != user:
            os.chown(path, user, group, follow_symlinks=False)
    _call("prctl", PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)
    mask = 1 << CAP_DAC_OVERRIDE
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    # Twice (effective, permitted, inheritable): the low and the high 32 capabilities.
    _call("capset", header, (ctypes.c_uint32 * 6)(mask, mask, mask, 0, 0, 0))
    _call("prctl", PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE, 0, 0)


def _call(name: str, *arguments: object) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


if __name__ == "__main__":
    main(sys.argv[1:])
