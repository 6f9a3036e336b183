"""What people do with knowledge bases: create, describe, set up, share, open in an emergency, delete."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from knowledge import base_settings, lifecycle
from knowledge.access import visible_bases
from knowledge.models import Document, Grant, KnowledgeBase, Role
from portal.gateway.embedding import ensure_local_endpoint
from portal.gateway.endpoints import embedding_endpoint
from portal.kernel import audit, limits, notify
from portal.kernel.errors import Conflict, Denied, Invalid
from portal.kernel.models import Department, Membership, User, Workspace, bump_acl
from portal.kernel.principal import Principal, is_workspace_admin

BREAK_GLASS = timedelta(hours=1)


@transaction.atomic
def create(
    principal: Principal, *, name: str, description: str = "", sensitive: bool = False, embedding: str = ""
) -> KnowledgeBase:
    """Make a base owned by the asker. `embedding` is the uid of an endpoint; empty: the built-in model."""
    principal.require("kb:manage")
    if principal.base_ids is not None:
        raise Denied("A key that is limited to some bases can not make new ones.", code="key_narrowed")
    base = KnowledgeBase.objects.create(
        workspace_id=principal.workspace_id,
        name=_free(principal, name),
        description=description.strip(),
        sensitive=sensitive,
        config=base_settings.BaseSettings().model_dump(mode="json"),
        embedding=embedding_endpoint(principal, embedding) if embedding else ensure_local_endpoint(),
        created_by_id=principal.user_id,
    )
    Grant.objects.create(base=base, user_id=principal.user_id, role=Role.OWNER, created_by_id=principal.user_id)
    audit.record(principal, "base.create", base, base_ids=[base.pk], name=base.name, sensitive=sensitive)
    bump_acl(base.workspace_id)
    return base


def _free(principal: Principal, name: str, besides: KnowledgeBase | None = None) -> str:
    """The name as it is kept; `Conflict` when a base that the asker sees has it. Others' names stay theirs to know."""
    cleaned = " ".join(name.split())[:200]
    if not cleaned:
        raise Invalid("Give the knowledge base a name.", code="name_empty")
    taken = visible_bases(principal).filter(name=cleaned)
    if besides is not None:
        taken = taken.exclude(pk=besides.pk)
    if taken.exists():
        raise Conflict("A knowledge base named %(name)s is there already.", code="name_taken", name=cleaned)
    return cleaned


def free_name(principal: Principal, name: str) -> str:
    """The name, with a number when a base that the asker sees has it already."""
    cleaned = " ".join(name.split())[:190]
    candidate, number = cleaned, 1
    while True:
        try:
            return _free(principal, candidate)
        except Conflict:
            number += 1
            candidate = f"{cleaned} ({number})"


@transaction.atomic
def describe(
    principal: Principal,
    base: KnowledgeBase,
    *,
    name: str | None = None,
    description: str | None = None,
    sensitive: bool | None = None,
) -> KnowledgeBase:
    """Change name, description or sensitivity; None leaves a field as it is."""
    row = KnowledgeBase.objects.select_for_update().get(pk=base.pk)
    before = {"name": row.name, "sensitive": row.sensitive}
    if name is not None:
        row.name = _free(principal, name, row)
    if description is not None:
        row.description = description.strip()
    if sensitive is not None and sensitive != row.sensitive:
        row.sensitive = sensitive
        bump_acl(row.workspace_id)
    row.save()
    audit.record(principal, "base.describe", row, base_ids=[row.pk], before=before)
    return row


@transaction.atomic
def save_settings(
    principal: Principal, base: KnowledgeBase, section: str, values: dict[str, Any], *, version: int | None = None
) -> KnowledgeBase:
    """Replace one section of the settings. When there is a newer `version` than the caller knows: `Conflict`."""
    row = KnowledgeBase.objects.select_for_update().get(pk=base.pk)
    if version is not None and version != row.config_version:
        raise Conflict("Somebody has changed these settings meanwhile; look at them again.", code="settings_changed")
    if section not in base_settings.BaseSettings.model_fields:
        raise Invalid("There is no section of settings named %(section)s.", code="section_unknown", section=section)
    before = row.config.get(section, {})
    row.config = base_settings.with_section(row.config, section, values)
    row.config_version = row.config_version + 1
    row.stamp = row.stamp + 1
    row.save(update_fields=["config", "config_version", "stamp"])
    audit.record(
        principal, "base.settings", row, base_ids=[row.pk], section=section, before=before, after=row.config[section]
    )
    return row


@transaction.atomic
def delete(principal: Principal, base: KnowledgeBase) -> None:
    """Put a base aside with all its documents; nothing of it can be found from now on."""
    moved = KnowledgeBase.objects.filter(pk=base.pk, deleted_at__isnull=True).update(deleted_at=timezone.now())
    if moved:
        for document in Document.objects.filter(base=base, deleted_at__isnull=True):
            for revision in document.revisions.filter(status__in=lifecycle.OPEN):
                lifecycle.cancel(principal, revision)
        audit.record(principal, "base.delete", base, base_ids=[base.pk], name=base.name)
        bump_acl(base.workspace_id)


