"""Where this checkout keeps its data, its sockets and its generated secrets.

Alone decides the data folder, the socket folder, the secrets file and the addresses of the two
servers. `portal.settings` calls it while Django is not set up yet, so it imports nothing of Django
and does no more than a few file reads.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets as randomness
import socket
import stat
import tempfile
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from urllib.parse import parse_qs, parse_qsl, quote, unquote, urlsplit, urlunsplit

from portal.kernel.errors import Unavailable

REPOSITORY = Path(__file__).resolve().parents[2]

DATABASE_NAME = "archway"
DATABASE_USER = "postgres"
DATABASE_PORT = 5432
POSTGRES_SOCKET = f".s.PGSQL.{DATABASE_PORT}"
VALKEY_SOCKET = "valkey.sock"

# Redis database numbers, counted from the first one of the address.
BROKER, CHANNELS, LIMITS = 0, 1, 2
DATABASES_PER_TENANT = 4

# `sun_path` holds 108 bytes on Linux and 104 on macOS, the closing NUL included.
LONGEST_SOCKET_PATH = 100


@dataclass(frozen=True)
class Secrets:
    """Everything generated at the first start. All are text.

    `master_key` is 32 bytes in URL-safe base64; while it is rotated, the new one, a comma and the old one.
    """

    secret_key: str
    master_key: str
    database_password: str
    redis_password: str
    embedding_token: str


@dataclass(frozen=True)
class RedisLocation:
    """One Redis or Valkey server and the first of the database numbers that belong to us.

    `url` is what redis-py, channels_redis (`hosts[].address`) and Celery understand, without the
    database number: `redis://…`, `rediss://…` or `unix://:password@/quoted/path`.
    """

    url: str
    first_database: int = 0
    embedded: bool = False

    @property
    def password(self) -> str | None:
        password = urlsplit(self.url).password
        return unquote(password) if password else None

    def client_url(self, number: int = LIMITS) -> str:
        """URL of our database `number` (BROKER, CHANNELS or LIMITS), for redis-py and channels_redis."""
        parts = urlsplit(self.url)
        database = self.first_database + number
        if parts.scheme != "unix":
            return urlunsplit(parts._replace(path=f"/{database}"))
        query = "&".join(filter(None, (parts.query, f"db={database}")))
        return urlunsplit(parts._replace(query=query))

    def celery_url(self, number: int = BROKER) -> str:
        """URL of our database `number` in Celery's spelling, which differs for Unix sockets."""
        parts = urlsplit(self.url)
        if parts.scheme != "unix":
            return self.client_url(number)
        database = self.first_database + number
        return urlunsplit(parts._replace(scheme="redis+socket", query=f"virtual_host={database}"))


def data_dir() -> Path:
    """The folder that holds everything this checkout writes: `ARCHWAY_DATA_DIR`, else `var/` beside the code."""
    given = os.environ.get("ARCHWAY_DATA_DIR")
    return Path(given).expanduser().resolve() if given else REPOSITORY / "var"


def log_dir() -> Path:
    return data_dir() / "log"


def embedding_url_file() -> Path:
    """The file in which the local embedding server leaves its address while it runs."""
    return data_dir() / "run" / "embedding.url"


def demo_model_url_file() -> Path:
    """The file in which the demo model leaves its address while it runs."""
    return data_dir() / "run" / "demo-model.url"


def embedding_url() -> str:
    """The local embedding server's address: `ARCHWAY_EMBEDDING_URL`, else what a running `up` left; "" when neither."""
    given = os.environ.get("ARCHWAY_EMBEDDING_URL", "").strip()
    try:
        return given or embedding_url_file().read_text("utf-8").strip()
    except OSError:
        return ""


def sample_logins_file() -> Path:
    """The passwords of the sample people, user name → password, as `manage.py seed` generated them."""
    return data_dir() / "sample-logins.json"


def up_record_file() -> Path:
    """The file in which a running `manage.py up` leaves its process id and address, as JSON."""
    return data_dir() / "run" / "up.json"


