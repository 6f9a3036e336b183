"""Small rules for reading requests that all doors of programs share."""

from __future__ import annotations

import re
from typing import Any, cast

from rest_framework.request import Request

from portal.kernel.principal import Principal

_HALVES = re.compile("[\ud800-\udfff]")


def asker(request: Request) -> Principal:
    """Who asks; `HasPrincipal` has made sure that there is somebody."""
    return cast(Principal, request.auth)


def checked(serializer: Any) -> dict[str, Any]:
    """The validated data of a serializer; raises DRF's `ValidationError`, which `rest.problem` words."""
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)


def encodable(value: Any) -> Any:
    """A copy of what JSON gave, with U+FFFD for each half of a character that stands alone.

    JSON can write such halves (`"\\ud83d"`), but neither PostgreSQL, a provider nor an error that repeats them can.
    """
    if isinstance(value, str):
        return value if value.isascii() else _HALVES.sub("\ufffd", value)
    if isinstance(value, dict):
        return {encodable(name): encodable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [encodable(item) for item in value]
    return value
