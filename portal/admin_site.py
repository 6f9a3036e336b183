"""The admin site: a door like the others, scoped to the workspace of the person."""

from __future__ import annotations

from unfold.sites import UnfoldAdminSite


class ArchwayAdminSite(UnfoldAdminSite):
    """Unfold's site under our name."""
