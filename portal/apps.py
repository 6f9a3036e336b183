"""The composition root's apps: start-up checks, and the admin site of ours."""

from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig


class PortalConfig(AppConfig):
    name = "portal"
    verbose_name = "Archway"

    def ready(self) -> None:
        from portal import checks  # noqa: F401  (registers the checks)


class ArchwayAdminConfig(AdminConfig):
    default_site = "portal.admin_site.ArchwayAdminSite"
