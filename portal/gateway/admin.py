"""Model endpoints and embedding spaces in the admin."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST
from unfold.decorators import action, display
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from portal.gateway import verbs
from portal.gateway.models import EmbeddingSpace, ModelEndpoint
from portal.gateway.probe import Probe, probe
from portal.gateway.usage.admin import QuotaAdmin, UsageDayAdmin, UsageRecordAdmin
from portal.kernel.admin_door import ScopedAdmin, asker, is_operator, register
from portal.kernel.errors import Denied
from portal.kernel.secrets.revealing import ENVIRONMENT, SEALED

__all__ = ["EmbeddingSpaceAdmin", "ModelEndpointAdmin", "QuotaAdmin", "UsageDayAdmin", "UsageRecordAdmin"]

PLACES = ("fallback_1", "fallback_2", "fallback_3")
_SHOWN_MODELS = 12
_CHANGEABLE = (
    "name", "model_name", "base_url", "credential", "context_size", "max_output_tokens", "parameters",
    "connect_seconds", "first_token_seconds", "timeout_seconds", "total_seconds", "max_running", "per_minute",
    "input_price", "cached_price", "output_price", "call_price", "enabled", "is_default",
)  # fmt: skip


def _place(number: int) -> forms.ModelChoiceField[ModelEndpoint]:
    return forms.ModelChoiceField(
        ModelEndpoint.objects.none(),
        required=False,
        label=_("Fallback %(number)s") % {"number": number},
        widget=UnfoldAdminSelectWidget,
    )


class ReferenceInput(UnfoldAdminTextInputWidget):
    """Shows references only: a secret that somebody typed here by mistake does not come back with the form."""

    def format_value(self, value: Any) -> Any:
        return super().format_value(value) if str(value or "").startswith((SEALED, ENVIRONMENT)) else None


class EndpointForm(forms.ModelForm):  # type: ignore[type-arg]
    """An endpoint, and who answers in its place, in order."""

    fallback_1, fallback_2, fallback_3 = (_place(number) for number in (1, 2, 3))

    class Meta:
        model = ModelEndpoint
        fields = ["workspace", "kind", "provider", *_CHANGEABLE]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            rows = self.instance.fallback_rows.select_related("fallback")
            for name, row in zip(PLACES, rows, strict=False):
                self.initial[name] = row.fallback_id


@register(ModelEndpoint)
class ModelEndpointAdmin(ScopedAdmin):
    """Models that can be called. Shared ones (without a workspace) are the operator's."""

    form = EndpointForm
    list_display = ["name", "kind", "provider", "model_name", "workspace", "state", "last_test"]
    list_filter = ["kind", "provider", "enabled"]
    search_fields = ["name", "model_name"]
    list_select_related = ["workspace"]
    fields = ["workspace", "name", "kind", "provider", *_CHANGEABLE[1:], "space", "last_test", *PLACES]
    readonly_fields = ["last_test"]
    changeable = (*_CHANGEABLE, *PLACES)
    addable = True
    actions = ["try_chosen"]
    change_form_outer_before_template = "admin/gateway/try_endpoint.html"

    def rows(self, request: HttpRequest) -> QuerySet[Any]:
        if is_operator(request):
            return ModelEndpoint.objects.all()
        principal = asker(request)
        own = Q(workspace_id=principal.workspace_id) if principal else Q(pk__in=[])
        return ModelEndpoint.objects.filter(own | Q(workspace__isnull=True))

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        hidden = {"space", "last_test"} if obj is None else set()
        if not is_operator(request):
            hidden.add("workspace")
        return [name for name in self.fields if name not in hidden]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """A workspace's admin reads shared endpoints."""
        if obj is not None and not self._may_change(request, obj):
            return [name for name in self.get_fields(request, obj) if name not in PLACES]
        return super().get_readonly_fields(request, obj)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        choices = self.rows(request)
        if obj is not None:
            choices = choices.filter(kind=obj.kind).exclude(pk=obj.pk)
        for name in PLACES:
            form.base_fields[name].queryset = choices
        if "credential" in form.base_fields:
            form.base_fields["credential"].widget = ReferenceInput()
        return form

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and (obj is None or self._may_change(request, obj))

    def _may_change(self, request: HttpRequest, row: Any) -> bool:
        principal = asker(request)
        return is_operator(request) or (principal is not None and row.workspace_id == principal.workspace_id)

    def apply(self, request: HttpRequest, row: Any, changes: dict[str, Any]) -> None:
        if not is_operator(request):
            principal = asker(request)
            if principal is None or (row.pk and row.workspace_id is None):
                raise Denied("Shared endpoints are changed by the operator.", code="operator_only")
            row.workspace_id = principal.workspace_id
        fallbacks = None
        if not set(PLACES).isdisjoint(changes):
            before = dict(zip(PLACES, self._fallbacks(row), strict=False))
            chosen = [changes.get(name, before.get(name)) for name in PLACES]
            fallbacks = [fallback for fallback in chosen if fallback is not None]
        verbs.save_endpoint(asker(request), row, fallbacks=fallbacks, fields=sorted(changes))

    @staticmethod
    def _fallbacks(row: ModelEndpoint) -> list[ModelEndpoint]:
        return [each.fallback for each in row.fallback_rows.select_related("fallback")] if row.pk else []

    @display(description=_("state"), label={"on": "success", "off": "danger"})
    def state(self, row: ModelEndpoint) -> tuple[str, str]:
        return ("on", str(_("enabled"))) if row.enabled else ("off", str(_("disabled")))

    @display(description=_("last test"), label={"ok": "success", "bad": "danger", "none": "info"})
    def last_test(self, row: ModelEndpoint) -> tuple[str, str]:
        if row.checked_at is None:
            return ("none", str(_("never")))
        if row.check_code:
            return ("bad", row.check_code)
        return ("ok", f"{row.check_milliseconds} ms")

    # -- trying out ---------------------------------------------------------------------------
    def get_urls(self) -> list[URLPattern]:
        own = path(
            "<int:pk>/try/", self.admin_site.admin_view(require_POST(self.try_one)), name="gateway_modelendpoint_try"
        )
        return [own, *super().get_urls()]

    def try_one(self, request: HttpRequest, pk: int) -> HttpResponse:
        """The button on an endpoint's page."""
        endpoint = self.rows(request).filter(pk=pk).first()
        if endpoint is None or not self._may_change(request, endpoint):
            raise Http404
        self._tell(request, endpoint, probe(asker(request), endpoint))
        return redirect(reverse("admin:gateway_modelendpoint_change", args=[pk]))

    @action(description=_("Test the connection"))
    def try_chosen(self, request: HttpRequest, rows: QuerySet[ModelEndpoint]) -> None:
        for endpoint in rows[:20]:
            if self._may_change(request, endpoint):
                self._tell(request, endpoint, probe(asker(request), endpoint))

    def _tell(self, request: HttpRequest, endpoint: ModelEndpoint, found: Probe) -> None:
        sentences = [f"{endpoint.name}: {found.sentence}"]
        if found.ok:
            sentences.append(_("It took %(milliseconds)s ms.") % {"milliseconds": found.milliseconds})
        else:
            sentences.append(_("Code: %(code)s.") % {"code": found.code})
        if found.nearest:
            sentences.append(_("Did you mean %(names)s?") % {"names": ", ".join(found.nearest)})
        elif found.models:
            shown = ", ".join(found.models[:_SHOWN_MODELS])
            more = " …" if len(found.models) > _SHOWN_MODELS else ""
            sentences.append(
                _("Models there (%(count)s): %(names)s") % {"count": len(found.models), "names": shown + more}
            )
        self.message_user(
            request, " ".join(str(sentence) for sentence in sentences), messages.SUCCESS if found.ok else messages.ERROR
        )


@register(EmbeddingSpace)
class EmbeddingSpaceAdmin(ScopedAdmin):
    """Vector spaces: made by endpoints, the same for everybody."""

    operator_only = True
    list_display = ["key", "dimensions"]
    fields = ["key", "dimensions"]
