"""Signing in and out. What is wrong is never said more exactly than "name or password"."""

from __future__ import annotations

from typing import cast

from django import forms
from django.conf import settings
from django.contrib.auth import authenticate, login, logout
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from portal.kernel import limits
from portal.kernel.errors import TooMany
from portal.kernel.middleware import PortalRequest
from portal.kernel.models import User
from portal.kernel.pages import back, safe_address
from portal.pages.choices import keep_language, keep_theme

WINDOW = 300
# People of one office come from one address; an account belongs to one person.
ADDRESS_FACTOR = 5


class SignInForm(forms.Form):
    """Name and password, as typed."""

    username = forms.CharField(
        label=gettext_lazy("Username"),
        max_length=150,
        widget=forms.TextInput(attrs={"autocomplete": "username", "autocapitalize": "none", "spellcheck": "false"}),
    )
    password = forms.CharField(
        label=gettext_lazy("Password"),
        max_length=1000,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )


@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """The page at `/sign-in/?next=`."""
    if request.user.is_authenticated:
        return back(request, "/")
    if request.method != "POST":
        return _page(request, SignInForm())
    form = SignInForm(request.POST)
    if not form.is_valid():
        return _page(request, form, status=422)
    name = form.cleaned_data["username"]
    try:
        _count_attempt(cast(PortalRequest, request), name)
    except TooMany as error:
        form.add_error(None, _too_many(error.retry_after))
        response = _page(request, form, status=429)
        response.headers["Retry-After"] = str(error.retry_after)
        return response
    user = authenticate(request, username=name, password=form.cleaned_data["password"])
    if not isinstance(user, User):
        form.add_error(None, gettext("Username or password is incorrect."))
        return _page(request, form, status=422)
    login(request, user)
    response = back(request, "/")
    if user.language:
        keep_language(response, user.language)
    keep_theme(response, user.theme)
    return response


def _count_attempt(request: PortalRequest, name: str) -> None:
    allowed = settings.ARCHWAY["RATE_SIGN_IN"]
    limits.hit_address("sign-in-address", request.address, allowed * ADDRESS_FACTOR, WINDOW)
    # As the database compares names: there a dotless i is an I as well.
    limits.hit("sign-in-account", name.strip().upper().casefold(), allowed, WINDOW)


def _too_many(seconds: int) -> str:
    minutes = max(1, -(-seconds // 60))
    return gettext("Too many attempts; try again in %(minutes)s minutes.") % {"minutes": minutes}


def _page(request: HttpRequest, form: SignInForm, status: int = 200) -> HttpResponse:
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    returns = bool(wanted) and wanted != "/" and safe_address(request, wanted)
    context = {"form": form, "next": wanted if returns else "", "returns": returns}
    return render(request, "pages/sign_in.html", context, status=status)


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """Ends the session; theme and language stay with the browser."""
    logout(request)
    return HttpResponseRedirect("/sign-in/")
