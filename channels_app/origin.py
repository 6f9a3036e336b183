"""Whether a websocket may be opened from a page: only from pages of our own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]


def allowed(origin: str, host: str) -> bool:
    """A browser's Origin must name the very host it connects to, or one that the operator listed.

    Programs send no Origin; they show a key instead of a cookie, so nothing can be forged for them.
    """
    if not origin:
        return True
    return urlsplit(origin).netloc == host or origin in settings.CSRF_TRUSTED_ORIGINS


class SameOrigin:
    """ASGI middleware that refuses websockets from foreign pages with 403."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        origin, host = headers.get(b"origin", ""), headers.get(b"host", "")
        if allowed(origin, host) and (origin or b"cookie" not in headers):
            await self.app(scope, receive, send)
            return
        await receive()
        await send({"type": "websocket.close", "code": 4403})
