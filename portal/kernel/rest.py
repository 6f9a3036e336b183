"""How the REST API knows who asks, counts what they ask, pages its lists and words its errors."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, cast

from django.core.exceptions import PermissionDenied
from django.db import DataError
from django.http import Http404
from rest_framework import exceptions, status
from rest_framework.authentication import BaseAuthentication, CSRFCheck
from rest_framework.pagination import PageNumberPagination
from rest_framework.parsers import JSONParser
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from portal.kernel import keys
from portal.kernel.errors import ArchwayError, Denied, Invalid, NotFound, TooLarge, TooMany, Unauthenticated
from portal.kernel.key_door import admit
from portal.kernel.middleware import PortalRequest, no_room, problem_body, unreadable
from portal.kernel.models import User
from portal.kernel.principal import Principal
from portal.kernel.reading import encodable

if TYPE_CHECKING:
    # At run time this import would ask for the very settings that name this module.
    from rest_framework.views import APIView

logger = logging.getLogger(__name__)


class PrincipalAuthentication(BaseAuthentication):
    """`Authorization: Bearer kb_…`, `X-API-Key: kb_…`, or the session of a signed-in person (with CSRF token).

    `request.user` is the person and `request.auth` the `Principal`.
    """

    def authenticate(self, request: Request) -> tuple[User, Principal] | None:
        django_request = cast(PortalRequest, request._request)
        secret = keys.secret_from_headers(
            request.META.get("HTTP_AUTHORIZATION", ""), request.META.get("HTTP_X_API_KEY", "")
        )
        if secret:
            admitted = admit(secret, django_request.address)
            return admitted.key.owner, admitted.principal
        if django_request.principal_error:
            raise django_request.principal_error
        if django_request.principal is None:
            return None
        self._require_csrf_token(request)
        return django_request.user, django_request.principal

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="archway"'

    @staticmethod
    def _require_csrf_token(request: Request) -> None:
        check = CSRFCheck(lambda _request: None)  # type: ignore[arg-type]
        check.process_request(request._request)
        reason = check.process_view(request._request, None, (), {})  # type: ignore[arg-type]
        if reason:
            raise Denied("The form has expired; reload the page and try again.", code="csrf_failed")


class HasPrincipal(BasePermission):
    """Somebody is known, and holds one of the view's `scopes` (`read_scopes` for safe methods)."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        principal = request.auth
        if not isinstance(principal, Principal):
            raise Unauthenticated("Sign in, or send an API key.")
        safe = request.method in {"GET", "HEAD", "OPTIONS"}
        scopes = getattr(view, "read_scopes" if safe else "write_scopes", None)
        if scopes:
            principal.require(*scopes)
        return True


class JsonParser(JSONParser):
    """JSON as people and programs write it: halves of characters are mended, endless nesting is no JSON."""

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        try:
            return encodable(super().parse(stream, media_type, parser_context))
        except RecursionError as error:
            raise exceptions.ParseError from error


class Pages(PageNumberPagination):
    """`?page=2&size=50`; size at most 200."""

    page_size = 50
    page_size_query_param = "size"
    max_page_size = 200


def problem(error: Exception, context: dict[str, Any]) -> Response | None:
    """The one translation from exceptions to application/problem+json for REST views."""
    mapped = _mapped(error)
    if mapped is None:
        return None
    request: Request = context["request"]
    body = problem_body(mapped, getattr(request._request, "trace", "-"))
    if isinstance(error, exceptions.ValidationError):
        body["fields"] = error.detail
    response = Response(body, status=mapped.status, content_type="application/problem+json")
    if isinstance(mapped, TooMany):
        response["Retry-After"] = str(mapped.retry_after)
    if mapped.status == status.HTTP_401_UNAUTHORIZED:
        response["WWW-Authenticate"] = 'Bearer realm="archway"'
    return response


def _mapped(error: Exception) -> ArchwayError | None:
    if isinstance(error, ArchwayError):
        return error
    if isinstance(error, DataError):
        return unreadable(error)
    if isinstance(error, Http404 | exceptions.NotFound):
        return NotFound("Not found, or you don't have access.")
    if isinstance(error, PermissionDenied | exceptions.PermissionDenied):
        return Denied("You may not do this.")
    if isinstance(error, exceptions.NotAuthenticated | exceptions.AuthenticationFailed):
        return Unauthenticated("Sign in, or send an API key.")
    if isinstance(error, exceptions.ParseError):
        return Invalid("The request body is not valid JSON.", code="bad_json")
    if isinstance(error, exceptions.ValidationError):
        return Invalid("Some fields need to be changed.", code="fields_invalid")
    if isinstance(error, exceptions.MethodNotAllowed):
        mapped: ArchwayError = Invalid("This address does not take that method.", code="method_not_allowed")
        mapped.status = 405  # type: ignore[misc]
        return mapped
    if isinstance(error, exceptions.UnsupportedMediaType):
        mapped = Invalid("This address does not take that content type.", code="unsupported_media_type")
        mapped.status = 415  # type: ignore[misc]
        return mapped
    if isinstance(error, exceptions.Throttled):
        return TooMany("Too many requests; try again later.", retry_after=60)
    if isinstance(error, exceptions.APIException) and error.status_code == 413:
        return TooLarge("The request is larger than allowed.")
    return no_room(error)
