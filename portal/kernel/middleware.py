"""What every web request passes: trace id, security headers, principal, rate limit, errors as sentences."""

from __future__ import annotations

import errno
import logging
import secrets
from collections.abc import Callable
from typing import cast

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.db import DataError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.middleware.locale import LocaleMiddleware
from django.shortcuts import render
from django.utils import translation
from django.utils.deprecation import MiddlewareMixin

from portal.kernel import keys, limits
from portal.kernel.errors import ArchwayError, TooMany, Unavailable, Unreadable
from portal.kernel.logging import trace
from portal.kernel.models import User
from portal.kernel.principal import Principal, for_user

logger = logging.getLogger(__name__)

Respond = Callable[[HttpRequest], HttpResponse]


class PortalRequest(HttpRequest):
    """A request that has passed `PrincipalMiddleware`; for type checkers."""

    principal: Principal | None
    principal_error: ArchwayError | None
    address: str
    trace: str
    user: User


def is_program(path: str) -> bool:
    """Whether a path speaks JSON rather than pages."""
    return path.startswith(("/api/", "/v1/", "/ws/", "/im/"))


class TraceMiddleware:
    """Gives each request an id that log lines, error pages and the response carry."""

    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.trace = secrets.token_hex(6)  # type: ignore[attr-defined]
        token = trace.set(request.trace)  # type: ignore[attr-defined]
        try:
            response = self.get_response(request)
        finally:
            trace.reset(token)
        response.headers.setdefault("X-Request-Id", request.trace)  # type: ignore[attr-defined]
        return response


class SecurityHeadersMiddleware:
    """The content policy: strict everywhere; under /admin/ unfold's Alpine needs eval and inline styles."""

    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        host = request.META.get("HTTP_HOST", "")
        if request.path.startswith("/admin/"):
            policy = (
                "default-src 'none'; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
                "img-src 'self' data:; font-src 'self'; connect-src 'self'; form-action 'self'; "
                "base-uri 'none'; frame-ancestors 'none'"
            )
        else:
            socket = f"wss://{host} ws://{host}" if host and not settings.PRODUCTION else f"wss://{host}"
            # The API documentation draws its icons from data: addresses of its own style sheet.
            pictures = "'self' data:" if request.path.startswith("/api/v1/docs") else "'self'"
            policy = (
                f"default-src 'none'; script-src 'self'; style-src 'self'; img-src {pictures}; font-src 'self'; "
                f"connect-src 'self' {socket}; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
            )
        response.headers.setdefault("Content-Security-Policy", policy)
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        response.headers.setdefault("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
        if not request.path.startswith(settings.STATIC_URL):
            response.headers.setdefault("Cache-Control", "private, no-store")
        return response


class LanguageMiddleware(LocaleMiddleware):
    """Cookie, then the person's choice, then the browser's: Django's rule (the cookie is set at sign-in)."""


class PrincipalMiddleware:
    """Sets `request.principal` for signed-in people. Doors for programs build theirs from the key instead."""

    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        typed = cast(PortalRequest, request)
        typed.address = limits.client_address(
            request.META.get("REMOTE_ADDR", ""), request.META.get("HTTP_X_FORWARDED_FOR", "")
        )
        typed.principal = None
        typed.principal_error = None
        if not isinstance(request.user, AnonymousUser):
            try:
                typed.principal = for_user(request.user, door="web", workspace_uid=request.session.get("workspace"))
            except ArchwayError as error:
                typed.principal_error = error
        return self.get_response(request)


class RateLimitMiddleware:
    """Counts page and API requests per person, and per address for those nobody has signed.

    Doors under /v1/ take keys only and count all by themselves: their refusals have a shape of their own.
    """

    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        typed = cast(PortalRequest, request)
        if not request.path.startswith((settings.STATIC_URL, "/healthz", "/readyz", "/v1/")):
            try:
                if typed.principal:
                    limits.hit("person", str(typed.principal.user_id), settings.ARCHWAY["RATE_PER_PERSON"])
                elif not (is_program(request.path) and has_secret(request)):
                    limits.hit_address("address", typed.address, settings.ARCHWAY["RATE_PER_ADDRESS"])
            except TooMany as error:
                return error_response(request, error)
        return self.get_response(request)


class ErrorMiddleware(MiddlewareMixin):
    """Translates the error family, once, for pages and plain views (REST views do it in `rest.problem`)."""

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if isinstance(exception, DataError):
            exception = unreadable(exception)
        exception = no_room(exception) or exception
        if isinstance(exception, ArchwayError):
            return error_response(request, exception)
        return None


def unreadable(error: DataError) -> Unreadable:
    """A value that PostgreSQL takes for no value (NUL in an address, a number past its column): the caller's fault."""
    logger.warning("the database refused a value: %s", type(error.__cause__ or error).__name__, exc_info=error)
    return Unreadable()


def no_room(error: BaseException) -> Unavailable | None:
    """A full disk, whoever met it: this process, PostgreSQL (53100) or Redis (MISCONF). None for other errors."""
    met: BaseException | None = error
    while met is not None:
        full = isinstance(met, OSError) and met.errno in {errno.ENOSPC, errno.EDQUOT}
        if full or getattr(met, "sqlstate", None) == "53100" or str(met).startswith("MISCONF"):
            logger.error("no room is left: %s", type(met).__name__)
            return Unavailable("The server has no room left to store this; tell its operator.", code="storage_full")
        met = met.__cause__ or met.__context__
    return None


def has_secret(request: HttpRequest) -> bool:
    """Whether a key is shown: live keys have limits of their own, others count for their address."""
    return bool(
        keys.secret_from_headers(request.META.get("HTTP_AUTHORIZATION", ""), request.META.get("HTTP_X_API_KEY", ""))
    )


def problem_body(error: ArchwayError, trace_id: str) -> dict[str, object]:
    """An error as application/problem+json (RFC 9457), with our stable `code`."""
    return {
        "type": "about:blank",
        "title": error.sentence(),
        "status": error.status,
        "code": error.code,
        "trace": trace_id,
        "retryable": error.retryable,
    }


def error_response(request: HttpRequest, error: ArchwayError) -> HttpResponse:
    """The error as JSON for programs, as a fragment for htmx, and as a page for people."""
    trace_id = getattr(request, "trace", "-")
    response: HttpResponse
    if is_program(request.path) or "application/json" in request.META.get("HTTP_ACCEPT", ""):
        response = JsonResponse(
            problem_body(error, trace_id), status=error.status, content_type="application/problem+json"
        )
    else:
        template = "errors/fragment.html" if request.META.get("HTTP_HX_REQUEST") else "errors/page.html"
        context = {"status": error.status, "code": error.code, "sentence": error.sentence(), "trace": trace_id}
        response = render(request, template, context, status=error.status)
    if isinstance(error, TooMany):
        response.headers["Retry-After"] = str(error.retry_after)
    response.headers["Content-Language"] = translation.get_language() or "en"
    return response
