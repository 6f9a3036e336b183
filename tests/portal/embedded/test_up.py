"""`manage.py up` as a person runs it: a process of its own, in a fresh folder, with everything it starts."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from portal.embedded import locations

pytestmark = [
    pytest.mark.slow,
    pytest.mark.flow,
    pytest.mark.skipif(sys.platform != "linux", reason="follows processes through /proc"),
]

PATIENCE = 120.0
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/")


class Up:
    """A running `manage.py up` and everything below it."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--no-seed"],
            cwd=locations.REPOSITORY,
            env=bare_environment(folder) | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.said = ""
        self.handles: list[int] = []

    def wait_until_ready(self) -> str:
        """The address, once it is announced."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said += line
            if "Ctrl-C stops everything" in line:
                found = ADDRESS.search(self.said)
                assert found, self.said
                self.seconds = time.monotonic() - self.began
                self.handles = [os.pidfd_open(number) for number in descendants(self.process.pid)]
                return found[0]
        raise AssertionError(self.said)

    def all_gone(self) -> bool:
        return all(select.select([handle], [], [], PATIENCE)[0] for handle in self.handles)

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=PATIENCE)
        for handle in self.handles:
            os.close(handle)


def bare_environment(folder: Path) -> dict[str, str]:
    """What `env -i` leaves, and an unusual clock and locale."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return kept | {"ARCHWAY_DATA_DIR": str(folder), "TZ": "Asia/Kathmandu", "LC_ALL": "xx_YY.unknown"}


def descendants(number: int) -> list[int]:
    children = [int(n) for path in Path(f"/proc/{number}/task").glob("*/children") for n in path.read_text().split()]
    return [*children, *(below for child in children for below in descendants(child))]


def status_of(address: str) -> int:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("GET", "/healthz")
        return connection.getresponse().status


@pytest.fixture
def up(folder: Path) -> Iterator[Up]:
    running = Up(folder)
    yield running
    running.close()


def test_two_installations_run_side_by_side_and_ctrl_c_leaves_nothing(up: Up, folder: Path) -> None:
    first = up.wait_until_ready()
    other = Up(folder / "other 另一个")
    try:
        second = other.wait_until_ready()
        assert first != second
        assert status_of(first) == status_of(second) == 200
        other.process.send_signal(signal.SIGINT)
        assert other.process.wait(PATIENCE) == 0
        assert other.all_gone()
        assert status_of(first) == 200
    finally:
        other.close()


def test_a_second_up_in_the_same_folder_names_the_address_and_fails(up: Up) -> None:
    address = up.wait_until_ready()
    again = subprocess.run(
        [sys.executable, "manage.py", "up"],
        cwd=locations.REPOSITORY,
        env=bare_environment(up.folder),
        capture_output=True,
        text=True,
    )
    assert again.returncode == 1
    assert address in again.stderr


def test_kill_9_leaves_no_process_and_the_next_start_is_quick(up: Up) -> None:
    up.wait_until_ready()
    up.process.kill()
    assert up.all_gone()
    again = Up(up.folder)
    try:
        assert status_of(again.wait_until_ready()) == 200
        # 4 s on two quiet cores, and the bar is 10; other tests may have taken both.
        assert again.seconds < 40
    finally:
        again.close()


def test_a_taken_port_is_passed_over(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        running = Up(folder, ARCHWAY_PORT=str(port))
        try:
            address = running.wait_until_ready()
            assert int(address.rstrip("/").rsplit(":", 1)[1]) > port
        finally:
            running.close()


def test_given_servers_are_used_and_none_is_started(folder: Path) -> None:
    names = {name: os.environ[name] for name in ("DATABASE_URL", "REDIS_URL")}
    running = Up(folder, **names)
    try:
        assert status_of(running.wait_until_ready()) == 200
        assert not list(folder.glob("postgres*"))
        assert not (folder / "valkey").exists()
        assert json.loads((folder / "run" / "up.json").read_text())["pid"] == running.process.pid
    finally:
        running.close()
