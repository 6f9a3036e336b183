"""Many documents at once: what is chosen, the question that some verbs ask first, progress, outcomes, undo."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_POST, require_safe

from knowledge import background, batches, tags
from knowledge.access import access_base, access_batch, visible_batches
from knowledge.batches import Selection
from knowledge.batches.verbs import find
from knowledge.models import Batch, BatchItem, ChunkVersion, KnowledgeBase, Role
from knowledge.pages import frame
from knowledge.pages.batch_forms import FORMS, split_tags
from knowledge.pages.batch_notice import all_described, described, keep_notice
from knowledge.pages.document_list import following
from portal.kernel.errors import Conflict, Invalid, NotFound, sentence_of
from portal.kernel.middleware import PortalRequest
from portal.kernel.pages import back, page_of, say, signed_in
from portal.kernel.principal import Principal


@require_POST
@signed_in
def bulk(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """One verb on the ticked documents (`scope=ids`), or on all that a filter matches but some (`scope=all`)."""
    home = access_base(principal, base, Role.EDITOR)
    verb = request.POST.get("verb", "")
    chosen = Selection.of_form(request.POST)
    try:
        asked = _asked(request, principal, home, verb)
        if asked is not None and not asked.is_valid():
            return ask(request, principal, home, verb, chosen, asked)
        params = asked.params() if asked is not None else {}  # type: ignore[attr-defined]
        batch = batches.start(principal, home, verb, chosen, params)
    except (Conflict, Invalid, NotFound) as error:
        frame.keep_problem(request, error)
        return back(request, f"/bases/{home.uid}/documents/")
    return _started(request, home, batches.begin(batch))


def _asked(request: PortalRequest, principal: Principal, base: KnowledgeBase, verb: str) -> forms.Form | None:
    """The verb's form as it was filled in; unbound when the list only named the verb. None: it asks nothing."""
    find(verb)
    if verb not in FORMS:
        return None
    made: forms.Form
    if "asked" in request.POST:
        made = FORMS[verb](principal, base, request.POST, auto_id=f"{verb}_%s")
    elif verb in {"tag", "untag"} and "tag" in request.POST:
        # The list has a field for tags of its own.
        if not split_tags(request.POST["tag"]):
            raise Invalid("Write the tag first.", code="tag_missing")
        made = FORMS[verb](principal, base, {"tags": request.POST["tag"]})
    else:
        made = FORMS[verb](principal, base, auto_id=f"{verb}_%s")
    return made


def ask(
    request: HttpRequest, principal: Principal, base: KnowledgeBase, verb: str, chosen: Selection, form: forms.Form
) -> HttpResponse:
    """The page that asks what a verb needs to know. Raises `Invalid` (nothing_selected)."""
    rows = chosen.documents(principal, base, binned=find(verb).binned)
    count = rows.count()
    if not count:
        raise Invalid("No document was chosen.", code="nothing_selected")
    context = {
        **frame.base_frame(base, "documents"),
        "verb": verb,
        "label": find(verb).label,
        "form": form,
        "chosen": chosen,
        "ids": ",".join(chosen.ids),
        "count": count,
        "names": list(rows.order_by("name").values_list("name", flat=True)[:5]),
        "edited": _edited(rows) if verb == "resplit" else [],
        "next": request.POST.get("next", ""),
        "tags": tags.names_of(base),
    }
    return render(request, "knowledge/batch_form.html", context, status=422 if form.is_bound else 200)


def _edited(rows: QuerySet[Any]) -> list[str]:
    """The documents whose chunks somebody changed by hand: splitting them again would lose that."""
    changed = ChunkVersion.objects.filter(chunk__revision__document__in=rows.values("pk")).exclude(
        verb=ChunkVersion.Verb.MADE
    )
    found = rows.filter(active_revision__in=changed.values("chunk__revision"))
    return list(found.order_by("name").values_list("name", flat=True)[:20])


def _started(request: PortalRequest, base: KnowledgeBase, batch: Batch) -> HttpResponse:
    """Small batches have ended by now: their outcome is told on the list, with what went wrong and an undo."""
    outcomes = batches.outcomes(batch)
    problems = list(batch.items.filter(outcome=BatchItem.Outcome.FAILED)[:10]) if not batch.is_open else []
    if problems:
        sentences = [f"{item.name}: {reason(item)}" for item in problems]
        if outcomes.failed > len(problems):
            more = outcomes.failed - len(problems)
            sentences.append(ngettext("And %(n)s more.", "And %(n)s more.", more) % {"n": more})
        frame.keep_problems(request, sentences)
    keep_notice(request, batch)
    return back(request, f"/bases/{base.uid}/documents/")


def reason(row: BatchItem | Batch) -> str:
    """Why, in the reader's language."""
    if isinstance(row, Batch):
        return sentence_of(row.error_message, row.error_params)
    return sentence_of(row.message, row.params)


