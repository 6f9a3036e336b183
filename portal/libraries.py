"""How libraries are set up where no environment variable has a say: REST, its schema, the look of the admin."""

from __future__ import annotations

from typing import Any

from django.templatetags.static import static
from django.utils.translation import gettext_lazy as _

REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["portal.kernel.rest.PrincipalAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["portal.kernel.rest.HasPrincipal"],
    "DEFAULT_PARSER_CLASSES": ["portal.kernel.rest.JsonParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PAGINATION_CLASS": "portal.kernel.rest.Pages",
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "portal.kernel.rest.problem",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
    "PAGE_SIZE": 50,
}
SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "Archway",
    "DESCRIPTION": "Permitted, cited, reproducible answers from a company's documents.",
    "VERSION": "1",
    # The documentation's scripts come with a package: pages load nothing from elsewhere.
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_NAME_OVERRIDES": {
        "BaseRole": "knowledge.models.Role",
        "WorkspaceRole": "portal.kernel.models.Membership.Role",
        "WorkStatus": "knowledge.models.background.BackgroundWork.Status",
        "SourceKind": "knowledge.models.Source.Kind",
        "GenerationKind": "knowledge.models.Generation.Kind",
    },
}

UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "Archway",
    "SITE_HEADER": "Archway",
    "SITE_SUBHEADER": _("Knowledge portal"),
    "SITE_URL": "/",
    "DASHBOARD_CALLBACK": "portal.admin_site.dashboard",
    "SHOW_HISTORY": True,
    "SHOW_VIEW_ON_SITE": False,
    "SHOW_BACK_BUTTON": True,
    "BORDER_RADIUS": "6px",
    "SCRIPTS": [lambda request: static("js/admin_charts.js")],
    # The accent of the pages (static/css/tokens.css), in the eleven steps that unfold wants.
    "COLORS": {
        "primary": {
            "50": "#f0f5fe",
            "100": "#e8f0fe",
            "200": "#c9dcfb",
            "300": "#a3c6ff",
            "400": "#7fb0ff",
            "500": "#4a87ea",
            "600": "#1f5fd1",
            "700": "#174dad",
            "800": "#143f8c",
            "900": "#1b2d4d",
            "950": "#0b1220",
        }
    },
}
