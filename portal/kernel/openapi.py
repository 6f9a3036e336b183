"""What the OpenAPI schema says about signing in."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension


class PrincipalScheme(OpenApiAuthenticationExtension):
    """Tells the OpenAPI schema about `PrincipalAuthentication`."""

    target_class = "portal.kernel.rest.PrincipalAuthentication"
    name = ["bearerKey", "apiKeyHeader", "session"]

    def get_security_definition(self, auto_schema: Any) -> list[dict[str, Any]]:
        return [
            {"type": "http", "scheme": "bearer"},
            {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            {"type": "apiKey", "in": "cookie", "name": "sessionid"},
        ]