@transaction.atomic
def grant(
    principal: Principal,
    base: KnowledgeBase,
    role: Role,
    *,
    user: User | None = None,
    department: Department | None = None,
) -> Grant:
    """Give a person or a department of the base's workspace a role; a second grant replaces the first."""
    if (user is None) == (department is None):
        raise Invalid("Choose a person or a department.", code="subject_missing")
    if user is not None and not Membership.objects.filter(user=user, workspace_id=base.workspace_id).exists():
        raise Invalid("This person does not belong to the workspace.", code="not_a_member")
    if department is not None and department.workspace_id != base.workspace_id:
        raise Invalid("This department does not belong to the workspace.", code="not_a_department")
    KnowledgeBase.objects.select_for_update().get(pk=base.pk)
    row = Grant.objects.filter(base=base, user=user, department=department, channel="").first()
    before = row.role if row else None
    if row is None:
        row = Grant(base=base, user=user, department=department)
    row.role, row.created_by_id, row.expires_at, row.reason = role, principal.user_id, None, ""
    row.save()
    _keep_an_owner(base)
    audit.record(principal, "grant.set", base, base_ids=[base.pk], subject=_subject(row), role=role, before=before)
    bump_acl(base.workspace_id)
    if user is not None and before is None and user.pk != principal.user_id:
        notify.tell(
            [user],
            "grant.added",
            workspace_id=base.workspace_id,
            base_ids=[base.pk],
            link=f"/bases/{base.uid}/documents/",
            base=base.name,
        )
    return row


@transaction.atomic
def revoke(principal: Principal, base: KnowledgeBase, row: Grant) -> None:
    """Take a grant away. Takes effect at the next read, on every door."""
    KnowledgeBase.objects.select_for_update().get(pk=base.pk)
    subject, role = _subject(row), row.role
    if Grant.objects.filter(pk=row.pk, base=base).delete()[0]:
        _keep_an_owner(base)
        audit.record(principal, "grant.remove", base, base_ids=[base.pk], subject=subject, role=role)
        bump_acl(base.workspace_id)


def take_back(principal: Principal | None, workspace: Workspace, user: User) -> None:
    """Take all grants of a person who leaves the workspace. A base without a manager is left to the admins."""
    for row in Grant.objects.filter(user=user, base__workspace=workspace).select_related("base", "user"):
        audit.record(
            principal,
            "grant.remove",
            row.base,
            workspace_id=workspace.pk,
            base_ids=[row.base_id],
            subject=_subject(row),
            role=row.role,
        )
        row.delete()


def _subject(row: Grant) -> str:
    if row.user is not None:
        return f"user:{row.user.uid}"
    return f"department:{row.department.uid}" if row.department is not None else f"channel:{row.channel}"


def _keep_an_owner(base: KnowledgeBase) -> None:
    lasting = Grant.objects.filter(base=base, role=Role.OWNER, expires_at__isnull=True)
    if not lasting.exists():
        raise Conflict("Keep at least one person who can manage this base.", code="last_owner")


@transaction.atomic
def break_glass(principal: Principal, uid: str, reason: str) -> KnowledgeBase:
    """Open a sensitive base to a workspace admin for an hour, with a reason; its owners are told."""
    if not is_workspace_admin(principal):
        raise Denied("Only an admin of the workspace can do this.", code="not_admin")
    base = KnowledgeBase.objects.filter(
        uid=uid, workspace_id=principal.workspace_id, sensitive=True, deleted_at__isnull=True
    ).first()
    if base is None or (principal.base_ids is not None and base.pk not in principal.base_ids):
        raise Invalid("There is no sensitive base with this id.", code="not_sensitive")
    if len(reason.strip()) < 10:
        raise Invalid("Say why, in at least ten characters.", code="reason_missing")
    if not visible_bases(principal, Role.OWNER).filter(pk=base.pk).exists():
        try:
            with transaction.atomic():
                Grant.objects.create(
                    base=base,
                    user_id=principal.user_id,
                    role=Role.OWNER,
                    reason=reason.strip(),
                    expires_at=timezone.now() + BREAK_GLASS,
                    created_by_id=principal.user_id,
                )
        except IntegrityError:
            Grant.objects.filter(base=base, user_id=principal.user_id).update(
                role=Role.OWNER, reason=reason.strip(), expires_at=timezone.now() + BREAK_GLASS
            )
    audit.record(principal, "base.break_glass", base, base_ids=[base.pk], reason=reason.strip())
    bump_acl(base.workspace_id)
    admin = User.objects.get(pk=principal.user_id)
    notify.tell(
        owners(base).exclude(pk=principal.user_id),
        "base.opened_by_admin",
        workspace_id=base.workspace_id,
        base_ids=[base.pk],
        person=str(admin),
        base=base.name,
        reason=reason.strip(),
    )
    return base


@transaction.atomic
def ask_access(principal: Principal, uid: str, reason: str) -> None:
    """Tell the owners of a base of the workspace that somebody asks for access.

    Answers alike whether the base exists or not, so that asking finds nothing out.
    """
    if not reason.strip():
        raise Invalid("Say why you need access.", code="reason_missing")
    limits.hit("ask-access", str(principal.user_id), 10, window=3600)
    base = KnowledgeBase.objects.filter(uid=uid, workspace_id=principal.workspace_id, deleted_at__isnull=True).first()
    if base is None or visible_bases(principal).filter(pk=base.pk).exists():
        return
    audit.record(principal, "base.ask_access", base, base_ids=[base.pk], reason=reason.strip()[:500])
    notify.tell(
        owners(base),
        "grant.asked",
        workspace_id=base.workspace_id,
        base_ids=[base.pk],
        link=f"/bases/{base.uid}/members/",
        person=str(User.objects.get(pk=principal.user_id)),
        base=base.name,
        reason=reason.strip()[:500],
    )


def owners(base: KnowledgeBase) -> Any:
    """The people with an owner grant of their own, break-glass grants left out."""
    return User.objects.filter(
        Q(grants__base=base), grants__role=Role.OWNER, grants__expires_at__isnull=True, is_active=True
    ).distinct()
