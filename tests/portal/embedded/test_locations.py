from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from portal.embedded import locations
from portal.kernel.errors import Unavailable


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_secrets_are_generated_once_and_private(folder: Path) -> None:
    first = locations.secrets(folder)
    assert locations.secrets(folder) == first
    assert mode(folder / "secrets.json") == 0o600
    assert len({*vars(first).values()}) == len(vars(first))


def test_eight_processes_that_start_at_once_agree_on_the_secrets(folder: Path) -> None:
    # All wait for a line on standard input, so that they run into the missing file together.
    program = (
        "import sys; from pathlib import Path; from portal.embedded import locations; print('ready', flush=True);"
        "sys.stdin.readline(); print(locations.secrets(Path(sys.argv[1])).secret_key)"
    )
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=locations.REPOSITORY,
        )
        for _ in range(8)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    assert {racer.communicate()[0].strip() for racer in racers} == {locations.secrets(folder).secret_key}


def test_a_secret_that_a_newer_version_needs_is_added_and_the_others_stay(folder: Path) -> None:
    path = folder / "secrets.json"
    before = locations.secrets(folder)
    kept = json.loads(path.read_text())
    del kept["embedding_token"]
    path.write_text(json.dumps(kept))
    after = locations.secrets(folder)
    assert after.database_password == before.database_password
    assert after.embedding_token not in ("", before.embedding_token)


def test_a_damaged_secrets_file_is_reported_and_never_replaced(folder: Path) -> None:
    (folder / "secrets.json").write_text("{")
    with pytest.raises(Unavailable, match=r"secrets\.json"):
        locations.secrets(folder)
    assert (folder / "secrets.json").read_text() == "{"


def test_sockets_live_in_a_private_folder_inside_the_data(folder: Path) -> None:
    assert locations.run_dir(folder) == folder / "run"
    assert mode(folder / "run") == 0o700


def test_sockets_of_a_long_path_move_to_a_short_private_folder(folder: Path) -> None:
    # 25 letters, but 75 bytes: it is bytes that a socket path runs out of.
    long = folder / ("很" * 25)
    found = locations.run_dir(long)
    try:
        assert len(os.fsencode(found / locations.POSTGRES_SOCKET)) <= locations.LONGEST_SOCKET_PATH
        assert mode(found) == 0o700
        assert locations.run_dir(long) == found
    finally:
        found.rmdir()


def test_a_socket_folder_that_lets_others_in_is_closed(folder: Path) -> None:
    (folder / "run").mkdir(mode=0o777)
    (folder / "run").chmod(0o777)
    locations.run_dir(folder)
    assert mode(folder / "run") == 0o700


def test_a_socket_folder_that_is_a_link_is_refused(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    (folder / "run").symlink_to(folder / "elsewhere")
    with pytest.raises(Unavailable):
        locations.run_dir(folder)


def test_the_embedded_database_survives_the_way_through_a_url(folder: Path) -> None:
    parts = locations.embedded_database(folder)
    assert locations.database_from_url(locations.database_url(folder)) == {**parts, "OPTIONS": {}}


@pytest.mark.parametrize(
    ("url", "client", "celery"),
    [
        ("redis://:p%40ss@h:6379/4", "redis://:p%40ss@h:6379/5", "redis://:p%40ss@h:6379/5"),
        ("rediss://h/", "rediss://h/1", "rediss://h/1"),
        (
            "unix://:pw@/a%20b/v.sock?db=8",
            "unix://:pw@/a%20b/v.sock?db=9",
            "redis+socket://:pw@/a%20b/v.sock?virtual_host=9",
        ),
    ],
)
def test_a_redis_url_is_counted_from_its_own_database(url: str, client: str, celery: str) -> None:
    location = locations.redis_from_url(url)
    assert location.client_url(1) == client
    assert location.celery_url(1) == celery


@pytest.mark.parametrize("url", ["mysql://h/x", "postgresql://h", "postgresql://h/"])
def test_a_database_url_of_another_shape_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="DATABASE_URL"):
        locations.database_from_url(url)


def test_servers_that_do_not_run_are_named_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHWAY_DATA_DIR", str(folder))
    monkeypatch.delenv("DATABASE_URL")
    monkeypatch.delenv("REDIS_URL")
    assert locations.missing_servers() == ["PostgreSQL", "Valkey"]
    with pytest.raises(Unavailable, match="make up"):
        locations.require_servers()
    monkeypatch.setenv("DATABASE_URL", "postgresql://h/x")
    assert locations.missing_servers() == ["Valkey"]


def test_locations_needs_no_django() -> None:
    code = "import sys, portal.embedded.locations; print('django' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=locations.REPOSITORY)
    assert done.stdout == "False\n"
