"""Pages for errors that nothing else has translated: no such address, forbidden, bad form, and our own faults."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.utils.translation import get_language

from portal.context import theme_of
from portal.kernel.errors import Denied, NotFound, Unavailable, Unreadable
from portal.kernel.middleware import error_response, is_program, problem_body


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """404: a missing page and one that may not be seen look alike."""
    return error_response(request, NotFound("Page not found, or you don't have access."))


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """403."""
    return error_response(request, Denied("You may not do this."))


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """400, for what Django itself refuses."""
    return error_response(request, Unreadable())


def form_expired(request: HttpRequest, reason: str = "") -> HttpResponse:
    """403 for a form without a valid token: usually one that was open for long, or open in two windows."""
    return error_response(request, Denied("The form has expired; reload the page and try again.", code="csrf_failed"))


def broken(request: HttpRequest) -> HttpResponse:
    """500: needs no database, no session and no Redis."""
    trace = getattr(request, "trace", "-")
    if is_program(request.path):
        error = Unavailable("Something went wrong on our side.", code="internal")
        error.status = 500  # type: ignore[misc]
        return JsonResponse(problem_body(error, trace), status=500, content_type="application/problem+json")
    shell = {"language": get_language() or "en", "theme": theme_of(request)}
    html = render_to_string("errors/broken.html", {"trace": trace, "bare_shell": shell})
    return HttpResponse(html, status=500)
