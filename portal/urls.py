"""All addresses."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

handler400 = "portal.pages.errors.bad_request"
handler403 = "portal.pages.errors.forbidden"
handler404 = "portal.pages.errors.not_found"
handler500 = "portal.pages.errors.broken"

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/v1/", include("portal.api.urls")),
    path("v1/", include("portal.openai_api.urls")),
    path("", include("portal.pages.urls")),
    path("", include("knowledge.pages.urls")),
    path("", include("knowledge.pages.asking_urls")),
]
