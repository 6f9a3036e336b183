"""What every page's frame shows."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest


def shell(request: HttpRequest) -> dict[str, Any]:
    """Nothing yet for people who are not signed in."""
    return {}
