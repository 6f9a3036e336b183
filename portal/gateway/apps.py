from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class GatewayConfig(AppConfig):
    name = "portal.gateway"
    label = "gateway"
    verbose_name = _("Models")