def secrets(folder: Path | None = None) -> Secrets:
    """The generated secrets of a data folder, written at the first call (file mode 0600).

    Safe when several processes call it at once. Raises `Unavailable` when the file can not be read.
    """
    folder = folder or data_dir()
    path = folder / "secrets.json"
    found = _read_secrets(path)
    names = {field.name for field in fields(Secrets)}
    if not names <= found.keys():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / "secrets.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Somebody else may have written it while this process waited for the lock.
            found = {**asdict(_fresh_secrets()), **_read_secrets(path)}
            _write_private(path, json.dumps(found, indent=1))
    return Secrets(**{name: found[name] for name in names})


def add_master_key(folder: Path | None = None) -> None:
    """Put a fresh master key before the generated one. Not while one is there already: that rotation goes on first."""

    def add(keys: str) -> str:
        return keys if "," in keys else f"{_fresh_master_key()},{keys}"

    _change_master_key(folder or data_dir(), add)


def drop_old_master_keys(folder: Path | None = None) -> None:
    """Forget all generated master keys but the first; only when nothing is sealed under them."""
    _change_master_key(folder or data_dir(), lambda keys: keys.partition(",")[0])


def _change_master_key(folder: Path, change: Callable[[str], str]) -> None:
    with (folder / "secrets.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = _read_secrets(folder / "secrets.json")
        found["master_key"] = change(found["master_key"])
        _write_private(folder / "secrets.json", json.dumps(found, indent=1))


def run_dir(folder: Path | None = None) -> Path:
    """The folder of the sockets: mode 0700, ours, and short enough for a socket path.

    `<data>/run`, or `archway-<hash>` in the temporary folder when that is too long. The hash covers a
    secret, so that nobody else on the machine can take the name first.
    """
    folder = folder or data_dir()
    # The data folder itself keeps the mode it has: it may be one that other things share.
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    inside = folder / "run"
    if len(os.fsencode(inside / POSTGRES_SOCKET)) <= LONGEST_SOCKET_PATH:
        return private_folder(inside)
    key = f"{folder}\0{secrets(folder).secret_key}".encode()
    return private_folder(_temporary_folder() / f"archway-{hashlib.sha256(key).hexdigest()[:16]}")


def private_folder(path: Path) -> Path:
    """Makes `path` a folder of mode 0700. Raises `Unavailable` when somebody else owns it."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.lstat()
    # Root may use an ordinary user's folder, the other way round is somebody else's trap.
    if os.geteuid() not in (0, found.st_uid) or not stat.S_ISDIR(found.st_mode):
        raise Unavailable("%(path)s belongs to somebody else; choose another ARCHWAY_DATA_DIR.", path=path)
    if stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(0o700)
    return path


def embedded_database(folder: Path | None = None) -> dict[str, object]:
    """The embedded PostgreSQL in the form of an entry of Django's `DATABASES`."""
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": DATABASE_NAME,
        "USER": DATABASE_USER,
        "PASSWORD": secrets(folder).database_password,
        "HOST": str(run_dir(folder)),
        # Given, because PGPORT in the environment would count otherwise.
        "PORT": str(DATABASE_PORT),
    }


def embedded_redis(folder: Path | None = None) -> RedisLocation:
    path = quote(str(run_dir(folder) / VALKEY_SOCKET))
    return RedisLocation(f"unix://:{secrets(folder).redis_password}@{path}", embedded=True)


def database_url(folder: Path | None = None) -> str:
    """The embedded PostgreSQL as a `DATABASE_URL`."""
    return url_of_database(embedded_database(folder))


def url_of_database(parts: Mapping[str, object]) -> str:
    """An entry of Django's `DATABASES` as a `DATABASE_URL`; the opposite of `database_from_url`."""
    account = f"{_quoted(parts['USER'])}:{_quoted(parts['PASSWORD'])}"
    return (
        f"postgresql://{account}@/{_quoted(parts['NAME'])}?host={_quoted(parts['HOST'])}&port={_quoted(parts['PORT'])}"
    )


def redis_url(folder: Path | None = None, first_database: int = 0) -> str:
    """The embedded Valkey as a `REDIS_URL`."""
    return f"{embedded_redis(folder).url}?db={first_database}"


