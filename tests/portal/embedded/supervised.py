"""A supervisor of two tiny programs, run as a process of its own by `test_supervisor.py`.

    python supervised.py FOLDER

The program `stubborn` ignores TERM and writes its process id to the pipe FOLDER/born each time it starts; `brittle`
does the same and dies, with last words, when a line comes through the pipe FOLDER/die.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from portal.embedded.process import Program
from portal.embedded.supervisor import Service, StopRequested, Supervisor

STUBBORN = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
grandchild = subprocess.Popen(["sleep", "1000"])
open(sys.argv[1] + "/born", "w").write(f"stubborn {os.getpid()} {grandchild.pid}\\n")
signal.pause()
"""
BRITTLE = """
import os, sys
open(sys.argv[1] + "/born", "w").write(f"brittle {os.getpid()}\\n")
open(sys.argv[1] + "/die").readline()
print("these are my last words")
sys.exit(3)
"""


def program(name: str, code: str, folder: Path) -> Program:
    return Program(
        name=name,
        command=lambda: [sys.executable, "-c", code, str(folder)],
        stop=((signal.SIGTERM, 0.1), (signal.SIGKILL, 5)),
        with_parent=signal.SIGKILL,
    )


def say(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    folder = Path(sys.argv[1])
    try:
        with Supervisor(folder / "log", say, lambda name, line: None, first_pause=0.05) as supervisor:
            supervisor.start(
                Service(program("stubborn", STUBBORN, folder), tier=0),
                Service(program("brittle", BRITTLE, folder), tier=1),
            )
            supervisor.run()
    except StopRequested:
        say("stopped")


if __name__ == "__main__":
    main()
