"""API keys: made, checked, revoked. The secret is shown once; a keyed hash of it is kept."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Collection
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from portal.kernel import audit
from portal.kernel.errors import Denied, Invalid, Unauthenticated
from portal.kernel.models import ApiKey, User, Workspace, bump_acl
from portal.kernel.principal import ALL_SCOPES, Principal, is_workspace_admin

PREFIX = "kb_"
DEFAULT_LIFE = timedelta(days=90)


def _digest(secret: str) -> str:
    return hmac.new(settings.SECRET_KEY.encode(), secret.encode(), hashlib.sha256).hexdigest()


def visible_keys(principal: Principal) -> Q:
    """The filter for the keys that the asker may list and revoke: their own, or all when workspace admin."""
    own = Q(workspace_id=principal.workspace_id)
    return own if is_workspace_admin(principal) else own & Q(owner_id=principal.user_id)


@transaction.atomic
def create(
    principal: Principal,
    *,
    name: str,
    scopes: Collection[str],
    base_ids: Collection[int] | None = None,
    expires_at: datetime | None = None,
    per_minute: int = 120,
) -> tuple[ApiKey, str]:
    """Make a key for the asker and return it with its secret, which can not be read again.

    `base_ids` must be bases that the asker sees: the caller takes them from `visible_bases`. Raises
    `Denied` when a key asks for more scopes than the key that makes it, or for `admin` without being one.
    A key made by a key ends no later and asks no faster.
    """
    unknown = sorted(set(scopes) - ALL_SCOPES)
    if unknown:
        raise Invalid("There is no scope named %(scope)s.", code="scope_unknown", scope=unknown[0])
    if not scopes:
        raise Invalid("Choose at least one scope.", code="scope_empty")
    if not set(scopes) <= principal.scopes or ("admin" in scopes and not is_workspace_admin(principal)):
        raise Denied("A key can not have more rights than the person or key that makes it.", code="scope_too_wide")
    if principal.base_ids is not None:
        base_ids = principal.base_ids if base_ids is None else set(base_ids) & principal.base_ids
    expires_at = expires_at or timezone.now() + DEFAULT_LIFE
    if principal.key_id is not None:
        maker = ApiKey.objects.get(pk=principal.key_id)
        expires_at = min(expires_at, maker.expires_at or expires_at)
        per_minute = min(per_minute, maker.per_minute)
    secret = PREFIX + secrets.token_urlsafe(32)
    key = ApiKey.objects.create(
        workspace_id=principal.workspace_id,
        owner_id=principal.user_id,
        name=name.strip() or "key",
        prefix=secret[:10],
        digest=_digest(secret),
        scopes=sorted(scopes),
        base_ids=None if base_ids is None else sorted(base_ids),
        expires_at=expires_at,
        per_minute=per_minute,
    )
    audit.record(principal, "key.create", key, prefix=key.prefix, scopes=key.scopes)
    return key, secret


@transaction.atomic
def revoke(principal: Principal, key: ApiKey) -> None:
    """Make a key useless from the next request on; revoking twice is no error."""
    if ApiKey.objects.filter(pk=key.pk, revoked_at__isnull=True).update(revoked_at=timezone.now()):
        audit.record(principal, "key.revoke", key, prefix=key.prefix)
        bump_acl(key.workspace_id)


def revoke_all(principal: Principal | None, workspace: Workspace, owner: User) -> None:
    """Revoke every key of a person in a workspace, in the caller's transaction; a line in the audit log each."""
    for key in ApiKey.objects.select_for_update().filter(workspace=workspace, owner=owner, revoked_at__isnull=True):
        ApiKey.objects.filter(pk=key.pk).update(revoked_at=timezone.now())
        audit.record(principal, "key.revoke", key, workspace_id=workspace.pk, prefix=key.prefix)


def authenticate(secret: str) -> ApiKey:
    """The live key with this secret, or `Unauthenticated`. Notes the last use at most once a minute."""
    now = timezone.now()
    key = (
        ApiKey.objects.select_related("owner", "workspace")
        .filter(digest=_digest(secret), revoked_at__isnull=True)
        .filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now))
        .first()
    )
    if key is None:
        raise Unauthenticated("The key is unknown, expired or revoked.", code="key_invalid")
    if key.last_used_at is None or now - key.last_used_at > timedelta(minutes=1):
        ApiKey.objects.filter(pk=key.pk).update(last_used_at=now)
    return key


def secret_from_headers(authorization: str, api_key: str) -> str | None:
    """The secret in `Authorization: Bearer …` or `X-API-Key: …`, if either is there."""
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == "bearer" and value.strip():
        return value.strip()
    return api_key.strip() or None
