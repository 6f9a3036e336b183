"""Small rules for reading requests that every REST view shares."""

from __future__ import annotations

from typing import Any, cast

from rest_framework.request import Request

from portal.kernel.principal import Principal


def asker(request: Request) -> Principal:
    """Who asks; `HasPrincipal` has made sure that there is somebody."""
    return cast(Principal, request.auth)


def checked(serializer: Any) -> dict[str, Any]:
    """The validated data of a serializer; raises DRF's `ValidationError`, which `rest.problem` words."""
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)
