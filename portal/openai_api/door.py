"""What every address of OpenAI's protocol does first and last: key, limits, method, scopes, errors, headers."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from django.conf import settings
from django.db import DataError
from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from portal.gateway import hops
from portal.gateway.loops import OwnLoop
from portal.kernel import keys, limits
from portal.kernel.errors import ArchwayError, Invalid, TooMany, Unauthenticated, Unavailable
from portal.kernel.key_door import Admitted, admit
from portal.kernel.limits import Room
from portal.kernel.middleware import PortalRequest, unreadable
from portal.kernel.principal import Principal
from portal.kernel.reading import encodable
from portal.openai_api import errors

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request of somebody whom the door let in."""

    request: HttpRequest
    principal: Principal

    def address(self, path: str) -> str:
        """The absolute address of a page of ours."""
        if settings.PUBLIC_URL:
            return f"{settings.PUBLIC_URL.rstrip('/')}{path}"
        return self.request.build_absolute_uri(path)

    async def json(self) -> Any:
        """The body. Raises `Invalid` (bad_json)."""
        raw = await on_database(self.request.read)
        try:
            return encodable(json.loads(raw))
        except (ValueError, RecursionError):
            raise Invalid("The request body is not valid JSON.", code="bad_json") from None


View = Callable[..., Coroutine[Any, Any, HttpResponseBase]]


def door(method: str | None, *scopes: str) -> Callable[[View], View]:
    """A view for `method` (None: any) and holders of one of `scopes` (none: any key): `view(asked, **parameters)`.

    Keys only, never a session: so no other site can make a browser ask, and no token of a form is needed.
    """

    def made(view: View) -> View:
        async def answered(request: HttpRequest, **parameters: str) -> HttpResponseBase:
            began = time.perf_counter()
            room: Room | None = None
            try:
                admitted = await on_database(lambda: _admitted(request))
                room = admitted.room
                hops.arrived(request.headers.get(hops.HEADER, ""))
                if method is not None and request.method != method:
                    raise _wrong_method()
                if scopes:
                    admitted.principal.require(*scopes)
                response = await view(Asked(request, admitted.principal), **parameters)
            except ArchwayError as error:
                response = errors.response_of(error)
                if isinstance(error, TooMany):
                    room = room or Room(0, 0, error.retry_after)
            except DataError as error:
                response = errors.response_of(unreadable(error))
            except Exception:
                logger.exception("an answer in OpenAI's shape failed")
                response = errors.response_of(_broken())
            _describe(response, room, began)
            return response

        return cast(View, csrf_exempt(answered))

    return made


async def on_database(work: Callable[[], T]) -> T:
    """Do `work`, which uses the ORM, in the request's thread, and give its connection back."""
    return await OwnLoop().database(work)


def _admitted(request: HttpRequest) -> Admitted:
    secret = keys.secret_from_headers(
        request.META.get("HTTP_AUTHORIZATION", ""), request.META.get("HTTP_X_API_KEY", "")
    )
    address = cast(PortalRequest, request).address
    if not secret:
        limits.hit_address("address", address, settings.ARCHWAY["RATE_PER_ADDRESS"])
        raise Unauthenticated("Send an API key as `Authorization: Bearer …`.", code="unauthenticated")
    return admit(secret, address)


def _wrong_method() -> ArchwayError:
    error: ArchwayError = Invalid("This address does not take that method.", code="method_not_allowed")
    error.status = 405  # type: ignore[misc]
    return error


def _broken() -> ArchwayError:
    error: ArchwayError = Unavailable("Something went wrong on our side.", code="internal")
    error.status = 500  # type: ignore[misc]
    return error


def _describe(response: HttpResponseBase, room: Room | None, began: float) -> None:
    """The headers that OpenAI's clients know; the request's id is set for every answer of ours."""
    response.headers["openai-processing-ms"] = str(round((time.perf_counter() - began) * 1000))
    response.headers["openai-version"] = "2020-10-01"
    if room is not None and room.limit:
        response.headers["x-ratelimit-limit-requests"] = str(room.limit)
        response.headers["x-ratelimit-remaining-requests"] = str(room.remaining)
        response.headers["x-ratelimit-reset-requests"] = f"{room.seconds}s"
