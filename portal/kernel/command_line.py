"""Who a command speaks for, and how it prints: JSON on standard output and nothing else, or words for people."""

from __future__ import annotations

import json
import sys
from typing import Any

from django.core.management.base import CommandError

from portal.kernel.models import Membership, User, Workspace
from portal.kernel.principal import Principal, for_user


def principal_for(username: str | None, workspace_name: str | None = None) -> Principal:
    """The principal of `--as USER`, or of the first admin of the workspace: whoever has the shell has the data."""
    memberships = Membership.objects.filter(user__is_active=True).select_related("user", "workspace").order_by("id")
    if workspace_name:
        memberships = memberships.filter(workspace__name=workspace_name)
        if not Workspace.objects.filter(name=workspace_name).exists():
            raise CommandError(f"There is no workspace named {workspace_name!r}.")
    if username:
        if not User.objects.filter(username=username).exists():
            raise CommandError(f"There is no person named {username!r}.")
        memberships = memberships.filter(user__username=username)
    else:
        memberships = memberships.filter(role=Membership.Role.ADMIN)
    chosen = memberships.first()
    if chosen is None:
        raise CommandError("There is no such member of a workspace; run `manage.py seed` or create one in the admin.")
    return for_user(chosen.user, door="command", workspace_uid=chosen.workspace.uid)


def print_json(value: Any) -> None:
    """One JSON object on standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


class Progress:
    """A progress bar on a terminal, nothing elsewhere; on standard error, so that JSON stays alone."""

    def __init__(self, total: int, label: str) -> None:
        self.total, self.label = max(total, 1), label
        self.shown = sys.stderr.isatty()

    def at(self, done: int, note: str = "") -> None:
        if not self.shown:
            return
        filled = int(30 * min(done, self.total) / self.total)
        bar = "#" * filled + "." * (30 - filled)
        sys.stderr.write(f"\r{self.label} [{bar}] {done}/{self.total} {note[:40]:<40}")
        sys.stderr.flush()

    def end(self) -> None:
        if self.shown:
            sys.stderr.write("\n")
