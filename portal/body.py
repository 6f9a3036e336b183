"""The outermost layer of the web process: caps request bodies, per path, while they stream in.

Django spools a whole body to disk before a view runs; here it is cut off at the limit, and an upload
is authenticated before its first byte is taken.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.db import OperationalError

from portal.kernel import keys
from portal.kernel.errors import ArchwayError, TooLarge, Unauthenticated, Unavailable
from portal.kernel.sessions import person_of
from portal.openai_api.errors import body_of

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

logger = logging.getLogger(__name__)

_UPLOAD = re.compile(r"^/(api/v1/)?bases/[^/]+/(documents/?(upload/?)?|question-sheets/?)$")
# A piece of an upload; how large one may be is the sender's choice.
_PIECE = re.compile(r"^/api/v1/uploads/[^/]+/?$")
_IMPORT = re.compile(r"^/(api/v1/)?imports/?$")
# Pictures come inside the messages, in base64.
_CHAT = re.compile(r"^/v1/chat/completions/?$")
_CHAT_BYTES = 20 * 1_048_576
# Room for the multipart frame around a file of the largest size.
_FRAME = 1_048_576


def limit_for(method: str, path: str) -> int:
    """The most bytes that a request to `path` may carry."""
    if method == "POST" and _UPLOAD.match(path):
        return int(settings.ARCHWAY["MAX_UPLOAD_BYTES"]) + _FRAME
    if method == "POST" and _IMPORT.match(path):
        return int(settings.ARCHWAY["MAX_IMPORT_BYTES"]) + _FRAME
    if method == "POST" and _CHAT.match(path):
        return max(_CHAT_BYTES, int(settings.ARCHWAY["MAX_BODY_BYTES"]))
    if method == "PATCH" and _PIECE.match(path):
        return int(settings.ARCHWAY["MAX_UPLOAD_BYTES"])
    return int(settings.ARCHWAY["MAX_BODY_BYTES"])


class BodyLimit:
    """ASGI middleware; answers 413, 401 (an upload by nobody) and 503 (no database) itself; lets the rest through."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Whatever the method: Django reads a body of GET to its end as well.
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        limit = limit_for(scope["method"], scope["path"])
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        declared = headers.get("content-length", "")
        if declared.isdigit() and int(declared) > limit:
            await _refuse(send, _too_large(limit), scope["path"])
            return
        # No request of Django's yet, which would see to its connection: one that died must not be kept for ever.
        if limit > settings.ARCHWAY["MAX_BODY_BYTES"]:
            try:
                known = await database_sync_to_async(_is_somebody)(headers)
            except OperationalError as error:
                logger.error("the database is away, an upload is refused: %s", type(error).__name__)
                await _refuse(send, Unavailable("The database is away; try again."), scope["path"])
                return
            if not known:
                await _refuse(send, Unauthenticated("Sign in, or send an API key."), scope["path"])
                return
        await self._counted(scope, receive, send, limit)

    async def _counted(self, scope: Scope, receive: Receive, send: Send, limit: int) -> None:
        seen, started, over = 0, False, False

        async def counting_receive() -> Message:
            nonlocal seen, over
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > limit:
                over = True
                # To the application this looks like a caller who hung up: it keeps nothing.
                return {"type": "http.disconnect"}
            return message

        async def watching_send(message: Message) -> None:
            nonlocal started
            if over and not started:
                return
            started = True
            await send(message)

        await self.app(scope, counting_receive, watching_send)
        if over and not started:
            await _refuse(send, _too_large(limit), scope["path"])


def _too_large(limit: int) -> TooLarge:
    return TooLarge("The request is larger than the limit of %(limit)s MB.", limit=max(1, limit // 1_048_576))


async def _refuse(send: Send, error: ArchwayError, path: str) -> None:
    openai = path.startswith("/v1/")
    described = body_of(error) if openai else _problem(error)
    body = json.dumps(described).encode()
    headers = [
        (b"content-type", b"application/json" if openai else b"application/problem+json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _problem(error: ArchwayError) -> dict[str, Any]:
    return {"type": "about:blank", "title": error.sentence(), "status": error.status, "code": error.code}


def _is_somebody(headers: dict[str, str]) -> bool:
    """Whether a live key or session stands behind these headers; what it may do is decided later, by the door."""
    secret = keys.secret_from_headers(headers.get("authorization", ""), headers.get("x-api-key", ""))
    if secret:
        try:
            keys.authenticate(secret)
        except Unauthenticated:
            return False
        return True
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(settings.SESSION_COOKIE_NAME)
    except CookieError:
        return False
    return cookie is not None and person_of(cookie.value) is not None
