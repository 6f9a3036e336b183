"""What every page view shares: who is asking, which page of a list, where to go back to, what to say afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast
from urllib.parse import urlencode

from django.contrib import messages
from django.core.paginator import Page, Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme

from portal.kernel.middleware import PortalRequest
from portal.kernel.principal import Principal

P = ParamSpec("P")
M = TypeVar("M", bound=Model)

PAGE_SIZES = (20, 50, 100)


def signed_in(
    view: Callable[Concatenate[PortalRequest, Principal, P], HttpResponse],
) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
    """A page for people: `view(request, principal, …)`. Strangers go to the sign-in page and come back after it.

    A signed-in person without a workspace gets the error that says so.
    """

    @wraps(view)
    def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        typed = cast(PortalRequest, request)
        if typed.principal_error:
            raise typed.principal_error
        if typed.principal is None:
            return _to_sign_in(request)
        return view(typed, typed.principal, *args, **kwargs)

    return guarded


def _to_sign_in(request: HttpRequest) -> HttpResponse:
    htmx = is_htmx(request)
    here = request.headers.get("HX-Current-URL", "") if htmx else request.get_full_path()
    if not safe_address(request, here) or request.method != "GET":
        here = "/"
    target = "/sign-in/?" + urlencode({"next": here})
    if htmx:
        return HttpResponse(status=204, headers={"HX-Redirect": target})
    return HttpResponseRedirect(target)


def is_htmx(request: HttpRequest) -> bool:
    """Whether htmx asks for a fragment rather than a browser for a page."""
    return request.headers.get("HX-Request") == "true"


def safe_address(request: HttpRequest, address: str) -> bool:
    """Whether an address given by a caller leads to this very host."""
    return url_has_allowed_host_and_scheme(
        address, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )


def back(request: HttpRequest, fallback: str) -> HttpResponseRedirect:
    """To the `next` of the form or query when it is an address of ours, otherwise to `fallback`."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    return HttpResponseRedirect(wanted if wanted and safe_address(request, wanted) else fallback)


def page_of(request: HttpRequest, rows: QuerySet[M, Any], default: int = 50) -> Page[Any]:
    """The page of `rows` that `?page=&size=` names; nonsense numbers give the nearest page there is."""
    raw = request.GET.get("size", "")
    size = int(raw) if raw.isdecimal() and len(raw) < 4 and int(raw) in PAGE_SIZES else default
    return Paginator(rows, size).get_page(request.GET.get("page"))


def say(request: HttpRequest, text: str) -> None:
    """A toast on the next page that this person sees: for success; errors belong beside their cause."""
    messages.success(request, text)


def with_toast(response: HttpResponse, text: str) -> HttpResponse:
    """The same for an htmx answer: the toast shows as soon as it arrives."""
    # ASCII only: a header holds no other letters.
    response.headers["HX-Trigger"] = json.dumps({"archway:toast": {"text": text}})
    return response
