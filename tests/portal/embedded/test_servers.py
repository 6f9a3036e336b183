from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import psycopg
import pytest
import redis

from portal.embedded import locations
from portal.embedded.postgres import Postgres
from portal.embedded.process import Child
from portal.embedded.servers import EmbeddedServers, FolderLock
from portal.kernel.errors import Conflict, Unavailable


def ask(servers: EmbeddedServers, query: str) -> object:
    with servers.postgres.connect(locations.DATABASE_NAME) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def test_the_database_has_vectors_utc_and_chinese_and_german_letters(pair: EmbeddedServers) -> None:
    assert ask(pair, "SELECT '[1,2]'::vector <-> '[1,4]'::vector") == 2.0
    assert ask(pair, "SHOW timezone") == "UTC"
    assert ask(pair, "SELECT lower('ÄÉ') || '数据'") == "äé数据"
    assert ask(pair, "SHOW jit") == "off"
    assert ask(pair, "SHOW listen_addresses") == ""


def test_refused_statements_are_logged_without_their_values(pair: EmbeddedServers) -> None:
    assert ask(pair, "SHOW log_min_error_statement") == "panic"
    assert ask(pair, "SHOW log_error_verbosity") == "terse"


def test_postgres_wants_the_password(pair: EmbeddedServers) -> None:
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(host=str(pair.postgres.socket.parent), port=5432, user="postgres", password="guess")
    assert ask(pair, "SELECT count(*) FROM pg_authid WHERE rolpassword NOT LIKE 'SCRAM-SHA-256%'") == 0


def test_valkey_wants_the_password_and_never_evicts(pair: EmbeddedServers) -> None:
    with pytest.raises(redis.AuthenticationError):
        redis.Redis(unix_socket_path=str(pair.valkey.socket)).ping()
    with redis.Redis.from_url(locations.redis_from_url(pair.redis_url).client_url(60)) as client:
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}


def test_nobody_else_reaches_the_sockets_and_no_port_is_open(pair: EmbeddedServers) -> None:
    assert stat.S_IMODE(pair.postgres.socket.parent.stat().st_mode) == 0o700
    with pair.valkey.connect() as client:
        assert client.config_get("port") == {"port": "0"}


def test_the_password_stands_in_no_process_list(pair: EmbeddedServers) -> None:
    secrets = locations.secrets(pair.folder)
    for child in pair.children.values():
        seen = (
            Path(f"/proc/{child.process.pid}/cmdline").read_bytes()
            + Path(f"/proc/{child.process.pid}/environ").read_bytes()
        )
        assert secrets.database_password.encode() not in seen
        assert secrets.redis_password.encode() not in seen


def test_a_second_pair_in_the_same_folder_is_refused(pair: EmbeddedServers) -> None:
    with pytest.raises(Conflict) as caught:
        EmbeddedServers(pair.folder).__enter__()
    assert caught.value.code == "already_running"


def test_two_pairs_run_side_by_side(pair: EmbeddedServers, folder: Path) -> None:
    with EmbeddedServers(folder, durable=False) as other:
        assert ask(other, "SELECT 1") == ask(pair, "SELECT 1") == 1


@pytest.mark.slow
def test_data_survives_kill_9_of_both_servers(folder: Path) -> None:
    with EmbeddedServers(folder) as servers:
        with servers.postgres.connect(locations.DATABASE_NAME) as connection:
            connection.execute("CREATE TABLE kept AS SELECT generate_series(1, 1000) AS n")
        with servers.valkey.connect() as client:
            client.rpush("queue", "wake up")
            client.config_set("appendfsync", "always")
            client.rpush("queue", "again")
        for child in servers.children.values():
            child.send(signal.SIGKILL)
            assert child.gone.wait(10)
    with EmbeddedServers(folder) as servers:
        assert ask(servers, "SELECT count(*) FROM kept") == 1000
        with servers.valkey.connect() as client:
            assert client.lrange("queue", 0, -1) == [b"wake up", b"again"]


@pytest.mark.slow
def test_a_process_id_taken_by_another_program_does_not_stop_postgres(folder: Path) -> None:
    with EmbeddedServers(folder):
        pass
    # What a power cut leaves, when after the restart the number belongs to somebody else: here, to this test.
    postgres = Postgres(folder)
    for lock in (postgres.data / "postmaster.pid", postgres.socket.with_name(f"{postgres.socket.name}.lock")):
        lock.write_text(f"{os.getpid()}\n{postgres.data}\n")
    with EmbeddedServers(folder) as servers:
        assert ask(servers, "SELECT 1") == 1


@pytest.mark.slow
def test_a_server_that_outlived_its_supervisor_is_ended_first(folder: Path) -> None:
    with EmbeddedServers(folder):
        pass
    postgres = Postgres(folder)
    orphan = Child(postgres.program(), folder / "log")
    postgres.wait_until_ready(orphan)
    with EmbeddedServers(folder) as servers:
        assert not orphan.running
        assert ask(servers, "SELECT 1") == 1


@pytest.mark.slow
def test_a_broken_off_first_start_is_made_anew(folder: Path) -> None:
    half_made = Postgres(folder).data.with_suffix(".new")
    half_made.mkdir(parents=True)
    (half_made / "PG_VERSION").write_text("18\n")
    with EmbeddedServers(folder, durable=False) as servers:
        assert ask(servers, "SELECT 1") == 1


@pytest.mark.slow
def test_secrets_of_another_folder_are_named_as_the_reason(folder: Path) -> None:
    with EmbeddedServers(folder, durable=False):
        pass
    (folder / "secrets.json").unlink()
    with pytest.raises(Unavailable, match=r"secrets\.json"):
        EmbeddedServers(folder, durable=False).__enter__()
    FolderLock(folder).release()  # and the folder is free again


@pytest.mark.slow
def test_the_older_postgres_starts_beside_the_newer_ones_data(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for major in ("18", "16"):
        monkeypatch.setenv("ARCHWAY_POSTGRES_MAJOR", major)
        with EmbeddedServers(folder, durable=False) as servers:
            assert str(ask(servers, "SHOW server_version")).startswith(major)
            assert ask(servers, "SELECT lower('ÄÉ')") == "äé"


@pytest.mark.slow
@pytest.mark.parametrize("locale", ["C", "zh_CN.UTF-8", "xx_YY.unknown"])
def test_an_unusual_locale_and_clock_change_nothing(folder: Path, locale: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", locale)
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    monkeypatch.setenv("PGTZ", "Asia/Kathmandu")
    with EmbeddedServers(folder, durable=False) as servers:
        assert ask(servers, "SELECT lower('ÄÉ')") == "äé"
        assert ask(servers, "SELECT setting FROM pg_settings WHERE name = 'log_timezone'") == "UTC"


@pytest.mark.slow
def test_servers_in_a_folder_too_deep_for_sockets_work_and_stay_private(folder: Path) -> None:
    deep = folder / ("很深" * 20)
    with EmbeddedServers(deep, durable=False) as servers:
        short = servers.postgres.socket.parent
        assert not short.is_relative_to(deep)
        assert stat.S_IMODE(short.stat().st_mode) == 0o700
        assert ask(servers, "SELECT 1") == 1
        with redis.Redis.from_url(locations.redis_from_url(servers.redis_url).client_url()) as client:
            assert client.ping()
    short.rmdir()  # and both sockets are gone
