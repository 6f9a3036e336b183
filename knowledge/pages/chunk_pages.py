"""Chunks of a document as they are (or would be) searched, what was left out and why, and the review."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django import forms
from django.db.models import Count, Q
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from knowledge import base_settings, lifecycle
from knowledge.ingestion.pipeline import parsed
from knowledge.ingestion.split import split
from knowledge.ingestion.transformations import settings_of
from knowledge.models import Chunk, Document, Revision, Role
from knowledge.pages import parse_warnings
from knowledge.pages.document_list import following
from knowledge.pages.frame import base_frame, keep_problem, newest_of, open_document, open_revision
from portal.gateway.embedding import counter_for
from portal.kernel.errors import Conflict, NotFound
from portal.kernel.middleware import PortalRequest
from portal.kernel.pages import page_of, say, signed_in
from portal.kernel.principal import Principal

VERBS = ("confirm", "send-back")
PREVIEWED = 20
# A preview splits while the person waits: about two seconds of work.
PREVIEW_CHARS = 1_000_000


class PreviewForm(forms.Form):
    """Sizes to try. Limits are those of the base's settings."""

    passage = forms.IntegerField(
        label=gettext_lazy("Passage size"),
        min_value=50,
        max_value=2000,
        help_text=gettext_lazy("Tokens; what answers show"),
    )
    leaf = forms.IntegerField(
        label=gettext_lazy("Chunk size"),
        min_value=30,
        max_value=500,
        help_text=gettext_lazy("Tokens; what searches match"),
    )
    overlap = forms.IntegerField(
        label=gettext_lazy("Overlap"), min_value=0, max_value=200, help_text=gettext_lazy("Tokens repeated from before")
    )


def _asked(request: PortalRequest, document: Document) -> Revision:
    wanted = request.GET.get("rev")
    found = open_revision(document, wanted) if wanted else newest_of(document)
    if found is None:
        raise NotFound("Not found, or you don't have access.")
    return found


@require_safe
@signed_in
def chunks(request: PortalRequest, principal: Principal, base: str, document: str) -> HttpResponse:
    """The page at `…/chunks/?rev=&q=&page=`; with `passage`, `leaf` and `overlap` a preview of another split."""
    home, row = open_document(principal, base, document)
    topic, seq = following(home)
    revision = _asked(request, row)
    frame = base_frame(home, "documents")
    query = " ".join(request.GET.get("q", "").replace("\x00", "").split())[:200]
    passages = Chunk.objects.filter(revision=revision, level=Chunk.Level.PASSAGE).defer("lexemes")
    figures = Chunk.objects.filter(revision=revision).aggregate(
        passages=Count("pk", filter=Q(level=Chunk.Level.PASSAGE)), leaves=Count("pk", filter=Q(level=Chunk.Level.LEAF))
    )
    if query:
        passages = passages.filter(text__icontains=query)
    context = {
        **frame,
        "document": row,
        "revision": revision,
        "page": page_of(request, passages.annotate(leaf_count=Count("leaves")).order_by("ordinal"), default=20),
        "query": query,
        "figures": figures,
        "warnings": [parse_warnings.sentence(warning) for warning in revision.warnings],
        "topic": topic,
        "after": seq,
        **_preview(request, revision),
    }
    return render(request, "knowledge/chunks.html", context)


def _preview(request: PortalRequest, revision: Revision) -> dict[str, Any]:
    """Another split of the same text, by the code that indexing uses. Nothing is kept of it."""
    chosen = settings_of(base_settings.read(revision.config).splitting)
    initial = {"passage": chosen.passage_tokens, "leaf": chosen.leaf_tokens, "overlap": chosen.overlap_tokens}
    if "passage" not in request.GET:
        return {"preview_form": PreviewForm(initial=initial), "preview": None}
    form = PreviewForm(request.GET)
    text = parsed(revision)
    if not form.is_valid() or text is None:
        return {"preview_form": form, "preview": None, "preview_missing": text is None}
    if len(text.text) > PREVIEW_CHARS:
        return {"preview_form": form, "preview": None, "preview_long": True}
    sizes = form.cleaned_data
    tried = replace(chosen, passage_tokens=sizes["passage"], leaf_tokens=sizes["leaf"], overlap_tokens=sizes["overlap"])
    passages = split(text, counter_for(revision.document.base.embedding), tried)
    leaves = sum(len(passage.leaves) for passage in passages)
    return {
        "preview_form": form,
        "preview": passages[:PREVIEWED],
        "preview_passages": len(passages),
        "preview_leaves": leaves,
    }


@require_POST
@signed_in
def decide(request: PortalRequest, principal: Principal, base: str, document: str, verb: str) -> HttpResponse:
    """End a review: `confirm` lets the newest revision go on, `send-back` stops it."""
    home, row = open_document(principal, base, document, Role.EDITOR)
    revision = _asked(request, row)
    address = f"/bases/{home.uid}/documents/"
    try:
        if verb == "confirm":
            lifecycle.confirm(principal, revision)
            say(request, gettext("Approved; it will be searchable in a moment"))
        else:
            lifecycle.cancel(principal, revision)
            say(request, gettext("Sent back; it is not indexed"))
    except Conflict as error:
        keep_problem(request, error)
    return HttpResponseRedirect(address)
