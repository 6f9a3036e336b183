"""Somebody is taken out of a workspace, and comes back."""

from __future__ import annotations

import pytest

from knowledge import bases
from knowledge.access import visible_bases
from knowledge.models import Grant, Role
from portal.kernel import keys, people
from portal.kernel.errors import Unauthenticated
from portal.kernel.models import ApiKey, AuditEntry, Membership
from tests.support.people import World


def leave(world: World) -> None:
    people.remove_membership(world.principal(world.admin), Membership.objects.get(user=world.bob))


def test_who_comes_back_finds_neither_grants_nor_keys(world: World) -> None:
    bases.grant(world.principal(world.alice), world.base, Role.EDITOR, user=world.bob)
    _, secret = keys.create(world.principal(world.bob), name="k", scopes=["kb:read"])
    leave(world)
    people.set_membership(None, world.workspace, world.bob)
    assert not visible_bases(world.principal(world.bob)).exists()
    with pytest.raises(Unauthenticated):
        keys.authenticate(secret)


def test_the_audit_log_names_each_grant_and_key_that_went(world: World) -> None:
    key, _ = keys.create(world.principal(world.bob), name="k", scopes=["kb:read"])
    leave(world)
    lines = AuditEntry.objects.filter(actor_id=world.admin.pk, workspace=world.workspace)
    assert lines.get(action="key.revoke").detail["prefix"] == key.prefix
    taken = lines.get(action="grant.remove")
    assert taken.base_ids == [world.base.pk] and taken.detail["subject"] == f"user:{world.bob.uid}"


def test_what_somebody_has_in_another_workspace_stays(world: World) -> None:
    people.set_membership(None, world.workspace, world.eve)
    bases.grant(world.principal(world.alice), world.base, Role.VIEWER, user=world.eve)
    elsewhere = world.eves_base.grants.get(user=world.eve)
    key = ApiKey.objects.create(workspace=world.elsewhere, owner=world.eve, name="k", prefix="kb_x", digest="d")
    people.remove_membership(None, Membership.objects.get(user=world.eve, workspace=world.workspace))
    assert list(Grant.objects.filter(user=world.eve)) == [elsewhere]
    key.refresh_from_db()
    assert key.revoked_at is None


def test_a_base_whose_only_manager_leaves_is_left_to_the_admins(world: World) -> None:
    people.remove_membership(None, Membership.objects.get(user=world.alice))
    assert visible_bases(world.principal(world.admin), Role.OWNER).filter(pk=world.base.pk).exists()


def test_when_the_last_admin_may_not_go_nothing_is_taken(world: World) -> None:
    _, secret = keys.create(world.principal(world.admin), name="k", scopes=["kb:read"])
    with pytest.raises(Exception, match="admin"):
        people.remove_membership(None, Membership.objects.get(user=world.admin))
    assert keys.authenticate(secret).revoked_at is None
