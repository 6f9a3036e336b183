"""The process that becomes LibreOffice: sets its limits, shuts itself in, and starts the program."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path
from typing import Any

from knowledge.ingestion.confinement import confine_program
from knowledge.ingestion.confinement.system import die_with_parent

# No macros whatever the document says, and no link in it is followed.
_SECURITY = "org.openoffice.Office.Common/Security/Scripting"
_SETTINGS = (
    (_SECURITY, "DisableMacrosExecution", "true"),
    (_SECURITY, "MacroSecurityLevel", "3"),
    (_SECURITY, "BlockUntrustedRefererLinks", "true"),
    (_SECURITY, "DisableActiveContent", "true"),
    ("org.openoffice.Office.Writer/Content/Update", "Link", "0"),
    ("org.openoffice.Office.Common/Load", "UserDefinedSettings", "false"),
    ("org.openoffice.Office.Common/Misc", "FirstRun", "false"),
)
_SYSTEM = (
    "/usr",
    "/lib",
    "/lib64",
    "/bin",
    "/sbin",
    "/opt",
    "/etc/fonts",
    "/etc/libreoffice",
    "/var/lib/libreoffice",
    "/var/spool/libreoffice",
    "/etc/alternatives",
)
# Of the kernel only what says nothing about other processes; LibreOffice will not start without the first.
_KERNEL = ("/proc/version", "/proc/cpuinfo", "/proc/meminfo")


def main(request: dict[str, Any]) -> None:
    """Does not return: the process goes on as the program, or ends."""
    die_with_parent(signal.SIGKILL)
    scratch, program = Path(request["scratch"]), Path(request["program"])
    _write_profile(scratch / "profile" / "user")
    _limit(request)
    real = program.resolve()
    folders = [Path(path) for path in (*_SYSTEM, *_KERNEL)]
    folders += [path.parent for path in (program, real) if not any(base in path.parents for base in folders)]
    confine_program(scratch, Path(request["root"]), folders)
    os.chdir(scratch)
    command = [
        str(program),
        f"-env:UserInstallation=file://{scratch}/profile",
        "--headless", "--invisible", "--nologo", "--nodefault", "--norestore", "--nolockcheck", "--nofirststartwizard",
        "--convert-to", request["to"],
        "--outdir", str(scratch / "out"),
        str(scratch / request["given"]),
    ]  # fmt: skip
    # Without /proc/self the loader does not know where the program lies, and so finds no libraries beside it.
    environment = {**os.environ, "LD_LIBRARY_PATH": str(real.parent)}
    os.execve(command[0], command, environment)  # noqa: S606 (no shell: a list of our own)


def _write_profile(folder: Path) -> None:
    folder.mkdir(parents=True, mode=0o700)
    items = "".join(
        f'<item oor:path="/{path}"><prop oor:name="{name}" oor:op="fuse"><value>{value}</value></prop></item>'
        for path, name, value in _SETTINGS
    )
    (folder / "registrymodifications.xcu").write_text(
        '<?xml version="1.0" encoding="UTF-8"?><oor:items xmlns:oor="http://openoffice.org/2001/registry" '
        'xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">'
        f"{items}</oor:items>",
        encoding="utf-8",
    )


def _limit(request: dict[str, Any]) -> None:
    for kind, amount in (
        (resource.RLIMIT_AS, request["memory_mb"] * 1024 * 1024),
        (resource.RLIMIT_CPU, request["cpu_seconds"]),
        (resource.RLIMIT_FSIZE, request["file_mb"] * 1024 * 1024),
        (resource.RLIMIT_CORE, 0),
    ):
        present = resource.getrlimit(kind)[1]
        wanted = amount if present == resource.RLIM_INFINITY else min(amount, present)
        resource.setrlimit(kind, (wanted, wanted))
