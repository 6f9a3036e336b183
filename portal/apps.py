"""The composition root's apps: start-up checks, and the admin site of ours."""

from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig


class PortalConfig(AppConfig):
    name = "portal"
    verbose_name = "Archway"

    def ready(self) -> None:
        from portal import celery, checks  # noqa: F401  (tasks find their broker; the checks are registered)


class ArchwayAdminConfig(AdminConfig):
    default_site = "portal.admin_site.ArchwayAdminSite"
