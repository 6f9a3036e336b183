"""API keys of a person: made with scopes and an end, shown once, revoked."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Any

from django import forms
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from knowledge.access import visible_bases
from portal.kernel import keys as verbs
from portal.kernel.errors import ArchwayError, NotFound
from portal.kernel.middleware import PortalRequest
from portal.kernel.models import ApiKey
from portal.kernel.pages import page_of, say, signed_in
from portal.kernel.principal import Principal, is_workspace_admin

# The scopes that something answers to today, and what each allows, in words.
SCOPES: dict[str, Any] = {
    "kb:read": gettext_lazy("Read bases, documents and search results"),
    "kb:write": gettext_lazy("Upload and change documents"),
    "kb:manage": gettext_lazy("Manage bases, settings and members"),
    "chat": gettext_lazy("Ask questions"),
    "admin": gettext_lazy("Administer the workspace"),
}
LIVES = (30, 90, 180, 365)


class KeyForm(forms.Form):
    """A new key. Scopes and bases offered are those that the asker holds and sees."""

    name = forms.CharField(
        label=gettext_lazy("Name"), max_length=100, help_text=gettext_lazy("Where the key will be used.")
    )
    scopes = forms.MultipleChoiceField(
        label=gettext_lazy("Scopes"), widget=forms.CheckboxSelectMultiple, initial=["kb:read"]
    )
    narrow = forms.BooleanField(
        label=gettext_lazy("Only the bases ticked below"),
        required=False,
        help_text=gettext_lazy("Otherwise the key reaches every base that you may see, now and later."),
    )
    bases = forms.MultipleChoiceField(label=gettext_lazy("Bases"), required=False, widget=forms.CheckboxSelectMultiple)
    days = forms.TypedChoiceField(label=gettext_lazy("Expires"), coerce=int, initial=90)

    def __init__(self, principal: Principal, data: Any = None) -> None:
        super().__init__(data)
        allowed = principal.scopes if is_workspace_admin(principal) else principal.scopes - {"admin"}
        self._fields("scopes").choices = [(name, words) for name, words in SCOPES.items() if name in allowed]
        self._bases = {base.uid: base for base in visible_bases(principal).order_by("name", "pk")}
        self._fields("bases").choices = [(uid, base.name) for uid, base in self._bases.items()]
        self._fields("days").choices = [(days, gettext("in %(days)s days") % {"days": days}) for days in LIVES]

    def _fields(self, name: str) -> forms.ChoiceField:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        return field

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("narrow") and not cleaned.get("bases"):
            self.add_error("bases", gettext("Tick at least one base, or let the key reach all of them."))
        if cleaned.get("bases") and not cleaned.get("narrow"):
            # Somebody who ticks bases means them, whether or not they ticked the line above.
            cleaned["narrow"] = True
        return cleaned

    def base_ids(self) -> list[int] | None:
        """The rows' ids of the chosen bases; None for all."""
        chosen: list[str] = self.cleaned_data["bases"]
        return [self._bases[uid].pk for uid in chosen] if self.cleaned_data["narrow"] else None


def _rows(principal: Principal) -> Any:
    return ApiKey.objects.filter(verbs.visible_keys(principal)).select_related("owner").order_by("-pk")


@require_safe
@signed_in
def keys(request: PortalRequest, principal: Principal) -> HttpResponse:
    """The page at `/account/keys/`."""
    return _list(request, principal)


def _list(request: PortalRequest, principal: Principal, **more: Any) -> HttpResponse:
    rows = _rows(principal)
    show_revoked = request.GET.get("show") == "revoked"
    page = page_of(request, rows.filter(revoked_at__isnull=not show_revoked))
    now = timezone.now()
    names = {base.pk: base.name for base in visible_bases(principal)}
    for key in page.object_list:
        key.expired = key.expires_at is not None and key.expires_at <= now
        key.words = [SCOPES.get(scope, scope) for scope in key.scopes]
        key.base_names = None if key.base_ids is None else [names[pk] for pk in key.base_ids if pk in names]
    context = {
        "page": page,
        "show_revoked": show_revoked,
        "revoked_count": rows.filter(revoked_at__isnull=False).count(),
        "live_count": rows.filter(revoked_at__isnull=True).count(),
        "is_admin": is_workspace_admin(principal),
        **more,
    }
    return render(request, "pages/keys.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_key(request: PortalRequest, principal: Principal) -> HttpResponse:
    """The page at `/account/keys/new/`. The answer to the form shows the secret, once.

    Each form carries a number that is good once, so that reloading the answer makes no second key.
    """
    if request.method != "POST":
        return _form(request, KeyForm(principal))
    form = KeyForm(principal, request.POST)
    if not form.is_valid():
        return _form(request, form, status=422)
    if request.POST.get("once") != request.session.pop("key_form", None):
        return HttpResponseRedirect("/account/keys/")
    data = form.cleaned_data
    try:
        key, secret = verbs.create(
            principal,
            name=data["name"],
            scopes=data["scopes"],
            base_ids=form.base_ids(),
            expires_at=timezone.now() + timedelta(days=data["days"]),
        )
    except ArchwayError as error:
        form.add_error("scopes", error.sentence())
        return _form(request, form, status=422)
    return _list(request, principal, created=key, secret=secret)


def _form(request: PortalRequest, form: KeyForm, status: int = 200) -> HttpResponse:
    once = request.session["key_form"] = secrets.token_hex(8)
    return render(request, "pages/new_key.html", {"form": form, "once": once}, status=status)


@require_POST
@signed_in
def revoke(request: PortalRequest, principal: Principal, uid: str) -> HttpResponse:
    """Ask first (a page, where no script has asked already), then make the key useless."""
    key = _rows(principal).filter(uid=uid).first()
    if key is None:
        raise NotFound("Not found, or you don't have access.")
    if request.POST.get("confirmed") != "yes":
        return render(request, "pages/revoke_key.html", {"key": key})
    verbs.revoke(principal, key)
    say(request, gettext("Key %(name)s is revoked") % {"name": key.name})
    return HttpResponseRedirect("/account/keys/")
