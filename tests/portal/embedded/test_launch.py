from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from portal.embedded import locations
from tests.portal.embedded import without_namespaces

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has namespaces and capabilities")

ASK = """
import sys
from pathlib import Path
from portal.embedded.servers import EmbeddedServers
with EmbeddedServers(Path(sys.argv[1]), durable=False) as servers, servers.postgres.connect("archway") as connection:
    print(connection.execute("SELECT 'answered'").fetchone()[0], servers.postgres.data.stat().st_uid)
"""


def ask(folder: Path, *before: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*before, sys.executable, "-c", ASK, str(folder)], cwd=locations.REPOSITORY, capture_output=True, text=True
    )


@pytest.mark.slow
def test_postgres_runs_without_the_rights_of_the_one_who_starts_it(folder: Path) -> None:
    done = ask(folder)
    assert done.stdout == f"answered {os.geteuid()}\n", done.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_starts_postgres_where_user_namespaces_are_switched_off(folder: Path) -> None:
    # Inside a folder that nobody else may enter, like root's home.
    done = ask(folder / "inner", sys.executable, without_namespaces.__file__)
    if done.returncode == without_namespaces.NOTHING_TO_DO:
        pytest.skip("this machine lets nobody make a namespace")
    assert done.stdout.startswith("answered "), done.stderr
    assert done.stdout != "answered 0\n"
    # What was made there still works where namespaces are allowed.
    assert ask(folder / "inner").stdout == done.stdout


def test_a_program_whose_parent_is_gone_is_not_started() -> None:
    launcher = locations.REPOSITORY / "portal" / "embedded" / "launch.py"
    done = subprocess.run(
        [sys.executable, str(launcher), "--parent", "1", "--signal", "15", "--", "echo", "started"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 126
    assert done.stdout == ""
    assert "parent" in done.stderr


def test_a_program_started_from_a_background_job_can_still_be_stopped() -> None:
    launcher = locations.REPOSITORY / "portal" / "embedded" / "launch.py"
    own = str(os.getpid())
    ask = "import signal; print(signal.getsignal(signal.SIGQUIT) is signal.SIG_DFL)"
    before = signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    try:
        done = subprocess.run(
            [sys.executable, str(launcher), "--parent", own, "--signal", "15", "--", sys.executable, "-c", ask],
            capture_output=True,
            text=True,
        )
    finally:
        signal.signal(signal.SIGQUIT, before)
    assert done.stdout == "True\n"
