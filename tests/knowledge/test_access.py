"""Who may see what: roles, departments, narrowing, revocation."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from knowledge import bases
from knowledge.access import (
    access_base,
    access_document,
    all_visible,
    visible_bases,
    visible_chunks,
    visible_documents,
    with_role,
)
from knowledge.models import Document, Grant, Role
from portal.kernel import people
from portal.kernel.errors import Conflict, Denied, Invalid, NotFound
from portal.kernel.models import AuditEntry, Membership, Notification
from tests.support.people import World


def names(world: World, user: object) -> list[str]:
    return [base.name for base in visible_bases(world.principal(user))]  # type: ignore[arg-type]


def test_owner_and_viewer_see_the_base_and_strangers_do_not(world: World) -> None:
    assert names(world, world.alice) == ["Handbook"]
    assert names(world, world.bob) == ["Handbook"]
    assert names(world, world.mallory) == []
    assert names(world, world.eve) == ["Eve's"]


def test_stranger_gets_the_same_error_as_for_a_missing_base(world: World) -> None:
    errors = []
    for uid in (world.base.uid, "nonexistent00000"):
        with pytest.raises(NotFound) as caught:
            access_base(world.principal(world.mallory), uid)
        errors.append((caught.value.code, caught.value.sentence()))
    assert errors[0] == errors[1]


def test_viewer_is_denied_what_needs_a_larger_role(world: World) -> None:
    with pytest.raises(Denied):
        access_base(world.principal(world.bob), world.base.uid, Role.EDITOR)


def test_a_grant_to_a_department_reaches_the_departments_below_it(world: World) -> None:
    alice = world.principal(world.alice)
    base = bases.create(alice, name="Company rules")
    bases.grant(alice, base, Role.EDITOR, department=world.company)
    bob = world.principal(world.bob)
    assert with_role(bob, visible_bases(bob)).get(pk=base.pk).my_role == Role.EDITOR  # type: ignore[attr-defined]
    assert base not in visible_bases(world.principal(world.mallory))


def test_a_department_moved_away_loses_what_came_from_above(world: World) -> None:
    alice = world.principal(world.alice)
    base = bases.create(alice, name="Company rules")
    bases.grant(alice, base, Role.VIEWER, department=world.company)
    people.move_department(None, world.sales, None)
    assert base not in visible_bases(world.principal(world.bob))


def test_the_highest_role_counts(world: World) -> None:
    alice, bob = world.principal(world.alice), world.principal(world.bob)
    bases.grant(alice, world.base, Role.OWNER, department=world.sales)
    assert access_base(bob, world.base.uid, Role.OWNER).pk == world.base.pk


def test_admin_owns_ordinary_bases_and_not_sensitive_ones(world: World) -> None:
    admin = world.principal(world.admin)
    assert access_base(admin, world.base.uid, Role.OWNER)
    bases.describe(world.principal(world.alice), world.base, sensitive=True)
    with pytest.raises(NotFound):
        access_base(admin, world.base.uid)


def test_break_glass_opens_a_sensitive_base_for_an_hour_and_tells_its_owners(world: World) -> None:
    admin = world.principal(world.admin)
    bases.describe(world.principal(world.alice), world.base, sensitive=True)
    with pytest.raises(Invalid):
        bases.break_glass(admin, world.base.uid, "why not")
    bases.break_glass(admin, world.base.uid, "Legal hold, case 2026-17")
    assert access_base(admin, world.base.uid, Role.OWNER)
    assert Notification.objects.filter(user=world.alice, kind="base.opened_by_admin").exists()
    entry = AuditEntry.objects.get(action="base.break_glass")
    assert entry.detail["reason"] == "Legal hold, case 2026-17"
    Grant.objects.filter(user=world.admin).update(expires_at=timezone.now() - timedelta(seconds=1))
    with pytest.raises(NotFound):
        access_base(admin, world.base.uid)


def test_only_an_admin_breaks_glass(world: World) -> None:
    bases.describe(world.principal(world.alice), world.base, sensitive=True)
    with pytest.raises(Denied):
        bases.break_glass(world.principal(world.mallory), world.base.uid, "I am curious about it")


def test_a_revoked_grant_takes_effect_at_the_next_read(world: World) -> None:
    alice, bob = world.principal(world.alice), world.principal(world.bob)
    documents = visible_documents(bob)
    Document.objects.create(base=world.base, source_key="a", name="a")
    assert documents.count() == 1
    bases.revoke(alice, world.base, Grant.objects.get(base=world.base, user=world.bob))
    assert documents.count() == 0
    assert visible_chunks(bob).count() == 0


def test_a_person_who_left_or_was_locked_out_sees_nothing(world: World) -> None:
    bob = world.principal(world.bob)
    people.set_active(None, world.bob, False)
    assert not visible_bases(bob).exists()
    people.set_active(None, world.bob, True)
    people.remove_membership(None, Membership.objects.get(user=world.bob))
    assert not visible_bases(bob).exists()


def test_every_change_of_access_moves_the_acl_version(world: World) -> None:
    alice = world.principal(world.alice)

    def version() -> int:
        world.workspace.refresh_from_db()
        return world.workspace.acl_version

    def moves(change: object) -> bool:
        before = version()
        change()  # type: ignore[operator]
        return version() > before

    assert moves(lambda: bases.grant(alice, world.base, Role.VIEWER, user=world.mallory))
    assert moves(lambda: bases.revoke(alice, world.base, Grant.objects.get(base=world.base, user=world.mallory)))
    assert moves(lambda: bases.describe(alice, world.base, sensitive=True))
    assert moves(lambda: people.set_active(None, world.bob, False))
    assert moves(lambda: people.set_membership(None, world.workspace, world.mallory, department=world.sales))
    assert moves(lambda: people.move_department(None, world.sales, None))


def test_a_principal_without_the_scope_sees_nothing(world: World) -> None:
    alice = world.principal(world.alice)
    assert not visible_bases(replace(alice, scopes=frozenset({"runs"}))).exists()
    reader = replace(alice, scopes=frozenset({"kb:read"}))
    assert visible_bases(reader).exists()
    assert not visible_bases(reader, Role.EDITOR).exists()
    with pytest.raises(Denied) as caught:
        access_base(reader, world.base.uid, Role.OWNER)
    assert caught.value.code == "scope_missing"


def test_narrowing_never_widens(world: World) -> None:
    bob = world.principal(world.bob)
    assert not visible_bases(bob.narrowed(frozenset())).exists()
    assert not visible_bases(bob.narrowed(frozenset({world.eves_base.pk}))).exists()
    narrow = bob.narrowed(frozenset({world.base.pk, world.eves_base.pk}))
    assert [base.pk for base in visible_bases(narrow)] == [world.base.pk]
    assert narrow.narrowed(frozenset()).base_ids == frozenset()


def test_text_of_several_bases_needs_all_of_them(world: World) -> None:
    bob = world.principal(world.bob)
    other = bases.create(world.principal(world.alice), name="Other")
    assert all_visible(bob, [world.base.pk])
    assert not all_visible(bob, [world.base.pk, other.pk])
    assert all_visible(bob, [])


def test_the_last_owner_can_not_be_removed(world: World) -> None:
    alice = world.principal(world.alice)
    with pytest.raises(Conflict):
        bases.revoke(alice, world.base, Grant.objects.get(base=world.base, user=world.alice))
    assert Grant.objects.filter(base=world.base, user=world.alice, role=Role.OWNER).exists()


def test_grants_stay_inside_the_workspace(world: World) -> None:
    with pytest.raises(Invalid):
        bases.grant(world.principal(world.alice), world.base, Role.VIEWER, user=world.eve)


def test_the_database_itself_deletes_grants_with_their_subject(world: World) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM kernel_membership WHERE user_id = %s", [world.bob.pk])
        cursor.execute("DELETE FROM kernel_notification WHERE user_id = %s", [world.bob.pk])
        cursor.execute("DELETE FROM kernel_user WHERE id = %s", [world.bob.pk])
    assert not Grant.objects.filter(user_id=world.bob.pk).exists()


def test_fetching_a_document_is_one_statement(world: World) -> None:
    document = Document.objects.create(base=world.base, source_key="a", name="a")
    bob = world.principal(world.bob)
    with CaptureQueriesContext(
        connection,
    ) as captured:
        assert access_document(bob, document.uid).base.name == "Handbook"
    assert len(captured) == 1


def test_asking_for_access_tells_the_owners_and_finds_nothing_out(world: World) -> None:
    mallory = world.principal(world.mallory)
    bases.ask_access(mallory, world.base.uid, "I joined the project")
    bases.ask_access(mallory, "nonexistent00000", "I joined the project")
    bases.ask_access(mallory, world.eves_base.uid, "I joined the project")
    told = Notification.objects.filter(kind="grant.asked")
    assert [row.user for row in told] == [world.alice]
