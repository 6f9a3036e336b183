"""What every page's frame shows: where one may go, what runs and waits, whose workspace this is.

Everything is worked out when a template asks for it, so fragments and errors pay for nothing they do not show.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from django.http import HttpRequest
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _

from knowledge import notices, worklist
from knowledge.access import visible_bases
from knowledge.models import Role
from portal.gateway import addresses
from portal.kernel.models import Membership, User, Workspace
from portal.kernel.principal import Principal

THEMES = ("auto", "light", "dark")
# name, address, icon, the letter after `g`
PLACES = (
    (_("Home"), "/", "home", "h"),
    (_("Bases"), "/bases/", "bases", "b"),
    (_("Ask"), "/ask/", "ask", "a"),
    (_("Tasks"), "/tasks/", "tasks", "t"),
)


def theme_of(request: HttpRequest) -> str:
    """The theme that the page is rendered in: auto, light or dark."""
    wanted = request.COOKIES.get("theme", "auto")
    return wanted if wanted in THEMES else "auto"


class Shell:
    """The frame's facts for one request."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        self.principal: Principal | None = getattr(request, "principal", None)
        self.theme = theme_of(request)
        self.themes = (("auto", _("Like the system")), ("light", _("Light")), ("dark", _("Dark")))

    @property
    def layout(self) -> str:
        """The frame with side bar for people with a workspace, the bare one for everybody else."""
        return "base.html" if self.principal else "bare.html"

    @property
    def language(self) -> str:
        return get_language() or "en"

    @property
    def other_language(self) -> tuple[str, str]:
        """Code and own name of the language to switch to."""
        return ("en", "English") if self.language.startswith("zh") else ("zh-hans", "中文")

    @cached_property
    def person(self) -> User:
        return self._request.user  # type: ignore[return-value]

    @property
    def places(self) -> list[dict[str, Any]]:
        path = self._request.path
        return [
            {
                "name": name,
                "address": address,
                "icon": icon,
                "key": key,
                "current": path == address if address == "/" else path.startswith(address),
            }
            for name, address, icon, key in PLACES
        ]

    @property
    def demo_model(self) -> bool:
        """Whether the demo model runs: pages say so, since answers may be its."""
        return bool(addresses.demo_url())

    @cached_property
    def running(self) -> int:
        if self.principal is None:
            return 0
        return worklist.tasks(self.principal).filter(bucket=worklist.RUNNING).count()

    @cached_property
    def needs(self) -> worklist.Needs:
        return worklist.needs(self.principal) if self.principal else worklist.Needs()

    @cached_property
    def unread(self) -> int:
        if self.principal is None:
            return 0
        return notices.unread_count(self.principal)

    @cached_property
    def workspaces(self) -> list[Workspace]:
        """The workspaces that the person may switch between, oldest membership first."""
        memberships = Membership.objects.filter(user=self.person).select_related("workspace").order_by("id")
        return [membership.workspace for membership in memberships]

    @cached_property
    def workspace(self) -> Workspace | None:
        current = self.principal.workspace_id if self.principal else None
        return next((workspace for workspace in self.workspaces if workspace.pk == current), None)

    @cached_property
    def may_make_bases(self) -> bool:
        return self.principal is not None and self.principal.has("kb:manage") and self.principal.base_ids is None

    @cached_property
    def edits_something(self) -> bool:
        return self.principal is not None and visible_bases(self.principal, Role.EDITOR).exists()


def shell(request: HttpRequest) -> dict[str, Any]:
    """The context processor: one lazy value."""
    return {"shell": Shell(request)}
