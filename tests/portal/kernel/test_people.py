"""Workspaces, departments and memberships: each change is audited and moves `acl_version`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from portal.kernel import people
from portal.kernel.errors import Conflict, Invalid
from portal.kernel.models import AuditEntry, Department, Membership
from tests.support.people import PASSWORD, World


@pytest.mark.parametrize(
    ("action", "change"),
    [
        ("membership.set", lambda w: people.set_membership(None, w.workspace, w.bob, department=w.company)),
        ("membership.remove", lambda w: people.remove_membership(None, Membership.objects.get(user=w.bob))),
        ("person.deactivate", lambda w: people.set_active(None, w.bob, False)),
        ("department.create", lambda w: people.create_department(None, w.workspace, "New", w.sales)),
        ("department.move", lambda w: people.move_department(None, w.sales, None)),
        ("department.delete", lambda w: people.delete_department(None, w.sales)),
    ],
)
def test_each_change_is_audited_and_felt_by_open_doors(
    world: World, action: str, change: Callable[[World], object]
) -> None:
    world.workspace.refresh_from_db()
    before = world.workspace.acl_version
    change(world)
    world.workspace.refresh_from_db()
    assert world.workspace.acl_version > before
    assert AuditEntry.objects.filter(action=action, workspace=world.workspace).exists()


def test_the_last_admin_stays(world: World) -> None:
    with pytest.raises(Conflict) as caught:
        people.set_membership(None, world.workspace, world.admin)
    assert caught.value.code == "last_admin"
    with pytest.raises(Conflict):
        people.remove_membership(None, Membership.objects.get(user=world.admin))
    assert Membership.objects.get(user=world.admin).role == Membership.Role.ADMIN


def test_a_department_is_never_hung_below_itself(world: World) -> None:
    for target in (world.company, world.sales):
        with pytest.raises(Invalid) as caught:
            people.move_department(None, world.company, target)
        assert caught.value.code == "department_cycle"


def test_what_hangs_below_a_moved_department_moves_with_it(world: World) -> None:
    north = people.create_department(None, world.workspace, "North", world.sales)
    other = people.create_department(None, world.workspace, "Other")
    people.move_department(None, world.sales, other)
    assert Department.objects.get(pk=north.pk).lineage == [other.pk, world.sales.pk, north.pk]


def test_departments_of_another_workspace_do_not_fit(world: World) -> None:
    foreign = people.create_department(None, world.elsewhere, "Theirs")
    with pytest.raises(Invalid):
        people.set_membership(None, world.workspace, world.bob, department=foreign)
    with pytest.raises(Invalid):
        people.create_department(None, world.workspace, "X", foreign)
    with pytest.raises(Invalid):
        people.move_department(None, world.sales, foreign)


def test_only_an_empty_department_is_deleted_and_its_people_stay(world: World) -> None:
    with pytest.raises(Conflict):
        people.delete_department(None, world.company)
    people.delete_department(None, world.sales)
    bob = Membership.objects.get(user=world.bob)
    assert bob.department is None


def test_names_of_people_and_departments_are_taken_once(world: World) -> None:
    with pytest.raises(Conflict):
        people.create_person("ALICE", PASSWORD)
    with pytest.raises(Conflict):
        people.create_department(None, world.workspace, "Sales", world.company)


@pytest.mark.parametrize("password", ["short", "passwordpassword1"[:8], "1234567890"])
def test_weak_passwords_are_refused_with_the_reason(world: World, password: str) -> None:
    with pytest.raises(Invalid) as caught:
        people.create_person("carol", password)
    assert caught.value.code == "password_weak"
    assert str(caught.value)
