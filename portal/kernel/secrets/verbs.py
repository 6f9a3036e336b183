"""What people do with credentials: give a secret, give another, seal anew, revoke. None of it gives one back."""

from __future__ import annotations

import hashlib
import hmac
from datetime import datetime

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from portal.kernel import audit
from portal.kernel.errors import Conflict, Denied, Invalid
from portal.kernel.models import Credential, User
from portal.kernel.principal import Principal, is_workspace_admin
from portal.kernel.secrets import rows
from portal.kernel.secrets.hosts import host_of

LONGEST = 16_384
# A shorter secret is guessed too easily from its end.
_LEAST_FOR_HINT = 16
_SEALS = ("ciphertext", "wrapped_key")


def is_installation_admin(principal: Principal) -> bool:
    """Whether the asker runs the installation, with a key that allows it."""
    return (
        principal.has("admin") and User.objects.filter(pk=principal.user_id, is_superuser=True, is_active=True).exists()
    )


def visible_credentials(principal: Principal) -> QuerySet[Credential]:
    """What the asker may list and change: their workspace's for its admins, the installation's for the operator.

    The sealed bytes stay in the database.
    """
    seen = Q(pk__in=[])
    if is_workspace_admin(principal):
        seen |= Q(workspace_id=principal.workspace_id)
    if is_installation_admin(principal):
        seen |= Q(workspace__isnull=True)
    return Credential.objects.filter(seen).defer(*_SEALS)


def require_scope(principal: Principal | None, workspace_id: int | None) -> None:
    """Raise `Denied` (not_admin, operator_only) when the asker may not keep credentials there. None: the shell."""
    if principal is None or is_installation_admin(principal):
        return
    if workspace_id is None:
        raise Denied("Credentials of the whole installation are the operator's.", code="operator_only")
    if workspace_id != principal.workspace_id or not is_workspace_admin(principal):
        raise Denied("Only an admin of the workspace can do this.", code="not_admin")


@transaction.atomic
def create(
    principal: Principal | None,
    *,
    name: str,
    value: str,
    host: str,
    workspace_id: int | None,
    expires_at: datetime | None = None,
) -> Credential:
    """Seal a secret for a host (a URL or `host[:port]`); `workspace_id` None makes it the installation's.

    Raises `Invalid` (secret_invalid, host_invalid, name_empty), `Conflict` (name_taken), `Denied` and what
    the master key's source raises.
    """
    require_scope(principal, workspace_id)
    name = name.strip()[:100]
    if not name:
        raise Invalid("Give the credential a name.", code="name_empty")
    row = Credential(
        workspace_id=workspace_id,
        name=name,
        host=host_of(host),
        expires_at=expires_at,
        created_by_id=principal.user_id if principal else None,
    )
    _fill(row, value)
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        raise Conflict("A credential named %(name)s is there already.", code="name_taken", name=name) from None
    audit.record(principal, "credential.create", row, workspace_id=workspace_id, name=row.name, host=row.host)
    return row


@transaction.atomic
def replace(
    principal: Principal | None,
    credential: Credential,
    value: str,
    *,
    host: str = "",
    expires_at: datetime | None = None,
) -> Credential:
    """Give a credential another secret, perhaps for another host. A revoked one comes back to life with it.

    Raises as `create`.
    """
    require_scope(principal, credential.workspace_id)
    row = Credential.objects.select_for_update().get(pk=credential.pk)
    before = row.host
    row.host = host_of(host) if host else row.host
    _fill(row, value)
    row.expires_at, row.revoked_at, row.exposed_at, row.warned_days = expires_at, None, None, None
    row.save()
    audit.record(
        principal, "credential.replace", row, workspace_id=row.workspace_id, name=row.name, host=row.host, before=before
    )
    return row


def reseal(principal: Principal | None, credential: Credential) -> Credential:
    """Seal the same secret anew, under a fresh data key and today's master key.

    Raises as `rows.take`, and `Conflict` (credential_moved) when it got another secret meanwhile.
    """
    require_scope(principal, credential.workspace_id)
    row = Credential.objects.get(pk=credential.pk)
    before = row.key_id
    with transaction.atomic():
        if not rows.reseal(row):
            raise Conflict("This credential has changed meanwhile; look at it again.", code="credential_moved")
        audit.record(
            principal,
            "credential.reseal",
            row,
            workspace_id=row.workspace_id,
            name=row.name,
            before=before,
            after=row.key_id,
        )
    return row


