"""Knowledge bases and who was granted what on them."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from portal.kernel.models import Department, PublicId, Workspace


class Role(models.TextChoices):
    """Roles on a base, smallest first; `knowledge/access.py` says what each may do."""

    VIEWER = "viewer", _("Can view")
    EDITOR = "editor", _("Can edit")
    OWNER = "owner", _("Can manage")


class KnowledgeBase(PublicId):
    """A group of documents with one set of grants, settings and term statistics.

    `stamp` grows with every change of what a search may find here; `config` is the JSON of
    `knowledge.base_settings.BaseSettings`.
    """

    class Kind(models.TextChoices):
        NATIVE = "native", _("Documents")

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="bases", verbose_name=_("workspace"))
    name = models.CharField(_("name"), max_length=200)
    description = models.TextField(_("description"), blank=True)
    kind = models.CharField(_("kind"), max_length=20, choices=Kind.choices, default=Kind.NATIVE, editable=False)
    sensitive = models.BooleanField(_("sensitive"), default=False)
    config = models.JSONField(_("settings"), default=dict, blank=True)
    # Concurrent edits of the settings are noticed by this number.
    config_version = models.PositiveIntegerField(default=1, editable=False)
    embedding = models.ForeignKey(
        "gateway.ModelEndpoint", models.PROTECT, verbose_name=_("embedding model"), related_name="+"
    )
    stamp = models.BigIntegerField(default=1, editable=False)
    # Grows with every change of the base's terms; 0: it never had any, and searches look for none.
    terms_version = models.PositiveIntegerField(default=0, editable=False)
    # Whether any passage ever had a question: without, searches look for none.
    has_questions = models.BooleanField(default=False, editable=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", verbose_name=_("created by")
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    deleted_at = models.DateTimeField(_("deleted"), null=True, blank=True)

    class Meta:
        verbose_name = _("knowledge base")
        verbose_name_plural = _("knowledge bases")
        indexes = [
            models.Index(fields=["workspace", "name"], name="base_by_name", condition=Q(deleted_at__isnull=True))
        ]

    def __str__(self) -> str:
        return self.name


class Grant(models.Model):
    """A role on a base for exactly one subject. The database itself deletes it with base or subject."""

    base = models.ForeignKey(KnowledgeBase, models.CASCADE, related_name="grants", verbose_name=_("base"))
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, blank=True, related_name="grants", verbose_name=_("person")
    )
    department = models.ForeignKey(
        Department, models.CASCADE, null=True, blank=True, related_name="grants", verbose_name=_("department")
    )
    channel = models.CharField(_("IM channel"), max_length=100, blank=True)
    role = models.CharField(_("role"), max_length=10, choices=Role.choices)
    # Why an admin opened a sensitive base, and until when; ordinary grants have neither.
    reason = models.TextField(_("reason"), blank=True)
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+", verbose_name=_("granted by")
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("grant")
        verbose_name_plural = _("grants")
        constraints = [
            models.CheckConstraint(
                name="grant_one_subject",
                condition=(
                    Q(user__isnull=False, department__isnull=True, channel="")
                    | Q(user__isnull=True, department__isnull=False, channel="")
                    | (Q(user__isnull=True, department__isnull=True) & ~Q(channel=""))
                ),
            ),
            models.UniqueConstraint("base", "user", "department", "channel", name="grant_unique", nulls_distinct=False),
        ]
        indexes = [
            models.Index(fields=["user", "base"], name="grant_by_user", condition=Q(user__isnull=False)),
            models.Index(
                fields=["department", "base"], name="grant_by_department", condition=Q(department__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user or self.department or self.channel}: {self.role}"
