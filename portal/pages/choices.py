"""Language, theme and workspace: chosen anywhere, kept in a cookie or the session and on the person's row."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.views.decorators.http import require_POST

from portal.context import THEMES
from portal.kernel.errors import Invalid, NotFound
from portal.kernel.middleware import PortalRequest
from portal.kernel.models import Membership, User
from portal.kernel.pages import back, signed_in
from portal.kernel.principal import Principal

YEAR = 365 * 86_400


def keep_language(response: HttpResponse, language: str) -> None:
    """Remember the language in this browser, under Django's own cookie name."""
    _keep(response, settings.LANGUAGE_COOKIE_NAME, language)


def keep_theme(response: HttpResponse, theme: str) -> None:
    """Remember the theme in this browser, so that the server renders the first paint right."""
    _keep(response, "theme", theme)


def _keep(response: HttpResponse, name: str, value: str) -> None:
    response.set_cookie(
        name, value, max_age=YEAR, samesite="Lax", secure=settings.SESSION_COOKIE_SECURE, httponly=True, path="/"
    )


def _person(request: HttpRequest) -> User | None:
    return request.user if request.user.is_authenticated else None


@require_POST
def language(request: HttpRequest) -> HttpResponse:
    """Switch the language and come back to the same page; works before sign-in too."""
    wanted = request.POST.get("language", "")
    if wanted not in dict(settings.LANGUAGES):
        raise Invalid("There is no such language here.", code="language_unknown")
    if person := _person(request):
        User.objects.filter(pk=person.pk).update(language=wanted)
    response = back(request, "/")
    keep_language(response, wanted)
    return response


@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Switch the theme: a redirect for forms, an empty answer for the script that has repainted already."""
    wanted = request.POST.get("theme", "")
    if wanted not in THEMES:
        raise Invalid("There is no such theme.", code="theme_unknown")
    if person := _person(request):
        User.objects.filter(pk=person.pk).update(theme=wanted)
    scripted = "application/json" in request.headers.get("Accept", "")
    response = HttpResponse(status=204) if scripted else back(request, "/")
    keep_theme(response, wanted)
    return response


@require_POST
@signed_in
def workspace(request: PortalRequest, principal: Principal) -> HttpResponse:
    """Go on in another of one's workspaces."""
    uid = request.POST.get("workspace", "")
    if not Membership.objects.filter(user_id=principal.user_id, workspace__uid=uid).exists():
        raise NotFound("Not found, or you don't have access.")
    request.session["workspace"] = uid
    return HttpResponseRedirect("/")
