"""People, workspaces, departments, keys, the audit log and notifications.

Who may do what with knowledge is decided in `knowledge/access.py`; this module only holds the facts.
"""

from __future__ import annotations

import secrets
from typing import Any, ClassVar

from django.contrib.auth.models import AbstractUser, UserManager
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"


def new_uid() -> str:
    """16 characters of an alphabet without look-alikes: 79 random bits."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(16))


class PublicId(models.Model):
    """Rows that people and programs name: by an opaque `uid`, never by the primary key."""

    uid = models.CharField(max_length=16, unique=True, default=new_uid, editable=False)

    class Meta:
        abstract = True


class Workspace(PublicId):
    """The border of isolation. `acl_version` grows with every change of who may see what."""

    name = models.CharField(_("name"), max_length=200)
    acl_version = models.BigIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("workspace")
        verbose_name_plural = _("workspaces")

    def __str__(self) -> str:
        return self.name


class Department(PublicId):
    """A node of the workspace's tree. `lineage` holds its own id and those of all its ancestors, outermost first."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="departments", verbose_name=_("workspace"))
    parent = models.ForeignKey(
        "self", models.PROTECT, null=True, blank=True, related_name="children", verbose_name=_("parent department")
    )
    name = models.CharField(_("name"), max_length=200)
    lineage = ArrayField(models.BigIntegerField(), default=list, editable=False)

    class Meta:
        verbose_name = _("department")
        verbose_name_plural = _("departments")
        constraints = [
            models.UniqueConstraint("workspace", "parent", "name", name="department_name_unique", nulls_distinct=False)
        ]
        indexes = [GinIndex(fields=["lineage"], name="department_lineage")]

    def __str__(self) -> str:
        return self.name


class PersonManager(UserManager["User"]):
    """Finds people by name as they type it."""

    def get_by_natural_key(self, username: str | None) -> User:
        return self.get(username__iexact=username)


class User(PublicId, AbstractUser):
    """A person. The row is the operator's: a workspace admin edits memberships only."""

    display_name = models.CharField(_("display name"), max_length=150, blank=True)
    language = models.CharField(_("language"), max_length=10, blank=True)
    theme = models.CharField(_("theme"), max_length=5, default="auto")
    letter_keys = models.BooleanField(_("single-letter shortcuts"), default=True)
    mail_notices = models.BooleanField(_("notices by e-mail"), default=True)

    objects: ClassVar[PersonManager] = PersonManager()

    class Meta(AbstractUser.Meta):
        verbose_name = _("person")  # type: ignore[assignment]
        verbose_name_plural = _("people")  # type: ignore[assignment]

    def __str__(self) -> str:
        return self.display_name or self.username


class Membership(models.Model):
    """A person's place in a workspace: role and department."""

    class Role(models.TextChoices):
        ADMIN = "admin", _("Admin")
        MEMBER = "member", _("Member")

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="memberships", verbose_name=_("workspace"))
    user = models.ForeignKey(User, models.CASCADE, related_name="memberships", verbose_name=_("person"))
    role = models.CharField(_("role"), max_length=10, choices=Role.choices, default=Role.MEMBER)
    department = models.ForeignKey(
        Department, models.SET_NULL, null=True, blank=True, related_name="members", verbose_name=_("department")
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("membership")
        verbose_name_plural = _("memberships")
        constraints = [models.UniqueConstraint(fields=["workspace", "user"], name="membership_unique")]

    def __str__(self) -> str:
        return f"{self.user} · {self.workspace}"


class ApiKey(PublicId):
    """A key of a person in a workspace. Only a keyed hash of it is stored; `prefix` is what people see."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="keys", verbose_name=_("workspace"))
    owner = models.ForeignKey(User, models.CASCADE, related_name="keys", verbose_name=_("owner"))
    name = models.CharField(_("name"), max_length=100)
    prefix = models.CharField(_("prefix"), max_length=16)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    scopes = ArrayField(models.CharField(max_length=30), default=list, verbose_name=_("scopes"))
    # None: every base that the owner may see. An empty list: none.
    base_ids = ArrayField(models.BigIntegerField(), null=True, blank=True, verbose_name=_("allowed bases"))
    per_minute = models.PositiveIntegerField(_("requests a minute"), default=120)
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    last_used_at = models.DateTimeField(_("last used"), null=True, blank=True, editable=False)
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("API key")
        verbose_name_plural = _("API keys")

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class AuditEntry(models.Model):
    """One line of the audit log, inserted in the transaction of the change it tells of.

    `position` and `seal` stay empty until the sealer chains the committed rows (`portal/kernel/audit.py`).
    """

    at = models.DateTimeField(_("at"), auto_now_add=True, db_index=True)
    workspace = models.ForeignKey(
        Workspace, models.DO_NOTHING, null=True, db_constraint=False, verbose_name=_("workspace")
    )
    actor = models.ForeignKey(User, models.DO_NOTHING, null=True, db_constraint=False, verbose_name=_("actor"))
    door = models.CharField(_("door"), max_length=10)
    action = models.CharField(_("action"), max_length=60, db_index=True)
    object_type = models.CharField(_("object type"), max_length=40)
    object_id = models.CharField(_("object"), max_length=40)
    base_ids = ArrayField(models.BigIntegerField(), default=list)
    detail = models.JSONField(_("detail"), default=dict)
    position = models.BigIntegerField(null=True, unique=True, editable=False)
    seal = models.CharField(max_length=64, blank=True, editable=False)

    class Meta:
        verbose_name = _("audit entry")
        verbose_name_plural = _("audit log")
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["object_type", "object_id"], name="audit_object"),
            models.Index(fields=["id"], name="audit_unsealed", condition=Q(position__isnull=True)),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.object_type} {self.object_id}"


class Notification(PublicId):
    """A message in a person's bell. It names bases, and is readable only while all of them are."""

    workspace = models.ForeignKey(Workspace, models.CASCADE)
    user = models.ForeignKey(User, models.CASCADE, related_name="notifications")
    kind = models.CharField(max_length=40)
    params = models.JSONField(default=dict)
    link = models.CharField(max_length=300, blank=True)
    base_ids = ArrayField(models.BigIntegerField(), default=list)
    created_at = models.DateTimeField(auto_now_add=True)
    read_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = _("notification")
        verbose_name_plural = _("notifications")
        ordering = ["-id"]
        indexes = [models.Index(fields=["user", "workspace", "-id"], name="notification_inbox")]

    def __str__(self) -> str:
        return self.kind


def bump_acl(workspace_id: int) -> None:
    """Say that who may see what has changed in this workspace: every cache key and open socket notices."""
    Workspace.objects.filter(id=workspace_id).update(acl_version=F("acl_version") + 1)


def json_safe(value: Any) -> Any:
    """A copy of JSON-like data without the characters PostgreSQL refuses (NUL, lone surrogates)."""
    if isinstance(value, str):
        return value.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {json_safe(str(key)): json_safe(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(item) for item in value]
    return value
