"""The admin as a door like the others: rows scoped to the asker's workspace, changes made by the same verbs.

A workspace admin sees their workspace; the operator (a superuser) sees all of them. Forms show
everything and change only the fields that a class names in `changeable`; `apply` hands them to a verb.
Foreign and missing rows look alike: 404.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.contrib.admin.utils import flatten
from django.db.models import Model, QuerySet
from django.db.models.constants import LOOKUP_SEP
from django.forms import ModelForm
from django.http import Http404, HttpRequest, HttpResponse
from unfold.admin import ModelAdmin

from portal.kernel.errors import ArchwayError
from portal.kernel.models import AuditEntry, User
from portal.kernel.principal import Principal, is_workspace_admin


def asker(request: HttpRequest) -> Principal | None:
    """Who is at the admin; None for an operator without a workspace."""
    return cast("Principal | None", getattr(request, "principal", None))


def is_operator(request: HttpRequest) -> bool:
    """Whether the person runs the installation."""
    return bool(request.user.is_active and getattr(request.user, "is_superuser", False))


def may_enter(request: HttpRequest) -> bool:
    """Operators and admins of the workspace they are in."""
    principal = asker(request)
    return is_operator(request) or (principal is not None and is_workspace_admin(principal))


class ScopedAdmin(ModelAdmin):
    """A `ModelAdmin` whose rows come from `rows(request)` and whose changes go through verbs."""

    workspace_path = "workspace_id"
    operator_only = False
    changeable: tuple[str, ...] = ()
    addable = False
    list_filter_submit = True
    list_fullwidth = True
    warn_unsaved_form = True
    compressed_fields = True
    list_per_page = 50
    show_full_result_count = False

    def rows(self, request: HttpRequest) -> QuerySet[Any]:
        """What the asker may see here."""
        rows: QuerySet[Any] = self.model._default_manager.all()
        if is_operator(request):
            return rows
        principal = asker(request)
        if principal is None or self.operator_only:
            return rows.none()
        return rows.filter(**{self.workspace_path: principal.workspace_id})

    def apply(self, request: HttpRequest, row: Any, changes: dict[str, Any]) -> None:
        """Carry out the change of a form by a verb; classes with `changeable` or `addable` fields say how."""
        raise ArchwayError("This can not be changed here.", code="read_only")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return self.rows(request)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Only columns that are shown may be asked for: Django would let anybody guess the others letter by letter."""
        columns = {field.name for field in self.model._meta.get_fields()}
        shown = {*flatten(self.fields), "id"} if self.fields else columns - set(self.exclude or ())
        column = lookup.partition(LOOKUP_SEP)[0]
        hidden = column in columns - shown - {str(name) for name in self.get_list_display(request)}
        return not hidden and super().lookup_allowed(lookup, value, request)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return is_operator(request) if self.operator_only else may_enter(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_module_permission(request)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.addable and self.has_module_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(self.changeable) and self.has_module_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        if obj is None and self.addable:
            return []
        # Without `fields`, `get_fields` would come back here to ask.
        shown = self.get_fields(request, obj) if self.fields and not self.fieldsets else []
        columns = [field.name for field in self.model._meta.fields if field.name not in (self.exclude or ())]
        named = [name for name in shown if isinstance(name, str)] or columns
        extra = [name for name in self.readonly_fields if isinstance(name, str)]
        return sorted({*named, *extra} - set(self.changeable))

    def save_model(self, request: HttpRequest, obj: Any, form: ModelForm[Any], change: bool) -> None:
        self.apply(request, obj, {name: form.cleaned_data[name] for name in form.changed_data})

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except ArchwayError as error:
            self.message_user(request, error.sentence(), messages.ERROR)
            from django.shortcuts import redirect

            return redirect(request.path)

    def _get_obj_does_not_exist_redirect(self, request: HttpRequest, opts: Any, object_id: str) -> HttpResponse:
        raise Http404

    def history_view(self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None) -> Any:
        """Our audit log instead of Django's own log of forms."""
        row = self.get_object(request, object_id)
        if row is None:
            raise Http404
        entries = AuditEntry.objects.filter(
            object_type=self.model._meta.model_name, object_id=str(getattr(row, "uid", row.pk))
        )
        if not is_operator(request):
            # A person may belong to other workspaces too, whose entries are theirs.
            principal = asker(request)
            entries = entries.filter(workspace_id=principal.workspace_id if principal else 0)
        context = {**(extra_context or {}), "audit_entries": entries.select_related("actor")[:200]}
        return super().history_view(request, object_id, context)

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Nothing: verbs write the audit log."""

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Nothing: verbs write the audit log."""

    def log_deletions(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        """Nothing: verbs write the audit log."""

    def each(
        self, request: HttpRequest, rows: Iterable[Model], verb: Callable[[Principal, Any], object], done: str
    ) -> None:
        """Run a verb on the chosen rows; one sentence for those done, one for each kind of refusal."""
        principal = asker(request)
        if principal is None:
            self.message_user(request, "Join a workspace first.", messages.ERROR)
            return
        count, refusals = 0, set()
        for row in rows:
            try:
                verb(principal, row)
                count += 1
            except ArchwayError as error:
                refusals.add(error.sentence())
        if count:
            self.message_user(request, done % {"count": count}, messages.SUCCESS)
        for sentence in sorted(refusals):
            self.message_user(request, sentence, messages.ERROR)


def register(model: type[Model], site: AdminSite | None = None) -> Callable[[type[ScopedAdmin]], type[ScopedAdmin]]:
    """`admin.register`, typed for scoped classes."""
    from django.contrib import admin

    def decorate(cls: type[ScopedAdmin]) -> type[ScopedAdmin]:
        (site or admin.site).register(model, cls)
        return cls

    return decorate


def person(request: HttpRequest) -> User:
    """The signed-in person."""
    return cast(User, request.user)
