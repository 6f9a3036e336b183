"""Adding documents without a file of their own: a pasted text, the edit of one, a sheet of questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from django.core.files.uploadedfile import TemporaryUploadedFile
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_http_methods, require_safe

from knowledge import resumable
from knowledge.access import access_base
from knowledge.api.sources import template_response
from knowledge.models import KnowledgeBase, Role
from knowledge.pages.frame import base_frame, open_document
from knowledge.pages.source_forms import EditForm, TextForm
from knowledge.pages.uploads import SAME_NAMES
from knowledge.sources import pasted, question_sheets
from portal.kernel.errors import ArchwayError, Invalid, NotFound
from portal.kernel.middleware import PortalRequest
from portal.kernel.pages import say, signed_in
from portal.kernel.principal import Principal

PAIRS_SHOWN, PROBLEMS_SHOWN = 20, 200
_FIELD_OF = {"title_missing": "title", "text_empty": "text", "text_too_long": "text"}
_FIELD_OF |= {"tags_invalid": "tags", "too_many_tags": "tags", "metadata_invalid": "metadata"}


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def paste(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """The form at `/bases/{b}/documents/paste/?folder=`."""
    row = access_base(principal, base, Role.EDITOR)
    start = {"kind": "markdown", "folder": request.GET.get("folder", "").replace("\x00", "")[:800]}
    start["title"] = request.GET.get("title", "").replace("\x00", "")[:200]
    form = TextForm(request.POST) if request.method == "POST" else TextForm(initial=start)
    if request.method == "POST" and form.is_valid():
        try:
            received = pasted.paste(principal, row, details=form.details, **form.said)
        except ArchwayError as error:
            form.add_error(_FIELD_OF.get(error.code, "title"), error.sentence())
        else:
            words = {"revision": gettext("Saved as a new revision"), "reactivated": gettext("Saved")}
            say(request, words.get(received.status, gettext("Added")))
            return HttpResponseRedirect(f"/bases/{row.uid}/documents/{received.document.uid}/")
    context = {**base_frame(row, "documents"), "form": form, "way": "text"}
    return render(request, "knowledge/paste.html", context, status=422 if form.errors else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def edit_text(request: PortalRequest, principal: Principal, base: str, document: str) -> HttpResponse:
    """The form at `/bases/{b}/documents/{d}/text/`: the text of a Markdown or plain document, saved as a revision."""
    row, held = open_document(principal, base, document, Role.EDITOR)
    now = pasted.editable(held)
    if now is None:
        raise Invalid("Only Markdown and plain text can be edited here.", code="not_editable")
    form = EditForm(request.POST) if request.method == "POST" else EditForm(initial={"text": now.text})
    number = request.POST.get("number", "")
    if request.method == "POST" and form.is_valid():
        try:
            pasted.edit(principal, held, form.cleaned_data["text"], number=int(number) if number.isdecimal() else 0)
        except ArchwayError as error:
            form.add_error("text", error.sentence())
        else:
            say(request, gettext("Saved as a new revision"))
            return HttpResponseRedirect(f"/bases/{row.uid}/documents/{held.uid}/")
    context = {
        **base_frame(row, "documents"),
        "document": held,
        "form": form,
        "number": number if request.method == "POST" else now.number,
    }
    return render(request, "knowledge/edit_text.html", context, status=422 if form.errors else 200)


@require_safe
@signed_in
def question_template(request: PortalRequest, principal: Principal) -> HttpResponse:
    """The empty sheet at `/question-sheet/?type=csv|xlsx`, in the reader's language."""
    return template_response(request.GET.get("type", "xlsx"))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def questions(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """The page at `/bases/{b}/question-sheets/`: choose a sheet, look at what is in it, import it."""
    row = access_base(principal, base, Role.EDITOR)
    if request.method != "POST":
        return _questions_page(request, row)
    try:
        if held := request.POST.get("held", ""):
            return _import(request, principal, row, held)
        return _preview(request, principal, row)
    except NotFound:
        error: ArchwayError = Invalid("This preview is too old; choose the file again.", code="preview_gone")
        return _questions_page(request, row, error=error.sentence())
    except ArchwayError as problem:
        return _questions_page(request, row, error=problem.sentence())


def _questions_page(request: PortalRequest, base: KnowledgeBase, **more: Any) -> HttpResponse:
    context = {
        **base_frame(base, "documents"),
        "way": "questions",
        "folder": (request.POST.get("folder") or request.GET.get("folder", "")).replace("\x00", "")[:800],
        **more,
    }
    return render(request, "knowledge/questions.html", context, status=422 if more.get("error") else 200)


def _preview(request: PortalRequest, principal: Principal, base: KnowledgeBase) -> HttpResponse:
    files = cast(list[TemporaryUploadedFile], request.FILES.getlist("file"))
    if len(files) != 1:
        raise Invalid("Choose a file first.", code="file_missing")
    path, name = Path(files[0].temporary_file_path()), files[0].name or "questions.csv"
    sheet = question_sheets.read_sheet(path, name)
    wanted = request.POST.get("same_name", "revision")
    kept = None
    if sheet.pairs:
        same_name = wanted if wanted in SAME_NAMES else "revision"
        kept = resumable.hold(principal, base, path, name, request.POST.get("folder", ""), same_name)
    return _questions_page(request, base, **_shown(sheet, name), held=kept)


def _shown(sheet: question_sheets.QuestionSheet, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "sheet": sheet,
        "first": sheet.pairs[:PAIRS_SHOWN],
        "problems": [(row.sheet, row.row, row.sentence()) for row in sheet.problems[:PROBLEMS_SHOWN]],
        "more_problems": max(0, len(sheet.problems) - PROBLEMS_SHOWN),
    }


def _import(request: PortalRequest, principal: Principal, base: KnowledgeBase, uid: str) -> HttpResponse:
    kept = resumable.held(principal, uid)
    if kept.base_id != base.pk:
        raise NotFound("Not found, or you don't have access.")
    with resumable.contents(kept) as path:
        sheet = question_sheets.read_sheet(path, kept.path)
    received = question_sheets.import_sheet(
        principal,
        base,
        sheet,
        kept.path,
        folder=kept.folder,
        same_name=kept.same_name,  # type: ignore[arg-type]
    )
    resumable.discard(kept)
    number = len(sheet.pairs)
    said = ngettext("%(n)s question imported", "%(n)s questions imported", number) % {"n": number}
    if not sheet.problems:
        say(request, said)
        return HttpResponseRedirect(f"/bases/{base.uid}/documents/{received.document.uid}/")
    # What was left out stays on the page, so that it can be mended and imported anew.
    return _questions_page(request, base, **_shown(sheet, kept.path), imported=received.document, said=said)
