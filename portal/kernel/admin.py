"""Workspaces, departments, people, keys and notifications in the admin."""

from __future__ import annotations

import secrets
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin import RelatedOnlyFieldListFilter
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import RangeDateTimeFilter
from unfold.decorators import action, display
from unfold.widgets import UnfoldAdminTextInputWidget

from portal.kernel import keys, people
from portal.kernel.admin_door import ScopedAdmin, asker, is_operator, register
from portal.kernel.models import ApiKey, Department, Membership, Notification, User, Workspace
from portal.kernel.secrets import admin as secrets_admin  # noqa: F401  (registers itself)


@register(Workspace)
class WorkspaceAdmin(ScopedAdmin):
    """Workspaces; only the operator makes new ones."""

    workspace_path = "id"
    list_display = ["name", "members", "created_at"]
    search_fields = ["name"]
    fields = ["name", "uid", "log_queries", "query_log_days", "acl_version", "created_at"]
    changeable = ("log_queries", "query_log_days")
    addable = True

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return is_operator(request)

    def rows(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().rows(request).annotate(member_count=Count("memberships"))
        return rows

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ["name"] if obj is None else self.fields

    def apply(self, request: HttpRequest, row: Any, changes: dict[str, Any]) -> None:
        if row.pk is None:
            row.pk = people.create_workspace(asker(request), changes["name"]).pk
        elif changes:
            people.keep_questions(asker(request), row, keep=row.log_queries, days=row.query_log_days)

    @display(description=_("members"), ordering="member_count")
    def members(self, row: Any) -> int:
        return int(row.member_count)


@register(Department)
class DepartmentAdmin(ScopedAdmin):
    """The department tree."""

    list_display = ["name", "parent", "workspace"]
    search_fields = ["name"]
    fields = ["workspace", "parent", "name"]
    ordering = ["lineage"]
    changeable = ("parent",)
    addable = True
    actions = ["delete_chosen"]

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        kwargs["queryset"] = scoped(request, db_field.related_model)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def apply(self, request: HttpRequest, row: Any, changes: dict[str, Any]) -> None:
        if row.pk is None:
            row.pk = people.create_department(asker(request), row.workspace, row.name, row.parent).pk
        elif "parent" in changes:
            people.move_department(asker(request), Department.objects.get(pk=row.pk), changes["parent"])

    @action(description=_("Delete (empty ones)"))
    def delete_chosen(self, request: HttpRequest, rows: QuerySet[Department]) -> None:
        self.each(request, rows, people.delete_department, _("%(count)s deleted."))  # type: ignore[arg-type]


def scoped(request: HttpRequest, model: Any) -> QuerySet[Any]:
    """The rows of another model that this person may choose."""
    from django.contrib import admin

    return admin.site._registry[model].get_queryset(request)


@register(User)
class UserAdmin(ScopedAdmin):
    """People. The rows are the operator's, who makes them; a workspace admin reads those of the own members."""

    list_display = ["username", "display_name", "email", "active", "last_login"]
    list_filter = ["is_active"]
    search_fields = ["username", "display_name", "email"]
    fields = ["username", "display_name", "email", "language", "is_active", "is_superuser", "last_login", "date_joined"]
    actions = ["activate", "deactivate"]
    addable = True

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return is_operator(request)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fields[:4] if obj is None else self.fields

    def apply(self, request: HttpRequest, row: Any, changes: dict[str, Any]) -> None:
        password = secrets.token_urlsafe(12)
        row.pk = people.create_person(
            row.username, password, **{k: v for k, v in changes.items() if k != "username"}
        ).pk
        self.message_user(
            request,
            _("Password of %(name)s, shown once: %(password)s") % {"name": row.username, "password": password},
            messages.WARNING,
        )

    def rows(self, request: HttpRequest) -> QuerySet[Any]:
        principal = asker(request)
        if is_operator(request) or principal is None:
            return User.objects.all() if is_operator(request) else User.objects.none()
        return User.objects.filter(memberships__workspace_id=principal.workspace_id)

    def get_actions(self, request: HttpRequest) -> Any:
        return super().get_actions(request) if is_operator(request) else {}

    @display(description=_("active"), boolean=True)
    def active(self, row: User) -> bool:
        return row.is_active

    @action(description=_("Let sign in"))
    def activate(self, request: HttpRequest, rows: QuerySet[User]) -> None:
        for row in rows:
            people.set_active(asker(request), row, True)

    @action(description=_("Lock out everywhere"))
    def deactivate(self, request: HttpRequest, rows: QuerySet[User]) -> None:
        for row in rows:
            people.set_active(asker(request), row, False)


class NewMemberForm(forms.ModelForm):  # type: ignore[type-arg]
    """A membership for a person named by their exact user name."""

    username = forms.CharField(label=_("user name"), max_length=150, widget=UnfoldAdminTextInputWidget)

    class Meta:
        model = Membership
        fields = ["workspace", "role", "department"]

    def clean_username(self) -> str:
        """Sets the person of the membership; an unknown name is an error of the field."""
        user = User.objects.filter(username__iexact=self.cleaned_data["username"].strip(), is_active=True).first()
        if user is None:
            raise forms.ValidationError(_("There is no such person; ask the operator to make the account."))
        self.instance.user = user
        return user.username


@register(Membership)
class MembershipAdmin(ScopedAdmin):
    """Who belongs to the workspace, as what, in which department."""

    list_display = ["user", "role_badge", "department", "workspace", "created_at"]
    list_filter = ["role", ("department", RelatedOnlyFieldListFilter)]
    search_fields = ["user__username", "user__display_name"]
    fields = ["workspace", "user", "role", "department", "created_at"]
    changeable = ("role", "department")
    addable = True
    actions = ["remove"]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fields[:-1] if obj is None else self.fields

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        kwargs["queryset"] = scoped(request, db_field.related_model)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        # A workspace admin does not see who else has an account: people are added by their exact user name.
        if obj is None and not is_operator(request):
            kwargs["form"], kwargs["fields"] = NewMemberForm, ["workspace", "role", "department"]
            return type("NewMember", (super().get_form(request, obj, change, **kwargs),), {})
        return super().get_form(request, obj, change, **kwargs)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None and not is_operator(request):
            return [(None, {"fields": ["workspace", "username", "role", "department"]})]
        return super().get_fieldsets(request, obj)

    def apply(self, request: HttpRequest, row: Any, changes: dict[str, Any]) -> None:
        made = people.set_membership(
            asker(request), row.workspace, row.user, role=Membership.Role(row.role), department=row.department
        )
        row.pk = made.pk

    @display(description=_("role"), label={"admin": "warning", "member": "info"})
    def role_badge(self, row: Membership) -> tuple[str, str]:
        return row.role, row.get_role_display()

    @action(description=_("Remove from the workspace"))
    def remove(self, request: HttpRequest, rows: QuerySet[Membership]) -> None:
        self.each(request, rows, people.remove_membership, _("%(count)s removed."))  # type: ignore[arg-type]


@register(ApiKey)
class ApiKeyAdmin(ScopedAdmin):
    """Keys, without their secrets."""

    list_display = ["name", "prefix", "owner", "scopes", "last_used_at", "expires_at", "revoked_at"]
    list_filter = [("expires_at", RangeDateTimeFilter), ("revoked_at", RangeDateTimeFilter)]
    search_fields = ["name", "prefix", "owner__username"]
    exclude = ["digest"]
    actions = ["revoke"]

    @action(description=_("Revoke"))
    def revoke(self, request: HttpRequest, rows: QuerySet[ApiKey]) -> None:
        self.each(request, rows, keys.revoke, _("%(count)s revoked."))  # type: ignore[arg-type]


@register(Notification)
class NotificationAdmin(ScopedAdmin):
    """What people were told. Only kinds and times: the words belong to the people."""

    list_display = ["created_at", "user", "kind", "read_at"]
    list_filter = ["kind"]
    fields = ["user", "kind", "created_at", "read_at"]
