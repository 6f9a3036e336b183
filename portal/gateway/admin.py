"""Model endpoints and embedding spaces in the admin."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from portal.gateway.models import EmbeddingSpace, ModelEndpoint
from portal.kernel import audit
from portal.kernel.admin_door import ScopedAdmin, asker, is_operator, register
from portal.kernel.errors import Denied, Invalid
from portal.kernel.secrets import require_usable
from portal.kernel.secrets.revealing import ENVIRONMENT, SEALED


@register(ModelEndpoint)
class ModelEndpointAdmin(ScopedAdmin):
    """Models that can be called. Shared ones (without a workspace) are the operator's."""

    list_display = ["name", "kind", "provider", "model_name", "workspace", "state"]
    list_filter = ["kind", "provider", "enabled"]
    search_fields = ["name", "model_name"]
    fields = [
        "workspace", "name", "kind", "provider", "model_name", "base_url", "credential", "context_size", "space",
        "timeout_seconds", "enabled", "is_default",
    ]  # fmt: skip
    changeable = ("name", "model_name", "base_url", "credential", "context_size", "timeout_seconds", "enabled")
    addable = True

    def rows(self, request: HttpRequest) -> QuerySet[Any]:
        if is_operator(request):
            return ModelEndpoint.objects.all()
        principal = asker(request)
        own = Q(workspace_id=principal.workspace_id) if principal else Q(pk__in=[])
        return ModelEndpoint.objects.filter(own | Q(workspace__isnull=True))

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        hidden = {"space", "is_default"} if obj is None else set()
        if not is_operator(request):
            hidden.add("workspace")
        return [name for name in self.fields if name not in hidden]

    def apply(self, request: HttpRequest, row: Any, changes: dict[str, Any]) -> None:
        if not is_operator(request):
            principal = asker(request)
            if principal is None or (row.pk and row.workspace_id is None):
                raise Denied("Shared endpoints are changed by the operator.", code="operator_only")
            row.workspace_id = principal.workspace_id
        if row.credential and not row.credential.startswith((SEALED, ENVIRONMENT)):
            raise Invalid("A credential is a reference such as env://NAME, never the secret.", code="not_a_reference")
        if row.base_url:
            # An address on another host needs its secret given again: the old one was for the old host.
            require_usable(row.credential, host=row.base_url, workspace_id=row.workspace_id)
        row.save()
        audit.record(
            asker(request), "endpoint.save", row, workspace_id=row.workspace_id, fields=sorted(changes), name=row.name
        )

    @display(description=_("state"), label={"on": "success", "off": "danger"})
    def state(self, row: ModelEndpoint) -> tuple[str, str]:
        return ("on", str(_("enabled"))) if row.enabled else ("off", str(_("disabled")))


@register(EmbeddingSpace)
class EmbeddingSpaceAdmin(ScopedAdmin):
    """Vector spaces: made by endpoints, the same for everybody."""

    operator_only = True
    list_display = ["key", "dimensions"]
    fields = ["key", "dimensions"]