def database_from_url(url: str) -> dict[str, object]:
    """A `DATABASE_URL` in the form of an entry of Django's `DATABASES`.

    `postgresql://user:password@host:port/name?sslmode=require`; a socket folder goes into `?host=/quoted/path`.
    Raises ValueError for another scheme or a missing name.
    """
    parts = urlsplit(url)
    name = unquote(parts.path.lstrip("/"))
    if parts.scheme not in ("postgres", "postgresql") or not name:
        raise ValueError("DATABASE_URL must look like postgresql://user:password@host:5432/name")
    options: dict[str, str] = dict(parse_qsl(parts.query))
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": name,
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": options.pop("host", unquote(parts.hostname or "")),
        "PORT": options.pop("port", str(parts.port or "")),
        "OPTIONS": options,
    }


def redis_from_url(url: str) -> RedisLocation:
    """A `REDIS_URL`: `redis://`, `rediss://` (first database in the path) or `unix://` (in `?db=`).

    Raises ValueError for another scheme.
    """
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    if parts.scheme not in ("redis", "rediss", "unix"):
        raise ValueError(
            "REDIS_URL must look like redis://:password@host:6379/0 or unix://:password@/path/to/socket?db=0"
        )
    rest = "&".join(f"{name}={quote(value)}" for name, values in query.items() if name != "db" for value in values)
    number = query["db"][0] if "db" in query else ("" if parts.scheme == "unix" else parts.path.strip("/"))
    bare = parts._replace(query=rest, path=parts.path if parts.scheme == "unix" else "")
    return RedisLocation(urlunsplit(bare), int(number or 0))


def database(environment: Mapping[str, str] = os.environ) -> dict[str, object]:
    """The database to use: `DATABASE_URL` when given, else the embedded one."""
    url = environment.get("DATABASE_URL")
    return database_from_url(url) if url else embedded_database()


def redis(environment: Mapping[str, str] = os.environ) -> RedisLocation:
    """The Redis to use: `REDIS_URL` when given, else the embedded one."""
    url = environment.get("REDIS_URL")
    return redis_from_url(url) if url else embedded_redis()


def missing_servers(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Names of the *embedded* servers that are needed and do not answer: "PostgreSQL", "Valkey".

    Takes well under a millisecond: one connect to a Unix socket each. Servers given by a URL are not probed.
    """
    wanted = {"DATABASE_URL": ("PostgreSQL", POSTGRES_SOCKET), "REDIS_URL": ("Valkey", VALKEY_SOCKET)}
    return [
        name
        for variable, (name, file) in wanted.items()
        if not environment.get(variable) and not accepts(run_dir() / file)
    ]


def require_servers() -> None:
    """Raises `Unavailable`, with the advice to start them, when an embedded server does not answer."""
    missing = missing_servers()
    if missing:
        raise Unavailable(
            "%(servers)s is not running. Start it with `make up` in another terminal, then try again.",
            code="servers_down",
            servers=" / ".join(missing),
        )


def accepts(path: Path) -> bool:
    """Whether somebody listens on the Unix socket `path`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def _quoted(part: object) -> str:
    return quote(str(part), safe="")


def _fresh_secrets() -> Secrets:
    return Secrets(
        secret_key=randomness.token_urlsafe(48),
        master_key=_fresh_master_key(),
        database_password=randomness.token_urlsafe(24),
        redis_password=randomness.token_urlsafe(24),
        embedding_token=randomness.token_urlsafe(24),
    )


def _fresh_master_key() -> str:
    return urlsafe_b64encode(randomness.token_bytes(32)).decode()


def _read_secrets(path: Path) -> dict[str, str]:
    try:
        text = path.read_text("utf-8")
        found = json.loads(text)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        # Never replaced silently: the databases were made with what stands in it.
        raise Unavailable("%(path)s can not be read: %(reason)s.", path=path, reason=error) from error
    if not isinstance(found, dict):
        raise Unavailable("%(path)s does not hold the generated secrets.", path=path)
    return found


def _write_private(path: Path, text: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)  # mode 0600
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    Path(temporary).replace(path)


def _temporary_folder() -> Path:
    # Not TMPDIR first: `up` and a command run from cron must agree, and their environments differ.
    shared = Path("/tmp")  # noqa: S108
    return shared if os.access(shared, os.W_OK) else Path(tempfile.gettempdir())
