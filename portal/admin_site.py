"""The admin site: a door like the others, for operators and workspace admins; strangers get a 404."""

from __future__ import annotations

from functools import update_wrapper
from typing import Any

from django.contrib.auth.models import Group
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _
from django_celery_results.models import ChordCounter, GroupResult, TaskResult
from unfold.sites import UnfoldAdminSite

from portal.kernel.admin_door import may_enter

# Task results stand in our own tables, per workspace, and rights come from memberships and grants.
LEFT_OUT = (TaskResult, GroupResult, ChordCounter, Group)


class ArchwayAdminSite(UnfoldAdminSite):
    """Unfold's site under our name, with our rule about who may enter."""

    index_title = _("Overview")

    def has_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_authenticated and may_enter(request))

    def register(self, model_or_iterable: Any, admin_class: Any = None, **options: Any) -> None:
        given = model_or_iterable if isinstance(model_or_iterable, list | tuple) else [model_or_iterable]
        super().register([model for model in given if model not in LEFT_OUT], admin_class, **options)

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """Strangers who are signed in see nothing here; nobody is sent to our own sign-in page."""
        guarded = super().admin_view(view, cacheable)

        def inner(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            if not self.has_permission(request):
                return self.login(request)
            return guarded(request, *args, **kwargs)

        return update_wrapper(inner, guarded)

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.user.is_authenticated:
            raise Http404
        return redirect_to_login(request.GET.get("next", request.get_full_path()))


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """What failed, what is stuck, what is slow, and counts by day."""
    from portal.dashboard import numbers

    return {**context, **numbers(request)}
