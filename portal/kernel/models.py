"""People, workspaces, departments, keys, the audit log and notifications.

Who may do what with knowledge is decided in `knowledge/access.py`; this module only holds the facts.
"""

from __future__ import annotations

import secrets
import uuid
from datetime import datetime
from typing import Any, ClassVar

from django.contrib.auth.models import AbstractUser, UserManager
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Q
from django.utils import timezone
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
    log_queries = models.BooleanField(
        _("keep people's questions"), default=True,
        help_text=_("Off: no base of this workspace keeps what people ask, whatever it is set to."),
    )  # fmt: skip
    query_log_days = models.PositiveSmallIntegerField(
        _("days that questions are kept"), null=True, blank=True,
        help_text=_("Empty: as the installation is set."),
    )  # fmt: skip
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

    class QuestionLog(models.TextChoices):
        LISTED = "listed", _("Keep my history; unanswered questions may be listed for writers, without my name")
        PRIVATE = "private", _("Keep my history for me alone")
        OFF = "off", _("Keep nothing that I ask")

    display_name = models.CharField(_("display name"), max_length=150, blank=True)
    language = models.CharField(_("language"), max_length=10, blank=True)
    theme = models.CharField(_("theme"), max_length=5, default="auto")
    letter_keys = models.BooleanField(_("single-letter shortcuts"), default=True)
    mail_notices = models.BooleanField(_("notices by e-mail"), default=True)
    question_log = models.CharField(
        _("my questions"), max_length=8, choices=QuestionLog.choices, default=QuestionLog.LISTED
    )

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


class MasterKey(models.Model):
    """A master key that seals, or has sealed, values. The key itself is never here: only its id and its state.

    A retired key seals nothing more; rotation retires one under a lock when no row depends on it.
    """

    class State(models.TextChoices):
        ACTIVE = "active", _("Active")
        RETIRED = "retired", _("Retired")

    key_id = models.CharField(_("key id"), max_length=200, unique=True)
    state = models.CharField(_("state"), max_length=10, choices=State.choices, default=State.ACTIVE)
    # Set while everything sealed before this moment, under whatever key, is to be sealed anew.
    reseal_before = models.DateTimeField(null=True, editable=False)
    first_used_at = models.DateTimeField(_("first used"), auto_now_add=True)
    retired_at = models.DateTimeField(_("retired"), null=True)

    class Meta:
        verbose_name = _("master key")
        verbose_name_plural = _("master keys")

    def __str__(self) -> str:
        return self.key_id


class SealedRow(models.Model):
    """A row with one sealed value (`portal/kernel/secrets/sealing.py`). Rotation finds every model of this kind.

    What is sealed opens only in the row it was sealed for: `sealed_identity` goes into the seal.
    """

    ciphertext = models.BinaryField(default=b"", editable=False)
    wrapped_key = models.BinaryField(default=b"", editable=False)
    key_id = models.CharField(_("master key"), max_length=200, blank=True, db_index=True, editable=False)
    sealed_at = models.DateTimeField(_("sealed"), null=True, editable=False)

    class Meta:
        abstract = True

    def sealed_identity(self) -> tuple[str, ...]:
        """Table, primary key and whatever else must not change under the seal."""
        return (self._meta.db_table, str(self.pk))


class Credential(SealedRow):
    """A secret of somebody else's service, sealed, and bound to the host it was given for.

    It can be replaced and used, never read back. Without a workspace it is the installation's.
    """

    class State(models.TextChoices):
        ACTIVE = "active", _("Active")
        EXPIRED = "expired", _("Expired")
        REVOKED = "revoked", _("Revoked")

    class Health(models.TextChoices):
        UNKNOWN = "", _("not looked at yet")
        GOOD = "good", _("can be opened")
        UNREADABLE = "unreadable", _("can not be opened")

    # Chosen before the row is written, because the seal covers it.
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(
        Workspace, models.CASCADE, null=True, blank=True, related_name="credentials", verbose_name=_("workspace")
    )
    name = models.CharField(_("name"), max_length=100)
    # `host` or `host:port`, without a port for https.
    host = models.CharField(_("host"), max_length=260)
    # The end of the secret, when that is too little to guess the rest; the fingerprint is keyed.
    hint = models.CharField(_("ends with"), max_length=4, blank=True, editable=False)
    fingerprint = models.CharField(_("fingerprint"), max_length=12, blank=True, editable=False)
    created_by = models.ForeignKey(
        User, models.SET_NULL, null=True, related_name="+", editable=False, verbose_name=_("created by")
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    replaced_at = models.DateTimeField(_("value given"), null=True, editable=False)
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    revoked_at = models.DateTimeField(_("revoked"), null=True, editable=False)
    last_used_at = models.DateTimeField(_("last used"), null=True, editable=False)
    # Since when the value counts as known to strangers, until another is given.
    exposed_at = models.DateTimeField(_("exposed"), null=True, editable=False)
    health = models.CharField(_("health"), max_length=10, choices=Health.choices, blank=True, editable=False)
    checked_at = models.DateTimeField(_("checked"), null=True, editable=False)
    # The shortest distance to the expiry, in days, that people were warned of.
    warned_days = models.SmallIntegerField(null=True, editable=False)

    class Meta:
        verbose_name = _("credential")
        verbose_name_plural = _("credentials")
        constraints = [models.UniqueConstraint("workspace", "name", name="credential_name", nulls_distinct=False)]

    def __str__(self) -> str:
        return self.name

    @property
    def reference(self) -> str:
        """What other rows hold instead of the secret."""
        return f"credential://{self.pk}"

    def state_at(self, now: datetime) -> State:
        if self.revoked_at is not None:
            return self.State.REVOKED
        return self.State.EXPIRED if self.expires_at is not None and self.expires_at <= now else self.State.ACTIVE

    @property
    def state(self) -> State:
        return self.state_at(timezone.now())

    def sealed_identity(self) -> tuple[str, ...]:
        return (*super().sealed_identity(), str(self.workspace_id or ""), self.host)


class RevealCount(models.Model):
    """How often a secret was revealed in an hour: what is usual, to notice what is not. Folded from the audit log."""

    subject = models.CharField(max_length=210)
    hour = models.DateTimeField(db_index=True)
    count = models.PositiveIntegerField(default=0)
    alerted = models.BooleanField(default=False)

    class Meta:
        constraints = [models.UniqueConstraint("subject", "hour", name="reveal_count_once")]

    def __str__(self) -> str:
        return f"{self.subject} {self.hour:%Y-%m-%d %H}h: {self.count}"


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
