"""Shutting a process in before it reads a stranger's file: each measure where the system offers it."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

from knowledge.ingestion.confinement import landlock, namespaces, seccomp
from knowledge.ingestion.confinement.system import drop_capabilities


def confine(scratch: Path, root: Path) -> tuple[list[str], list[landlock.Opened]]:
    """Give up all that parsing does not need, for this process and its children.

    Returns the names of what took hold, and the readable folders, opened, for a further Landlock layer.

    Afterwards only the folders of code and `scratch` can be opened, where the system offers namespaces or
    Landlock. `root` is an empty folder for the new root.
    """
    active = []
    readable = code_folders()
    # A crossing of user namespaces would undo the rights of the second step, so one unshare comes first.
    if namespaces.enter_network():
        active.append("network namespace")
    if namespaces.enter_root(root, readable, [scratch]):
        active.append("mount namespace")
    opened = [landlock.opened(path) for path in readable if path.exists()]
    if landlock.restrict(opened, scratch):
        active.append("landlock")
    if drop_capabilities():
        active.append("no capabilities")
    if seccomp.refuse_calls():
        active.append("seccomp")
    return active, opened


def confine_program(scratch: Path, root: Path, folders: list[Path]) -> list[str]:
    """As `confine`, for a whole program that this process then becomes: it may read `folders` and write `scratch`.

    It may start further programs; of sockets it has Unix ones only. Returns the names of what took hold.
    """
    active = []
    readable = [path for path in dict.fromkeys(map(_plain, folders)) if path.exists()]
    if namespaces.enter_network():
        active.append("network namespace")
    if namespaces.enter_root(root, readable, [scratch, *(path for path in DEVICES if path.exists())]):
        active.append("mount namespace")
        SOCKETS.mkdir(exist_ok=True)  # of the new root: nobody else's
    allowed = (
        (DEVICES[0].parent, landlock.READ | landlock.WRITE),
        (SOCKETS, landlock.READ_FOLDER | landlock.REMOVE_FILE | landlock.MAKE_SOCKET),
    )
    more = [(landlock.opened(folder), access) for folder, access in allowed if folder.is_dir()]
    if landlock.restrict([landlock.opened(path) for path in readable if path.is_dir()], scratch, more):
        active.append("landlock")
    if drop_capabilities():
        active.append("no capabilities")
    if seccomp.refuse_calls_of_programs():
        active.append("seccomp")
    return active


# Programs expect these to be there.
DEVICES = (Path("/dev/null"), Path("/dev/zero"), Path("/dev/urandom"))
SOCKETS = Path("/tmp")  # noqa: S108 - where LibreOffice puts the socket between its processes, whatever TMPDIR says


def code_folders() -> list[Path]:
    """Folders that importing our parsers may read: libraries, and our packages but not the folder around them.

    The folder around them may hold the data folder, with the key file and the database's socket.
    """
    folders: list[Path] = []
    for name in ("stdlib", "platstdlib", "purelib", "platlib"):
        folders.append(Path(sysconfig.get_paths()[name]))
    folders += [Path(sys.base_prefix) / "lib", Path("/usr/lib"), Path("/usr/local/lib"), Path("/lib"), Path("/lib64")]
    # PDFium draws letters of fonts that a file does not bring with those of the system.
    folders += [Path("/usr/share/fonts"), Path("/usr/local/share/fonts")]
    ours = Path(__file__).resolve().parents[3]
    folders += [child for child in ours.iterdir() if (child / "__init__.py").exists()]
    folders += [Path(entry) for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    # Where a folder is reached by a link (a `.venv` that is one), libraries open their files by the name behind it.
    names = [name for path in map(_plain, folders) for name in (path, path.resolve())]
    existing = [path for path in dict.fromkeys(names) if path.is_dir()]
    # A folder inside another is bound with it; binding it again would only cost time.
    return [path for path in existing if not any(other in path.parents for other in existing if not other.is_symlink())]


def _plain(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 - symlinks stay symlinks
