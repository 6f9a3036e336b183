"""`manage.py check`: what is set up wrongly, in plain words."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core import checks as django_checks
from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured

from portal.kernel.errors import ArchwayError
from portal.kernel.secrets.sources import keys_at, kind_of
from portal.kernel.secrets.sources.local import keys_in_file

_ENVIRONMENTS = {"development", "production"}


@register()
def environment(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Names with values that make no sense anywhere."""
    found: list[CheckMessage] = []
    if settings.ENVIRONMENT not in _ENVIRONMENTS:
        found.append(
            Error(
                f"ARCHWAY_ENV is {settings.ENVIRONMENT!r}; it must be 'development' or 'production'.", id="archway.E001"
            )
        )
    if settings.ARCHWAY["EMBEDDING_MODE"] not in {"server", "inprocess"}:
        found.append(Error("ARCHWAY_EMBEDDING must be 'server' or 'inprocess'.", id="archway.E002"))
    if settings.ARCHWAY["LOG_FORMAT"] not in {"text", "json"}:
        found.append(Error("ARCHWAY_LOG_FORMAT must be 'text' or 'json'.", id="archway.E003"))
    return found


@register()
def production(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """What ARCHWAY_ENV=production requires."""
    if not settings.PRODUCTION:
        return []
    found: list[CheckMessage] = []

    def require(ok: bool, sentence: str, number: int) -> None:
        if not ok:
            found.append(Error(sentence, id=f"archway.E{number:03d}"))

    require(
        not settings.ARCHWAY["EMBEDDED_DATABASE"],
        "DATABASE_URL is not set; production needs a PostgreSQL 16 or newer with pgvector 0.8 or newer.",
        10,
    )
    require(
        not settings.ARCHWAY["EMBEDDED_REDIS"],
        "REDIS_URL is not set; production needs a Redis 7 or newer, or a Valkey 8 or newer.",
        11,
    )
    require(
        bool(os.environ.get("ARCHWAY_SECRET_KEY", "").strip()),
        "ARCHWAY_SECRET_KEY is not set; production generates no keys of its own.",
        12,
    )
    require(bool(settings.ALLOWED_HOSTS), "ARCHWAY_ALLOWED_HOSTS is empty; list the host names people use.", 13)
    require("*" not in settings.ALLOWED_HOSTS, "ARCHWAY_ALLOWED_HOSTS must not contain '*' in production.", 14)
    require(
        settings.MAIL_CONFIGURED or os.environ.get("ARCHWAY_MAIL_URL", "").strip() == "none",
        "ARCHWAY_MAIL_URL is not set; give a mail server (smtp://user:password@host:port) or the word 'none'.",
        15,
    )
    require(not settings.DEBUG, "ARCHWAY_DEBUG must not be set in production.", 16)
    require(
        settings.ARCHWAY["EMBEDDING_MODE"] != "server" or bool(settings.ARCHWAY["EMBEDDING_TOKEN"]),
        "ARCHWAY_EMBEDDING_TOKEN is not set; the embedding server and its callers share it.",
        21,
    )
    found += _master_key()
    return found


def refuse_misconfiguration() -> None:
    """End the process, saying why, when production lacks what it requires: servers run no checks by themselves."""
    errors = [str(message.msg) for message in environment(None) + production(None) if message.is_serious()]
    if errors:
        raise ImproperlyConfigured("\n".join(errors))


def _master_key() -> list[CheckMessage]:
    kms, file = settings.ARCHWAY["MASTER_KEY_KMS"], settings.ARCHWAY["MASTER_KEY_FILE"]
    if not kms and not file:
        return [
            Error(
                "There is no master key: set ARCHWAY_MASTER_KEY_FILE to a mounted key file outside the data folder "
                "(systemd credential, Kubernetes secret), or ARCHWAY_MASTER_KEY_KMS. A key in the environment alone "
                "is refused in production.",
                id="archway.E017",
            )
        ]
    return (_key_service(kms) if kms else _key_file(Path(file))) + _old_keys()


def _key_service(address: str) -> list[CheckMessage]:
    try:
        keys_at(address)
        if kind_of(address).production:
            return []
        sentence = "ARCHWAY_MASTER_KEY_KMS names a key in the environment, which is refused in production."
    except ArchwayError as error:
        sentence = f"ARCHWAY_MASTER_KEY_KMS: {error}"
    return [Error(sentence, id="archway.E022")]


def _key_file(path: Path) -> list[CheckMessage]:
    if not path.is_file():
        return [Error("ARCHWAY_MASTER_KEY_FILE names a file that does not exist.", id="archway.E018")]
    if path.resolve().is_relative_to(Path(settings.DATA_DIR).resolve()):
        return [
            Error(
                "ARCHWAY_MASTER_KEY_FILE lies inside the data folder, where a backup would take it along; move it out.",
                id="archway.E019",
            )
        ]
    try:
        keys_in_file(path)
    except ArchwayError as error:
        return [Error(f"ARCHWAY_MASTER_KEY_FILE: {error}", id="archway.E023")]
    if path.stat().st_mode & 0o077:
        return [
            django_checks.Warning(
                "ARCHWAY_MASTER_KEY_FILE can be read by other users of this machine.", id="archway.W020"
            )
        ]
    return []


def _old_keys() -> list[CheckMessage]:
    """Keys that only open may be of any kind: a move to production starts with one from the environment."""
    found: list[CheckMessage] = []
    for address in settings.ARCHWAY["MASTER_KEY_OLD"]:
        try:
            keys_at(address)
        except ArchwayError as error:
            found.append(Error(f"ARCHWAY_MASTER_KEY_OLD: {error}", id="archway.E024"))
    return found