@require_safe
@signed_in
def batch_list(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """The page at `/bases/{b}/batches/`: what was done to many documents, newest first."""
    home = access_base(principal, base, Role.EDITOR)
    topic, seq = following(home)
    rows = visible_batches(principal).filter(base=home).select_related("created_by").order_by("-id")
    page = page_of(request, rows, default=20)
    context = {
        **frame.base_frame(home, "documents"),
        "page": page,
        "rows": all_described(page.object_list),
        "topic": topic,
        "after": seq,
    }
    return render(request, "knowledge/batches.html", context)


@require_safe
@signed_in
def batch_page(request: PortalRequest, principal: Principal, base: str, batch: str) -> HttpResponse:
    """The page at `/bases/{b}/batches/{uid}/?outcome=failed`: how far it is, and what became of each document."""
    home, row = _open(principal, base, batch)
    topic, seq = following(home)
    outcome = request.GET.get("outcome", "")
    items = row.items.select_related("document", "document__base").order_by("pk")
    if outcome in BatchItem.Outcome.values:
        items = items.filter(outcome=outcome)
    page = page_of(request, items)
    context = {
        **frame.base_frame(home, "documents"),
        "notice": described(row),
        "batch": row,
        "why": reason(row),
        "page": page,
        "items": [(item, reason(item)) for item in page.object_list],
        "outcome": outcome,
        "choices": BatchItem.Outcome.choices,
        "facts": _facts(row),
        "topic": topic,
        "after": seq,
        "problems": request.session.pop(frame.PROBLEMS, []),
    }
    return render(request, "knowledge/batch.html", context)


def _facts(batch: Batch) -> list[tuple[str, str]]:
    """What was asked for, in words."""
    params = batch.params
    shown = {
        gettext("Base"): params.get("base_name", ""),
        gettext("Folder"): params.get("folder") if "folder" in params else "",
        gettext("Tags"): ", ".join(params.get("tags", [])),
        gettext("Review by"): params.get("date", ""),
        gettext("Responsible"): params.get("owner_name", ""),
    }
    return [(name, str(value)) for name, value in shown.items() if value]


def _open(principal: Principal, base: str, uid: str) -> tuple[KnowledgeBase, Batch]:
    home = access_base(principal, base, Role.EDITOR)
    row = access_batch(principal, uid)
    if row.base_id != home.pk:
        raise NotFound("Not found, or you don't have access.")
    return home, row


@require_POST
@signed_in
def act_on_batch(request: PortalRequest, principal: Principal, base: str, batch: str, verb: str) -> HttpResponse:
    """Cancel a batch, undo it, or try what failed once more."""
    home, row = _open(principal, base, batch)
    here = f"/bases/{home.uid}/batches/{row.uid}/"
    try:
        if verb == "cancel":
            background.cancel(principal, row)
            say(request, gettext("Asked to stop"))
            return back(request, here)
        made = batches.begin(BATCH_VERBS[verb](principal, row))
    except (Conflict, Invalid, NotFound) as error:
        frame.keep_problem(request, error)
        return back(request, here)
    keep_notice(request, made)
    if made.is_open or batches.outcomes(made).failed:
        return HttpResponseRedirect(f"/bases/{home.uid}/batches/{made.uid}/")
    return back(request, f"/bases/{home.uid}/documents/")


BATCH_VERBS: dict[str, Any] = {"cancel": background.cancel, "undo": batches.undo, "again": batches.again}


@require_POST
@signed_in
def restore(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """Take documents out of the recycle bin, or delete them for good; also the Undo of one row's delete."""
    home = access_base(principal, base, Role.EDITOR)
    verb = request.POST.get("verb", "restore")
    bin_next = request.POST.get("to") == "bin"
    place = f"/bases/{home.uid}/{'recycle-bin' if bin_next else 'documents'}/"
    if verb not in {"restore", "purge"}:
        raise Invalid("Choose what to do with the documents.", code="verb_unknown")
    one = request.POST.get("one", "")
    chosen = Selection(ids=(one,)) if one else Selection.of_form(request.POST)
    try:
        batch = batches.begin(batches.start(principal, home, verb, chosen))
    except Invalid as error:
        if error.code == "nothing_selected":
            raise NotFound("Not found, or you don't have access.") from error
        raise
    failed = batch.items.filter(outcome=BatchItem.Outcome.FAILED)[:10]
    frame.keep_problems(request, [f"{item.name}: {reason(item)}" for item in failed])
    if batch.is_open:
        return HttpResponseRedirect(f"/bases/{home.uid}/batches/{batch.uid}/")
    done = batches.outcomes(batch).done
    if done and verb == "purge":
        said = ngettext("%(n)s document is deleted for good", "%(n)s documents are deleted for good", done)
        say(request, said % {"n": done})
    elif done:
        say(request, gettext("Restored"))
    return HttpResponseRedirect(place)
