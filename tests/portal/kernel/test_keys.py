"""API keys: what is kept of them, how long they live, and what they can not have."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.serializers import serialize
from django.utils import timezone

from portal.kernel import keys, people
from portal.kernel.errors import Denied, Invalid, Unauthenticated
from portal.kernel.models import ApiKey, AuditEntry
from portal.kernel.principal import for_key
from tests.support.people import World


def test_only_a_hash_of_the_secret_is_kept(world: World) -> None:
    key, secret = keys.create(world.principal(world.alice), name="ci", scopes=["kb:read"])
    assert secret.startswith(key.prefix)
    assert len(secret) - len(key.prefix) >= 30
    everything = serialize("json", [*ApiKey.objects.all(), *AuditEntry.objects.all()])
    assert secret not in everything
    assert secret[len(key.prefix) :] not in everything
    assert keys.authenticate(secret) == key


def test_an_expired_key_is_an_unknown_one(world: World) -> None:
    alice = world.principal(world.alice)
    soon = timezone.now() + timedelta(minutes=1)
    key, secret = keys.create(alice, name="ci", scopes=["kb:read"], expires_at=soon)
    assert keys.authenticate(secret) == key
    ApiKey.objects.filter(pk=key.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    with pytest.raises(Unauthenticated):
        keys.authenticate(secret)


def test_a_key_without_a_wish_lives_ninety_days(world: World) -> None:
    key, _ = keys.create(world.principal(world.alice), name="ci", scopes=["kb:read"])
    assert key.expires_at is not None
    assert timedelta(days=89) < key.expires_at - timezone.now() <= timedelta(days=90)


def test_a_revoked_key_ends_at_once_and_open_doors_are_told(world: World) -> None:
    alice = world.principal(world.alice)
    key, secret = keys.create(alice, name="ci", scopes=["kb:read"])
    world.workspace.refresh_from_db()
    before = world.workspace.acl_version
    keys.revoke(alice, key)
    keys.revoke(alice, key)
    with pytest.raises(Unauthenticated):
        keys.authenticate(secret)
    world.workspace.refresh_from_db()
    assert world.workspace.acl_version == before + 1
    assert AuditEntry.objects.filter(action="key.revoke", object_id=key.uid).count() == 1


@pytest.mark.parametrize("secret", ["", "kb_", "kb_unknown", "kb_" + "x" * 10_000, "kb_\x00", "kb_钥匙"])
def test_what_is_no_key_is_unauthenticated(world: World, secret: str) -> None:
    with pytest.raises(Unauthenticated):
        keys.authenticate(secret)


def test_a_key_dies_with_its_owners_membership_and_account(world: World) -> None:
    _, secret = keys.create(world.principal(world.bob), name="ci", scopes=["kb:read"])
    people.set_active(None, world.bob, False)
    with pytest.raises(Unauthenticated):
        for_key(keys.authenticate(secret))
    people.set_active(None, world.bob, True)
    assert for_key(keys.authenticate(secret)).user_id == world.bob.pk
    people.remove_membership(None, world.bob.memberships.get())
    with pytest.raises(Unauthenticated):
        for_key(keys.authenticate(secret))


def test_a_key_makes_no_stronger_key(world: World) -> None:
    key, _ = keys.create(world.principal(world.alice), name="weak", scopes=["kb:read"], base_ids=[world.base.pk])
    weak = for_key(key)
    with pytest.raises(Denied):
        keys.create(weak, name="strong", scopes=["kb:read", "kb:write"])
    child, _ = keys.create(weak, name="child", scopes=["kb:read"])
    assert child.base_ids == [world.base.pk]
    other, _ = keys.create(weak, name="other", scopes=["kb:read"], base_ids=[world.base.pk + 1])
    assert other.base_ids == []


def test_only_an_admin_gives_the_scope_admin_and_loses_it_with_the_role(world: World) -> None:
    with pytest.raises(Denied):
        keys.create(world.principal(world.alice), name="x", scopes=["admin"])
    key, secret = keys.create(world.principal(world.admin), name="x", scopes=["admin", "kb:read"])
    assert "admin" in for_key(key).scopes
    people.set_membership(None, world.workspace, world.alice, role=world.admin.memberships.get().Role.ADMIN)
    people.set_membership(None, world.workspace, world.admin)
    assert for_key(keys.authenticate(secret)).scopes == {"kb:read"}


@pytest.mark.parametrize(("scopes", "code"), [([], "scope_empty"), (["kb:everything"], "scope_unknown")])
def test_scopes_must_be_known_and_at_least_one(world: World, scopes: list[str], code: str) -> None:
    with pytest.raises(Invalid) as caught:
        keys.create(world.principal(world.alice), name="x", scopes=scopes)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("authorization", "api_key", "secret"),
    [
        ("Bearer kb_1", "", "kb_1"),
        ("bearer  kb_1 ", "", "kb_1"),
        ("", " kb_2 ", "kb_2"),
        ("Bearer kb_1", "kb_2", "kb_1"),
        ("Basic abc", "", None),
        ("Bearer ", "", None),
        ("", "", None),
    ],
)
def test_both_headers_carry_a_key(authorization: str, api_key: str, secret: str | None) -> None:
    assert keys.secret_from_headers(authorization, api_key) == secret


def test_a_key_made_by_a_key_ends_no_later_and_asks_no_faster(world: World) -> None:
    soon = timezone.now() + timedelta(hours=1)
    maker, _ = keys.create(
        world.principal(world.alice), name="maker", scopes=["kb:read"], expires_at=soon, per_minute=5
    )
    child, _ = keys.create(for_key(maker), name="child", scopes=["kb:read"], per_minute=500)
    assert (child.expires_at, child.per_minute) == (soon, 5)
