"""A base's settings, section by section; a change by somebody else meanwhile is shown, never overwritten."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django import forms
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext, gettext_lazy, pgettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from knowledge import bases as verbs
from knowledge.access import access_base, visible_documents
from knowledge.models import KnowledgeBase, Role
from knowledge.pages.answer_forms import offer
from knowledge.pages.frame import base_frame
from knowledge.pages.model_pages import model_context
from knowledge.pages.setting_forms import SECTION_FORMS, GeneralForm, initial_of
from knowledge.quality import gate
from portal.kernel.errors import Conflict, Invalid
from portal.kernel.middleware import PortalRequest
from portal.kernel.models import AuditEntry
from portal.kernel.pages import say, signed_in
from portal.kernel.principal import Principal

SECTIONS = (
    ("general", gettext_lazy("General")),
    ("splitting", pgettext_lazy("settings", "Splitting")),
    ("pictures", gettext_lazy("Pictures")),
    ("searching", gettext_lazy("Retrieval")),
    ("reranking", gettext_lazy("Rerank")),
    ("answering", gettext_lazy("Answers")),
    ("outside", gettext_lazy("Models outside")),
    ("models", gettext_lazy("Models")),
    ("quality", gettext_lazy("Evaluation")),
)


@dataclass(frozen=True, slots=True)
class Clash:
    """Somebody else's change: who, when, and (label, value before, value now) of each field."""

    who: str
    when: datetime | None
    fields: list[tuple[str, str, str]]


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def settings_page(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """The page at `/bases/{b}/settings/?section=splitting`; POST saves the section named in it."""
    row = access_base(principal, base, Role.OWNER)
    section = (request.POST if request.method == "POST" else request.GET).get("section", "general")
    if section not in dict(SECTIONS):
        section = "general"
    if request.method != "POST":
        return _page(request, principal, row, section, _form(principal, row, section))
    if section == "models":
        raise Invalid("Send the new model to settings/model/.", code="read_only")
    return _save_general(request, principal, row) if section == "general" else _save(request, principal, row, section)


def _form(principal: Principal, base: KnowledgeBase, section: str) -> forms.Form | None:
    if section == "general":
        initial = {"name": base.name, "description": base.description, "sensitive": base.sensitive}
        return GeneralForm(initial=initial, auto_id="general_%s")
    if section in SECTION_FORMS:
        form = SECTION_FORMS[section](initial=initial_of(section, base.config), auto_id=f"{section}_%s")
        offer(principal, form)
        return form
    return None


def _page(
    request: PortalRequest,
    principal: Principal,
    base: KnowledgeBase,
    section: str,
    form: forms.Form | None,
    **more: Any,
) -> HttpResponse:
    invalid = bool(more) or (form is not None and form.is_bound and not form.is_valid())
    context = {
        **base_frame(base, "settings"),
        "section": section,
        "sections": SECTIONS,
        "form": form,
        "version": base.config_version,
        "documents": visible_documents(principal).filter(base=base).count(),
        "embedding": base.embedding,
        **(model_context(principal, base) if section == "models" else {}),
        **more,
    }
    return render(request, "knowledge/settings.html", context, status=422 if invalid else 200)


def _save(request: PortalRequest, principal: Principal, base: KnowledgeBase, section: str) -> HttpResponse:
    form = SECTION_FORMS[section](request.POST, initial=initial_of(section, base.config), auto_id=f"{section}_%s")
    offer(principal, form)
    if not form.is_valid():
        return _page(request, principal, base, section, form)
    raw = request.POST.get("version", "")
    try:
        outcome = gate.save_settings(
            principal, base, section, form.cleaned_data, version=int(raw) if raw.isdecimal() and len(raw) < 9 else 0
        )
    except Conflict as error:
        if error.code == "gate_open":
            form.add_error(None, error.sentence())
            return _page(request, principal, base, section, form)
        base.refresh_from_db()
        return _page(request, principal, base, section, form, clash=_clash(base, section, form))
    except Invalid as error:
        form.add_error(None, error.sentence())
        return _page(request, principal, base, section, form)
    return gated(request, base, outcome) or _saved(request, base, section)


def gated(request: PortalRequest, base: KnowledgeBase, outcome: gate.Outcome) -> HttpResponse | None:
    """Where a change leads that the gate has not let through or warns of; None when it is simply saved."""
    if outcome.run is None or (outcome.state == "saved" and not outcome.worse):
        return None
    words = {
        "saved": gettext("Saved, but the evaluation set got worse"),
        "checking": gettext("Not saved yet: the evaluation set is asked first"),
        "held": gettext("Not saved: the evaluation set got worse"),
    }
    say(request, words[outcome.state])
    return HttpResponseRedirect(f"/bases/{base.uid}/evaluation/{outcome.run.uid}/")


def _saved(request: PortalRequest, base: KnowledgeBase, section: str) -> HttpResponse:
    say(request, gettext("Saved"))
    return HttpResponseRedirect(f"/bases/{base.uid}/settings/?section={section}")


def _clash(base: KnowledgeBase, section: str, form: forms.Form) -> Clash:
    """Who changed the settings last, and how the values of this section differ from what the person sent."""
    entry = (
        AuditEntry.objects.filter(object_type="knowledgebase", object_id=base.uid, action="base.settings")
        .select_related("actor")
        .order_by("-id")
        .first()
    )
    now = initial_of(section, base.config)
    differing = [
        (str(field.label), _shown(form.cleaned_data[name]), _shown(now[name]))
        for name, field in form.fields.items()
        if form.cleaned_data[name] != now[name]
    ]
    who = str(entry.actor) if entry and entry.actor else gettext("Somebody")
    return Clash(who, entry.at if entry else None, differing)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return gettext("on") if value else gettext("off")
    return ", ".join(map(repr, value)) if isinstance(value, list) else str(value)


def _save_general(request: PortalRequest, principal: Principal, base: KnowledgeBase) -> HttpResponse:
    form = GeneralForm(request.POST, auto_id="general_%s")
    if not form.is_valid():
        return _page(request, principal, base, "general", form)
    now = {"name": base.name, "description": base.description}
    was = {name: request.POST.get(f"was_{name}", value).replace("\r\n", "\n") for name, value in now.items()}
    if {name: value.replace("\r\n", "\n") for name, value in now.items()} != was:
        clash = Clash(_last_describer(base), None, [
            (str(form.fields[name].label), str(form.cleaned_data[name]), now[name])
            for name in now if now[name] != form.cleaned_data[name]
        ])  # fmt: skip
        return _page(request, principal, base, "general", form, clash=clash)
    try:
        verbs.describe(principal, base, **form.cleaned_data)
    except (Conflict, Invalid) as error:
        form.add_error("name", error.sentence())
        return _page(request, principal, base, "general", form)
    return _saved(request, base, "general")


def _last_describer(base: KnowledgeBase) -> str:
    entries = AuditEntry.objects.filter(object_type="knowledgebase", object_id=base.uid, action="base.describe")
    entry = entries.select_related("actor").order_by("-id").first()
    return str(entry.actor) if entry and entry.actor else gettext("Somebody")


@require_POST
@signed_in
def delete_base(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """Delete a base, once its name was typed."""
    row = access_base(principal, base, Role.OWNER)
    typed = " ".join(request.POST.get("confirm_name", "").split())
    if typed != row.name:
        return _page(
            request,
            principal,
            row,
            "general",
            _form(principal, row, "general"),
            delete_error=gettext("Type the base's name exactly as it stands above."),
            typed=typed,
        )
    verbs.delete(principal, row)
    say(request, gettext("“%(name)s” is deleted") % {"name": row.name})
    return HttpResponseRedirect("/bases/")
