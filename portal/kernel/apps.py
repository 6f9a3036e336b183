from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class KernelConfig(AppConfig):
    name = "portal.kernel"
    label = "kernel"
    verbose_name = _("People and workspaces")

    def ready(self) -> None:
        from portal.kernel import openapi  # noqa: F401  (registers the security schemes)
