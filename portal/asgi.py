"""The web process: pages, API and websockets behind one body limit."""

from __future__ import annotations

import os
from typing import cast

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

from django.core.asgi import get_asgi_application

http = get_asgi_application()

from portal.checks import refuse_misconfiguration

refuse_misconfiguration()

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter

from channels_app.origin import SameOrigin
from channels_app.routes import websocket_urlpatterns
from portal.body import App, BodyLimit

application = ProtocolTypeRouter(
    {
        "http": BodyLimit(cast(App, http)),
        "websocket": SameOrigin(AuthMiddlewareStack(URLRouter(websocket_urlpatterns))),
    }
)
