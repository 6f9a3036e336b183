"""Workspaces, departments, memberships: made and changed, each change audited and felt by every open door."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from portal.kernel import audit, keys
from portal.kernel.errors import Conflict, Invalid
from portal.kernel.models import Department, Membership, User, Workspace, bump_acl
from portal.kernel.principal import Principal

# What else goes when somebody leaves a workspace: whoever gives people rights there adds how they are taken back.
LEAVING: list[Callable[[Principal | None, Workspace, User], None]] = []


@transaction.atomic
def create_workspace(principal: Principal | None, name: str) -> Workspace:
    """A new, empty workspace."""
    workspace = Workspace.objects.create(name=name.strip())
    audit.record(principal, "workspace.create", workspace, workspace_id=workspace.pk, name=workspace.name)
    return workspace


@transaction.atomic
def keep_questions(principal: Principal | None, workspace: Workspace, *, keep: bool, days: int | None) -> None:
    """Whether people's questions are kept in a workspace, and for how many days (None: as the installation is set)."""
    Workspace.objects.filter(pk=workspace.pk).update(log_queries=keep, query_log_days=days)
    audit.record(principal, "workspace.keep_questions", workspace, workspace_id=workspace.pk, keep=keep, days=days)


@transaction.atomic
def create_person(username: str, password: str, *, display_name: str = "", email: str = "", language: str = "") -> User:
    """A new person; the password must pass the installation's rules."""
    if User.objects.filter(username__iexact=username).exists():
        raise Conflict("A person named %(name)s is there already.", code="name_taken", name=username)
    user = User(username=username, display_name=display_name, email=email, language=language)
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Invalid("%(problem)s", code="password_weak", problem=" ".join(error.messages)) from error
    user.set_password(password)
    user.save()
    return user


@transaction.atomic
def set_membership(
    principal: Principal | None,
    workspace: Workspace,
    user: User,
    *,
    role: Membership.Role = Membership.Role.MEMBER,
    department: Department | None = None,
) -> Membership:
    """Make a person a member, or change their role and department."""
    if department is not None and department.workspace_id != workspace.pk:
        raise Invalid("This department does not belong to the workspace.", code="not_a_department")
    row, made = Membership.objects.get_or_create(workspace=workspace, user=user)
    before = None if made else {"role": row.role, "department": row.department.uid if row.department else None}
    row.role, row.department = role, department
    row.save()
    _keep_an_admin(workspace, before)
    audit.record(
        principal,
        "membership.set",
        user,
        workspace_id=workspace.pk,
        role=role,
        department=department.uid if department else None,
        before=before,
    )
    bump_acl(workspace.pk)
    return row


def _keep_an_admin(workspace: Workspace, before: object) -> None:
    if before is not None and not Membership.objects.filter(workspace=workspace, role=Membership.Role.ADMIN).exists():
        raise Conflict("Keep at least one admin in the workspace.", code="last_admin")


@transaction.atomic
def remove_membership(principal: Principal | None, row: Membership) -> None:
    """Take a person out of a workspace, with their keys and grants there: who comes back begins anew."""
    workspace, user = row.workspace, row.user
    row.delete()
    _keep_an_admin(workspace, True)
    audit.record(principal, "membership.remove", user, workspace_id=workspace.pk)
    keys.revoke_all(principal, workspace, user)
    for take_back in LEAVING:
        take_back(principal, workspace, user)
    bump_acl(workspace.pk)


@transaction.atomic
def set_active(principal: Principal | None, user: User, active: bool) -> None:
    """Let a person sign in, or lock them out everywhere at once."""
    User.objects.filter(pk=user.pk).update(is_active=active)
    for membership in Membership.objects.filter(user=user):
        audit.record(
            principal, "person.activate" if active else "person.deactivate", user, workspace_id=membership.workspace_id
        )
        bump_acl(membership.workspace_id)


@transaction.atomic
def create_department(
    principal: Principal | None, workspace: Workspace, name: str, parent: Department | None = None
) -> Department:
    """A new department under `parent`, or at the top."""
    if parent is not None and parent.workspace_id != workspace.pk:
        raise Invalid("This department does not belong to the workspace.", code="not_a_department")
    try:
        with transaction.atomic():
            row = Department.objects.create(workspace=workspace, parent=parent, name=name.strip())
    except IntegrityError as error:
        raise Conflict("A department named %(name)s is there already.", code="name_taken", name=name) from error
    row.lineage = [*(parent.lineage if parent else []), row.pk]
    row.save(update_fields=["lineage"])
    audit.record(principal, "department.create", row, workspace_id=workspace.pk, name=row.name)
    bump_acl(workspace.pk)
    return row


@transaction.atomic
def move_department(principal: Principal | None, row: Department, parent: Department | None) -> None:
    """Hang a department, with all below it, under another one; never under itself."""
    if parent is not None and (parent.workspace_id != row.workspace_id or row.pk in parent.lineage):
        raise Invalid("A department can not be moved below itself.", code="department_cycle")
    old = row.lineage
    row.parent = parent
    row.lineage = [*(parent.lineage if parent else []), row.pk]
    row.save(update_fields=["parent", "lineage"])
    for below in Department.objects.filter(lineage__contains=[row.pk]).exclude(pk=row.pk):
        below.lineage = row.lineage + below.lineage[len(old) :]
        below.save(update_fields=["lineage"])
    audit.record(principal, "department.move", row, workspace_id=row.workspace_id)
    bump_acl(row.workspace_id)


@transaction.atomic
def delete_department(principal: Principal | None, row: Department) -> None:
    """Delete an empty department; its grants go with it, its people stay in the workspace."""
    if row.children.exists():
        raise Conflict("Move or delete the departments below it first.", code="department_not_empty")
    workspace_id = row.workspace_id
    audit.record(principal, "department.delete", row, workspace_id=workspace_id, name=row.name)
    row.delete()
    bump_acl(workspace_id)
