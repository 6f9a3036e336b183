"""How the portal looks and behaves for one person, and their password."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.forms import PasswordChangeForm
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import get_language, gettext, gettext_lazy, override
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from portal.kernel import audit
from portal.kernel.middleware import PortalRequest
from portal.kernel.models import User
from portal.kernel.pages import say, signed_in
from portal.kernel.principal import Principal
from portal.pages.choices import keep_language, keep_theme

FIELDS = ("language", "theme", "letter_keys", "mail_notices", "question_log")


class PreferencesForm(forms.Form):
    """Language, theme, shortcuts, mail."""

    language = forms.ChoiceField(label=gettext_lazy("Language"), choices=settings.LANGUAGES)
    theme = forms.ChoiceField(
        label=gettext_lazy("Theme"),
        choices=(
            ("auto", gettext_lazy("Like the system")),
            ("light", gettext_lazy("Light")),
            ("dark", gettext_lazy("Dark")),
        ),
        widget=forms.RadioSelect,
    )
    letter_keys = forms.BooleanField(
        label=gettext_lazy("Single-letter shortcuts"),
        required=False,
        help_text=gettext_lazy("Press ? on any page to see them."),
    )
    mail_notices = forms.BooleanField(label=gettext_lazy("Also send notifications by e-mail"), required=False)
    question_log = forms.ChoiceField(
        label=gettext_lazy("What I ask"),
        choices=User.QuestionLog.choices,
        required=False,
        widget=forms.RadioSelect,
        help_text=gettext_lazy("Takes effect from the next question; what is kept is deleted after a while."),
    )

    def __init__(self, person: User, data: Any = None) -> None:
        language = person.language or get_language() or "en"
        super().__init__(data, initial={**{name: getattr(person, name) for name in FIELDS}, "language": language})
        if not settings.MAIL_CONFIGURED:
            del self.fields["mail_notices"]


class NewPasswordForm(PasswordChangeForm):
    """Django's form with the rules in one line, and without taking the focus from the form above it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["old_password"].widget.attrs.pop("autofocus", None)
        self.fields["new_password1"].help_text = gettext("At least 10 characters, and not an easy one to guess.")
        self.fields["new_password2"].help_text = ""


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def preferences(request: PortalRequest, principal: Principal) -> HttpResponse:
    """The page at `/account/preferences/`."""
    person = User.objects.get(pk=principal.user_id)
    if request.method != "POST":
        return _page(request, PreferencesForm(person), NewPasswordForm(person))
    form = PreferencesForm(person, request.POST)
    if not form.is_valid():
        return _page(request, form, NewPasswordForm(person), status=422)
    saved = {**form.cleaned_data, "question_log": form.cleaned_data["question_log"] or person.question_log}
    User.objects.filter(pk=person.pk).update(**saved)
    response = HttpResponseRedirect("/account/preferences/")
    keep_language(response, saved["language"])
    keep_theme(response, saved["theme"])
    with override(saved["language"]):
        say(request, gettext("Preferences saved"))
    return response


@sensitive_post_parameters()
@require_http_methods(["POST"])
@signed_in
def password(request: PortalRequest, principal: Principal) -> HttpResponse:
    """Change the password; other browsers of this person are signed out by it."""
    person = User.objects.get(pk=principal.user_id)
    form = NewPasswordForm(person, request.POST)
    if not form.is_valid():
        return _page(request, PreferencesForm(person), form, status=422)
    form.save()
    update_session_auth_hash(request, person)
    audit.record(principal, "person.password", person, workspace_id=principal.workspace_id)
    say(request, gettext("Password changed"))
    return HttpResponseRedirect("/account/preferences/")


def _page(
    request: PortalRequest, form: PreferencesForm, password_form: NewPasswordForm, status: int = 200
) -> HttpResponse:
    context = {"form": form, "password_form": password_form}
    return render(request, "pages/preferences.html", context, status=status)
