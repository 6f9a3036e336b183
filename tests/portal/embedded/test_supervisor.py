from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from portal.embedded import locations
from portal.embedded.process import Child, Program
from portal.embedded.supervisor import run_to_end
from portal.kernel.errors import ArchwayError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")

PATIENCE = 20.0


class Supervised:
    """The supervisor of `supervised.py`, its children's ids as they are born, and the way to make one die."""

    def __init__(self, folder: Path) -> None:
        os.mkfifo(folder / "born")
        os.mkfifo(folder / "die")
        # Read and write, so that opening waits for nobody and the pipe never reaches its end.
        # Unbuffered, because `births` asks the kernel, not a buffer, whether another line has come.
        self._born = os.fdopen(os.open(folder / "born", os.O_RDWR), "rb", buffering=0)
        self._die = os.open(folder / "die", os.O_RDWR)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.portal.embedded.supervised", str(folder)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=locations.REPOSITORY,
        )
        assert self.process.stdout is not None
        self.output: IO[str] = self.process.stdout
        self.handles: list[int] = []

    def births(self, count: int) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for _ in range(count):
            assert select.select([self._born], [], [], PATIENCE)[0]
            name, *numbers = self._born.readline().decode().split()
            found[name] = [int(number) for number in numbers]
            self.handles += [os.pidfd_open(number) for number in found[name]]
        return found

    def let_die(self) -> None:
        os.write(self._die, b"now\n")

    def all_gone(self) -> bool:
        """Waits for the end of every process that was born."""
        return all(select.select([handle], [], [], PATIENCE)[0] for handle in self.handles)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.output.close()
        self._born.close()
        for handle in (self._die, *self.handles):
            os.close(handle)


@pytest.fixture
def supervised(folder: Path) -> Iterator[Supervised]:
    running = Supervised(folder)
    yield running
    running.close()


def test_a_child_that_dies_is_reported_with_its_last_lines_and_started_again(supervised: Supervised) -> None:
    first = supervised.births(2)["brittle"]
    supervised.let_die()
    second = supervised.births(1)["brittle"]
    assert first != second
    supervised.process.terminate()
    said, _ = supervised.process.communicate(timeout=PATIENCE)
    assert "brittle ended with code 3" in said
    assert "these are my last words" in said
    assert "again in 0.05 s" in said


def test_pauses_grow_while_a_child_keeps_dying(supervised: Supervised) -> None:
    supervised.births(2)
    for _ in range(3):
        supervised.let_die()
        supervised.births(1)
    supervised.process.terminate()
    said, _ = supervised.process.communicate(timeout=PATIENCE)
    assert [line.split(" in ")[1].split(" s")[0] for line in said.splitlines() if "again in" in line] == [
        "0.05",
        "0.1",
        "0.2",
    ]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_every_process_even_one_that_ignores_term(supervised: Supervised, number: int) -> None:
    supervised.births(2)
    supervised.process.send_signal(number)
    said, _ = supervised.process.communicate(timeout=PATIENCE)
    assert supervised.process.returncode == 0
    assert said.endswith("stopped\n")
    # All of them: the grandchild goes with the child that left it behind.
    assert supervised.all_gone()


def test_a_signal_that_arrives_twice_still_ends_in_order(supervised: Supervised) -> None:
    supervised.births(2)
    supervised.process.send_signal(signal.SIGINT)
    supervised.process.send_signal(signal.SIGTERM)
    said, _ = supervised.process.communicate(timeout=PATIENCE)
    assert supervised.process.returncode == 0
    assert said.endswith("stopped\n")
    assert supervised.all_gone()


def test_kill_9_of_the_supervisor_ends_its_children(supervised: Supervised) -> None:
    births = supervised.births(2)
    grandchild = births["stubborn"][1]
    supervised.process.kill()
    os.kill(grandchild, signal.SIGKILL)  # the kernel tells children only
    assert supervised.all_gone()


def test_output_is_kept_in_a_log_that_rotates(folder: Path) -> None:
    seen: list[tuple[str, str]] = []
    code = "for n in range(3): print('zeile', n, 'ÄÖ数据')"
    child = Child(
        Program("chatter", lambda: [sys.executable, "-X", "utf8", "-c", code]),
        folder,
        lambda name, line: seen.append((name, line)),
    )
    assert child.gone.wait(PATIENCE)
    assert seen == [("chatter", f"zeile {n} ÄÖ数据") for n in range(3)]
    assert (folder / "chatter.log").read_text("utf-8").splitlines() == [line for _, line in seen]


def test_a_step_that_fails_says_why(folder: Path) -> None:
    failing = Program("step", lambda: [sys.executable, "-c", "import sys; sys.exit('no such table')"])
    with pytest.raises(ArchwayError, match="no such table"):
        run_to_end(failing, folder, lambda name, line: None)


def test_a_program_that_does_not_exist_is_named(folder: Path) -> None:
    with pytest.raises(ArchwayError, match="no-such-program"):
        run_to_end(Program("step", lambda: ["no-such-program"]), folder, lambda name, line: None)