@transaction.atomic
def revoke(principal: Principal | None, credential: Credential) -> None:
    """End a credential and destroy what was sealed; revoking twice is no error."""
    require_scope(principal, credential.workspace_id)
    moved = Credential.objects.filter(pk=credential.pk, revoked_at__isnull=True).update(
        revoked_at=timezone.now(), ciphertext=b"", wrapped_key=b"", key_id="", health=""
    )
    if moved:
        audit.record(
            principal, "credential.revoke", credential, workspace_id=credential.workspace_id, name=credential.name
        )


@transaction.atomic
def describe(principal: Principal | None, credential: Credential, *, name: str, expires_at: datetime | None) -> None:
    """Change what is not secret. Raises `Invalid` (name_empty) and `Conflict` (name_taken)."""
    require_scope(principal, credential.workspace_id)
    name = name.strip()[:100]
    if not name:
        raise Invalid("Give the credential a name.", code="name_empty")
    try:
        with transaction.atomic():
            Credential.objects.filter(pk=credential.pk).update(name=name, expires_at=expires_at, warned_days=None)
    except IntegrityError:
        raise Conflict("A credential named %(name)s is there already.", code="name_taken", name=name) from None
    audit.record(
        principal,
        "credential.change",
        credential,
        workspace_id=credential.workspace_id,
        name=name,
        expires_at=expires_at.isoformat() if expires_at else None,
    )


@transaction.atomic
def mark_exposed(principal: Principal | None, credential: Credential) -> None:
    """Note that strangers may know the value: it stays on the list of those to replace at their providers."""
    require_scope(principal, credential.workspace_id)
    moved = Credential.objects.filter(pk=credential.pk, revoked_at__isnull=True, exposed_at__isnull=True).update(
        exposed_at=timezone.now()
    )
    if moved:
        audit.record(
            principal, "credential.expose", credential, workspace_id=credential.workspace_id, name=credential.name
        )


def change(
    principal: Principal | None,
    credential: Credential,
    *,
    name: str | None = None,
    value: str = "",
    host: str = "",
    expires_at: datetime | None = None,
) -> Credential:
    """What a form does: describe, and replace when there is a new secret. Another host wants the secret again.

    Raises `Invalid` (secret_needed) besides what the two raise.
    """
    if host and not value and host_of(host) != credential.host:
        raise Invalid("Give the secret again: it goes only to the host that it was given for.", code="secret_needed")
    with transaction.atomic():
        describe(principal, credential, name=credential.name if name is None else name, expires_at=expires_at)
        if value:
            return replace(principal, credential, value, host=host, expires_at=expires_at)
    credential.refresh_from_db()
    return credential


def _fill(row: Credential, value: str) -> None:
    value = value.strip()
    if not value or len(value) > LONGEST or any(map(_never_in_a_secret, value)):
        raise Invalid("Give a secret of at most 16,384 characters, without control characters.", code="secret_invalid")
    rows.put(row, value)
    row.hint = value[-4:] if len(value) >= _LEAST_FOR_HINT else ""
    row.fingerprint = fingerprint_of(value)
    row.replaced_at = row.sealed_at
    row.health, row.checked_at = Credential.Health.GOOD, row.sealed_at


def _never_in_a_secret(ch: str) -> bool:
    """Control characters, half characters, and the mark that a door of JSON puts in place of a half character."""
    return (ord(ch) < 32 and ch not in "\t\r\n") or ch == "\ufffd" or "\ud800" <= ch <= "\udfff"


def fingerprint_of(value: str) -> str:
    """A keyed print of a secret: two rows with the same one hold the same secret, and it gives nothing to guess by."""
    key = hmac.new(settings.SECRET_KEY.encode(), b"credential fingerprint", hashlib.sha256).digest()
    return hmac.new(key, value.encode(), hashlib.sha256).hexdigest()[:12]
