"""What load balancers ask (is the process alive, can it do its work), and what browsers ask unbidden."""

from __future__ import annotations

import logging

from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect, JsonResponse
from django.templatetags.static import static
from redis.exceptions import RedisError

from portal.kernel import events

logger = logging.getLogger(__name__)


def healthz(request: HttpRequest) -> HttpResponse:
    """200 while the process answers at all."""
    return HttpResponse("ok\n", content_type="text/plain")


def readyz(request: HttpRequest) -> JsonResponse:
    """200 with both servers at hand, otherwise 503 naming the one that is away."""
    parts = {"database": _database(), "redis": _redis()}
    return JsonResponse({"ready": all(parts.values()), **parts}, status=200 if all(parts.values()) else 503)


def _database() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError as error:
        logger.warning("database is away: %s", type(error).__name__)
        return False
    return True


def _redis() -> bool:
    try:
        return bool(events.client().ping())
    except (RedisError, OSError) as error:
        logger.warning("redis is away: %s", type(error).__name__)
        return False


def favicon(request: HttpRequest) -> HttpResponse:
    """The icon, for pages that do not name it themselves (the admin, the API documentation)."""
    return HttpResponsePermanentRedirect(static("icons/favicon.svg"))
