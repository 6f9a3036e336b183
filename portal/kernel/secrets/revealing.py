"""From a reference to the secret itself: for one host, for one purpose, and never without a line in the audit log."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from portal.kernel import audit
from portal.kernel.errors import ArchwayError, Invalid
from portal.kernel.models import Credential
from portal.kernel.principal import Principal
from portal.kernel.secret_value import Secret
from portal.kernel.secrets import rows
from portal.kernel.secrets.hosts import host_of

logger = logging.getLogger(__name__)

SEALED, ENVIRONMENT = "credential://", "env://"
_USE_NOTED_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class _Found:
    """Whose secret it is, and what is behind it."""

    name: str
    row: Credential | None = None


def reveal(
    reference: str,
    *,
    host: str,
    purpose: str,
    workspace_id: int | None = None,
    principal: Principal | None = None,
) -> Secret:
    """The secret that a row's reference names, for a call to `host`; an empty `Secret` for an empty reference.

    `reference` is `credential://UUID` or `env://NAME`. `host` is the URL that will be called, or `host[:port]`.
    `purpose` is dotted, such as `chat.call`, and stands in the audit log. `workspace_id` is that of the row that
    holds the reference (None: the installation's): a credential serves rows of its own workspace only.

    The line in the audit log is committed before this returns, so it must not be called inside a transaction
    that could take it back (`RuntimeError`).

    Raises `Invalid`: credential_unknown, credential_revoked, credential_expired, credential_host_mismatch,
    credential_unreadable, credential_not_listed, credential_missing, master_key_unknown, master_key_refused;
    `Unavailable`: master_key_unavailable.
    """
    if not reference:
        return Secret("")
    target = host_of(host)
    with transaction.atomic(durable=True):
        pass  # refuses at once to work where the audit log could be rolled back
    try:
        found = _usable(reference, target, workspace_id)
        value, asked = _value(found)
    except ArchwayError as error:
        _note_refusal(reference, target, purpose, workspace_id, principal, error.code)
        raise
    with transaction.atomic(durable=True):
        audit.record(
            principal,
            "credential.reveal",
            found.row,
            workspace_id=workspace_id,
            name=found.name,
            host=target,
            purpose=purpose,
            key_service=asked,
        )
        if found.row is not None:
            now = timezone.now()
            stale = Q(last_used_at__isnull=True) | Q(last_used_at__lt=now - _USE_NOTED_EVERY)
            Credential.objects.filter(stale, pk=found.row.pk).update(last_used_at=now)
    return Secret(value)


def require_usable(reference: str, *, host: str, workspace_id: int | None = None) -> None:
    """Raise as `reveal` does when the reference would not serve this host; opens nothing.

    For forms: an endpoint whose base URL moves to another host must be given its secret again.
    """
    if reference:
        _usable(reference, host_of(host), workspace_id)


def _usable(reference: str, host: str, workspace_id: int | None) -> _Found:
    if reference.startswith(SEALED):
        return _sealed(reference.removeprefix(SEALED), host, workspace_id)
    if reference.startswith(ENVIRONMENT):
        return _environment(reference.removeprefix(ENVIRONMENT), host, workspace_id)
    raise Invalid("A credential looks like credential://… or env://NAME.", code="credential_unknown")


def _sealed(name: str, host: str, workspace_id: int | None) -> _Found:
    try:
        row = Credential.objects.filter(pk=UUID(name)).first()
    except ValueError:
        row = None
    if row is None or row.workspace_id != workspace_id:
        raise Invalid("There is no such credential.", code="credential_unknown")
    if row.state == Credential.State.REVOKED:
        raise Invalid("The credential %(name)s was revoked.", code="credential_revoked", name=row.name)
    if row.state == Credential.State.EXPIRED:
        raise Invalid("The credential %(name)s has expired.", code="credential_expired", name=row.name)
    _require_host(row.name, row.host, host)
    return _Found(row.name, row)


def _environment(name: str, host: str, workspace_id: int | None) -> _Found:
    """Names as the operator listed them: `NAME@host` for everybody's endpoints, `NAME` for the installation's only.

    Without a host, whoever may edit an endpoint could send the variable to a host of their choice.
    """
    listed = [entry.partition("@") for entry in settings.ARCHWAY["ENV_CREDENTIALS"]]
    bound = [place for entry, _, place in listed if entry == name]
    if not bound:
        raise Invalid(
            "The operator has not listed %(name)s in ARCHWAY_ENV_CREDENTIALS.", code="credential_not_listed", name=name
        )
    if "" in bound and workspace_id is None:
        return _Found(name)
    places = [host_of(place) for place in bound if place]
    if not places:
        raise Invalid(
            "%(name)s is for shared endpoints only; the operator can list it as %(name)s@host.",
            code="credential_not_allowed",
            name=name,
        )
    _require_host(name, host if host in places else places[0], host)
    return _Found(name)


def _require_host(name: str, bound: str, host: str) -> None:
    if bound != host:
        raise Invalid(
            "The credential %(name)s was given for %(bound)s, not for %(host)s; give the secret again for that host.",
            code="credential_host_mismatch",
            name=name,
            bound=bound,
            host=host,
        )


def _value(found: _Found) -> tuple[str, bool]:
    if found.row is not None:
        return rows.take(found.row)
    value = os.environ.get(found.name, "").strip()
    if not value:
        raise Invalid("The variable %(name)s is not set.", code="credential_missing", name=found.name)
    return value, False


def _note_refusal(
    reference: str, host: str, purpose: str, workspace_id: int | None, principal: Principal | None, code: str
) -> None:
    """A refused reveal is worth more to whoever watches than a hundred granted ones."""
    # What is no reference may be a secret in the wrong field.
    known = reference.startswith((SEALED, ENVIRONMENT))
    with transaction.atomic(durable=True):
        audit.record(
            principal,
            "credential.refused",
            workspace_id=workspace_id,
            reference=reference[:210] if known else "",
            host=host,
            purpose=purpose,
            code=code,
        )
    logger.warning("a credential was not revealed: %s (%s)", code, purpose)
