"""Credentials and master keys in the admin: secrets go in and are never shown."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.admin import SimpleListFilter
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action, display
from unfold.widgets import UnfoldAdminPasswordWidget

from portal.kernel.admin_door import ScopedAdmin, asker, is_operator, register
from portal.kernel.errors import ArchwayError
from portal.kernel.models import Credential, MasterKey
from portal.kernel.secrets import rotation, verbs, watch
from portal.kernel.secrets.hosts import host_of


class CredentialForm(forms.ModelForm):  # type: ignore[type-arg]
    """What a person may say about a credential. An empty secret leaves the one that is there."""

    secret = forms.CharField(
        label=_("Secret"),
        required=False,
        max_length=verbs.LONGEST,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password", "spellcheck": "false"}),
        help_text=_("It is sealed at once and never shown again. A secret goes only to the host it was given for."),
    )

    class Meta:
        model = Credential
        fields = ["workspace", "name", "host", "expires_at"]
        help_texts = {"host": _("Such as api.example.com, or the whole address of the service.")}

    def clean_host(self) -> str:
        try:
            return host_of(self.cleaned_data["host"])
        except ArchwayError as error:
            raise forms.ValidationError(error.sentence()) from error

    def clean(self) -> dict[str, Any]:
        """A new credential, or another host, wants the secret."""
        data = super().clean() or {}
        new = self.instance._state.adding
        moved = not new and data.get("host") not in (None, self.initial.get("host"))
        if not data.get("secret") and (new or moved):
            sentence = (
                _("Give the secret again: it goes only to the host that it was given for.")
                if moved
                else _("Give the secret.")
            )
            self.add_error("secret", forms.ValidationError(sentence))
        return data


class AttentionFilter(SimpleListFilter):
    """Those that somebody should look at."""

    title = _("needs attention")
    parameter_name = "attention"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("1", _("Yes"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(watch.needs_attention(timezone.now())) if self.value() else queryset


class StateFilter(SimpleListFilter):
    """Active, expired, revoked."""

    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return list(Credential.State.choices)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        expired = Q(expires_at__lte=timezone.now())
        living = queryset.filter(revoked_at__isnull=True)
        chosen = {
            Credential.State.ACTIVE.value: living.exclude(expired),
            Credential.State.EXPIRED.value: living.filter(expired),
            Credential.State.REVOKED.value: queryset.filter(revoked_at__isnull=False),
        }
        return chosen.get(self.value() or "", queryset)


@register(Credential)
class CredentialAdmin(ScopedAdmin):
    """Secrets of other people's services. Those without a workspace are the installation's, and the operator's."""

    form = CredentialForm
    list_display = ["name", "host", "state_badge", "health_badge", "ending", "workspace", "created_at", "last_used_at", "expires_at"]  # fmt: skip  # noqa: E501
    list_filter = [AttentionFilter, StateFilter]
    search_fields = ["name", "host"]
    list_select_related = ["workspace"]
    fields = [
        "workspace", "name", "host", "secret", "expires_at", "reference", "state_word", "health_word", "ending",
        "fingerprint", "created_by", "created_at", "replaced_at", "last_used_at", "exposed_at", "key_id", "sealed_at",
        "checked_at",
    ]  # fmt: skip
    readonly_fields = ["reference", "state_word", "health_word", "ending"]
    changeable = ("name", "host", "secret", "expires_at")
    addable = True
    actions = ["reseal", "examine", "expose", "revoke"]

    def rows(self, request: HttpRequest) -> QuerySet[Any]:
        """Listed without what is sealed: nothing is opened, nor even fetched, to show a list."""
        return super().rows(request).defer("ciphertext", "wrapped_key")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        hidden = set(self.fields[5:]) if obj is None else set()
        if not is_operator(request):
            hidden.add("workspace")
        return [name for name in self.fields if name not in hidden]

    def apply(self, request: HttpRequest, row: Any, changes: dict[str, Any]) -> None:
        principal = asker(request)
        if not row._state.adding:
            verbs.change(
                principal,
                Credential.objects.get(pk=row.pk),
                name=row.name,
                value=changes.get("secret", ""),
                host=row.host,
                expires_at=row.expires_at,
            )
            return
        workspace_id = row.workspace_id if is_operator(request) else principal.workspace_id if principal else None
        made = verbs.create(
            principal,
            name=row.name,
            value=changes.get("secret", ""),
            host=row.host,
            workspace_id=workspace_id,
            expires_at=row.expires_at,
        )
        row.pk = made.pk

    @display(description=_("reference"))
    def reference(self, row: Credential) -> str:
        return row.reference

    @display(description=_("state"), label={"active": "success", "expired": "warning", "revoked": "danger"})
    def state_badge(self, row: Credential) -> tuple[str, str]:
        return row.state.value, str(row.state.label)

    @display(description=_("health"), label={"good": "success", "unreadable": "danger", "": "info"})
    def health_badge(self, row: Credential) -> tuple[str, str]:
        # Nothing is left of a revoked one that could be opened.
        return ("", "—") if row.revoked_at else (row.health, row.get_health_display())

    @display(description=_("state"))
    def state_word(self, row: Credential) -> str:
        return str(row.state.label)

    @display(description=_("health"))
    def health_word(self, row: Credential) -> str:
        return str(self.health_badge(row)[1])

    @display(description=_("ends with"))
    def ending(self, row: Credential) -> str:
        return f"…{row.hint}" if row.hint else "—"

    @action(description=_("Seal anew"))
    def reseal(self, request: HttpRequest, rows: QuerySet[Credential]) -> None:
        self.each(request, rows, verbs.reseal, _("%(count)s sealed anew."))  # type: ignore[arg-type]

    @action(description=_("Check whether they can be opened"))
    def examine(self, request: HttpRequest, rows: QuerySet[Credential]) -> None:
        found = watch.check_health(rows)
        self.message_user(
            request, _("%(good)s can be opened, %(bad)s can not.") % {"good": found["good"], "bad": found["unreadable"]}
        )

    @action(description=_("Mark as known to strangers"))
    def expose(self, request: HttpRequest, rows: QuerySet[Credential]) -> None:
        self.each(request, rows, verbs.mark_exposed, _("%(count)s marked."))  # type: ignore[arg-type]

    @action(description=_("Revoke and destroy"))
    def revoke(self, request: HttpRequest, rows: QuerySet[Credential]) -> None:
        self.each(request, rows, verbs.revoke, _("%(count)s revoked."))  # type: ignore[arg-type]


@register(MasterKey)
class MasterKeyAdmin(ScopedAdmin):
    """Which master keys seal values, and how many. The keys themselves are elsewhere."""

    operator_only = True
    list_display = ["key_id", "state", "sealed_rows", "first_used_at", "retired_at"]
    fields = ["key_id", "state", "first_used_at", "retired_at"]

    @display(description=_("sealed rows"))
    def sealed_rows(self, row: MasterKey) -> int:
        return rotation.usage()[row.key_id]
