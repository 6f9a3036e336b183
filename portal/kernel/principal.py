"""Who is asking: the frozen value that every door builds from an authenticated source, and nothing else.

Tasks carry ids, never a principal; a worker rebuilds it (`for_user`) and so sees revocation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from portal.kernel.errors import Denied, Unauthenticated
from portal.kernel.models import ApiKey, Membership, User

Door = Literal["web", "api_key", "jwt", "im", "mcp", "worker", "command"]

SCOPES = (
    "kb:read",
    "kb:write",
    "kb:manage",
    "chat",
    "runs",
    "mcp",
    "experience",
    "tools:write",
    "tools:high-risk",
    "admin",
)
ALL_SCOPES = frozenset(SCOPES)


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated asker in one workspace.

    `base_ids` narrows to some knowledge bases (None: no narrowing); `channel` is the IM channel a
    message came through, which may hold grants of its own.
    """

    user_id: int
    workspace_id: int
    door: Door
    scopes: frozenset[str] = ALL_SCOPES
    base_ids: frozenset[int] | None = None
    key_id: int | None = None
    channel: str = ""

    def has(self, *scopes: str) -> bool:
        """True when at least one of `scopes` is held."""
        return not self.scopes.isdisjoint(scopes)

    def require(self, *scopes: str) -> None:
        """Raise `Denied` unless at least one of `scopes` is held."""
        if not self.has(*scopes):
            raise Denied("This key lacks the scope %(scope)s.", code="scope_missing", scope=scopes[0])

    def narrowed(self, base_ids: frozenset[int]) -> Principal:
        """The same asker, seeing at most `base_ids`; narrowing never widens."""
        kept = base_ids if self.base_ids is None else self.base_ids & base_ids
        return replace(self, base_ids=kept)


def for_user(user: User, *, door: Door, workspace_uid: str | None = None) -> Principal:
    """The principal of a signed-in person, in the named workspace or their first one.

    Raises `Unauthenticated` when the person is inactive and `Denied` when they belong to no workspace.
    """
    if not user.is_active:
        raise Unauthenticated("This account is not active.", code="account_inactive")
    memberships = Membership.objects.filter(user=user).order_by("id")
    chosen = None
    if workspace_uid:
        chosen = memberships.filter(workspace__uid=workspace_uid).first()
    chosen = chosen or memberships.first()
    if chosen is None:
        raise Denied("You do not belong to a workspace yet; ask an admin to add you.", code="no_workspace")
    return Principal(user_id=user.pk, workspace_id=chosen.workspace_id, door=door)


def for_worker(user_id: int, workspace_id: int) -> Principal:
    """The principal on whose behalf a task works; raises `Denied` when the person has left meanwhile."""
    if not Membership.objects.filter(user_id=user_id, workspace_id=workspace_id, user__is_active=True).exists():
        raise Denied("The person who asked for this no longer belongs to the workspace.", code="left_workspace")
    return Principal(user_id=user_id, workspace_id=workspace_id, door="worker")


def for_nobody(workspace_id: int) -> Principal:
    """Work for a workspace when whoever began it has left: it sees nothing, and the workspace pays."""
    return Principal(user_id=0, workspace_id=workspace_id, door="worker", scopes=frozenset())


def on_behalf_of(user_id: int | None, workspace_id: int) -> Principal:
    """Whoever began a task's work; nobody (`for_nobody`) when they have left."""
    try:
        return for_worker(user_id or 0, workspace_id)
    except Denied:
        return for_nobody(workspace_id)


def for_key(key: ApiKey, *, door: Door = "api_key") -> Principal:
    """The principal of an API key: its scopes, cut to its owner's rights by `knowledge/access.py`."""
    scopes = frozenset(key.scopes) & ALL_SCOPES
    role = Membership.objects.filter(user=key.owner, workspace=key.workspace).values_list("role", flat=True).first()
    if role is None or not key.owner.is_active:
        raise Unauthenticated("The key is unknown, expired or revoked.", code="key_invalid")
    if role != Membership.Role.ADMIN:
        scopes -= {"admin"}
    return Principal(
        user_id=key.owner_id,
        workspace_id=key.workspace_id,
        door=door,
        scopes=scopes,
        base_ids=None if key.base_ids is None else frozenset(key.base_ids),
        key_id=key.pk,
    )


def is_workspace_admin(principal: Principal) -> bool:
    """Whether the asker is an active admin of the workspace, with a key that allows it."""
    return (
        principal.has("admin")
        and Membership.objects.filter(
            user_id=principal.user_id,
            workspace_id=principal.workspace_id,
            role=Membership.Role.ADMIN,
            user__is_active=True,
        ).exists()
    )
