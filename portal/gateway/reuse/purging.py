"""Emptying the cache of answers: an admin's verb."""

from __future__ import annotations

from redis.exceptions import RedisError

from portal.gateway.reuse import store
from portal.gateway.reuse.scope import prefix_of
from portal.kernel import audit
from portal.kernel.errors import Denied, Invalid, Unavailable
from portal.kernel.models import Workspace
from portal.kernel.principal import Principal, is_workspace_admin


def purge(principal: Principal) -> int:
    """Delete every kept answer of the workspace; returns how many.

    Raises `Denied` (not_admin), `Invalid` (cache_off) and `Unavailable` (cache_away).
    """
    if not is_workspace_admin(principal):
        raise Denied("Only an admin of the workspace can do this.", code="not_admin")
    if not store.switched_on():
        raise Invalid("Answers are not kept for another time in this installation.", code="cache_off")
    try:
        gone = store.purge(prefix_of(principal.workspace_id))
    except (RedisError, OSError):
        raise Unavailable("The store of kept answers does not answer.", code="cache_away") from None
    audit.record(principal, "cache.purge", Workspace.objects.get(pk=principal.workspace_id), answers=gone)
    return gone
