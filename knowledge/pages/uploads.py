"""Uploading: a page that works without scripts, and the same address for the tray, file by file, answering JSON."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from django.core.files.uploadedfile import TemporaryUploadedFile
from django.http import HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_http_methods, require_POST

from knowledge import intake, resumable
from knowledge import tags as vocabulary
from knowledge.access import access_base, visible_documents, visible_uploads
from knowledge.details import Details
from knowledge.models import Document, KnowledgeBase, Role, Upload
from knowledge.pages.frame import base_frame
from knowledge.pages.upload_rules import upload_rules
from portal.kernel.errors import ArchwayError, Invalid
from portal.kernel.middleware import PortalRequest, problem_body
from portal.kernel.pages import say, signed_in
from portal.kernel.principal import Principal

SAME_NAMES = ("revision", "keep_both", "skip")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one file, in words for the page."""

    name: str
    said: str
    ok: bool
    document: Document | None = None


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def upload(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """The page at `/bases/{b}/documents/upload/?folder=`; POST takes files and says what became of each."""
    row = access_base(principal, base, Role.EDITOR)
    if request.method != "POST":
        return _page(request, row, [])
    if _wants_json(request):
        return _one(request, principal, row)
    outcomes = [_receive_for_page(principal, row, request, upload) for upload in _files(request)]
    if not outcomes:
        outcomes = [Outcome("", gettext("Choose at least one file."), ok=False)]
    good = sum(outcome.ok for outcome in outcomes)
    if good == len(outcomes):
        say(request, ngettext("%(n)s file uploaded", "%(n)s files uploaded", good) % {"n": good})
        return HttpResponseRedirect(f"/bases/{row.uid}/documents/")
    # 422 when nothing came in; otherwise the page tells good and bad files apart.
    return _page(request, row, outcomes, status=200 if good else 422)


def _wants_json(request: PortalRequest) -> bool:
    return "application/json" in request.headers.get("Accept", "")


def _files(request: PortalRequest) -> list[TemporaryUploadedFile]:
    # The only upload handler of the settings makes temporary files.
    return cast(list[TemporaryUploadedFile], request.FILES.getlist("file"))


def _page(request: PortalRequest, base: KnowledgeBase, outcomes: list[Outcome], status: int = 200) -> HttpResponse:
    failed = [outcome for outcome in outcomes if not outcome.ok]
    context = {
        **base_frame(base, "documents"),
        **upload_rules(),
        "unfinished": _unfinished(request, base),
        "outcomes": failed + [outcome for outcome in outcomes if outcome.ok],
        "failed": len(failed),
        "succeeded": len(outcomes) - len(failed),
        "folder": (request.POST.get("folder") or request.GET.get("folder", "")).replace("\x00", "")[:800],
        "same_name": _same_name(request),
        "review": request.POST.get("review") == "true",
        "tags": request.POST.get("tags", "")[:2_000],
        "metadata": request.POST.get("metadata", "")[:30_000],
        "known_tags": vocabulary.names_of(base),
    }
    return render(request, "knowledge/upload.html", context, status=status)


def _unfinished(request: PortalRequest, base: KnowledgeBase) -> list[Upload]:
    """The person's uploads into this base that can be gone on with."""
    if request.principal is None:
        return []
    return list(resumable.still_open(visible_uploads(request.principal).filter(base=base))[:20])


@require_POST
@signed_in
def discard(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """Forget an upload of the person's own that was not finished, `upload`."""
    row = access_base(principal, base, Role.EDITOR)
    resumable.discard(resumable.find(principal, request.POST.get("upload", "")))
    return HttpResponseRedirect(f"/bases/{row.uid}/documents/upload/")


def _same_name(request: PortalRequest) -> Any:
    wanted = request.POST.get("same_name", "revision")
    return wanted if wanted in SAME_NAMES else "revision"


def _receive(
    principal: Principal, base: KnowledgeBase, request: PortalRequest, upload: TemporaryUploadedFile, path: str
) -> intake.Received:
    return intake.receive(
        principal,
        base,
        Path(upload.temporary_file_path()),
        path or upload.name or "file",
        folder=request.POST.get("folder", ""),
        same_name=_same_name(request),
        review=request.POST.get("review") == "true",
        details=Details.written(request.POST.get("tags", ""), request.POST.get("metadata", "")),
    )


def said_of(received: intake.Received) -> str:
    """What became of an accepted file."""
    return {
        "created": gettext("Uploaded"),
        "revision": gettext("Uploaded as a new revision"),
        "reactivated": gettext("An earlier revision is current again"),
        "skipped": gettext("Skipped: a document with this name is here already"),
    }.get(received.status, gettext("Uploaded"))


def _receive_for_page(
    principal: Principal, base: KnowledgeBase, request: PortalRequest, upload: TemporaryUploadedFile
) -> Outcome:
    name = upload.name or ""
    try:
        received = _receive(principal, base, request, upload, "")
    except intake.Duplicate as error:
        return Outcome(name, error.sentence(), ok=False, document=error.document)
    except ArchwayError as error:
        return Outcome(name, error.sentence(), ok=False)
    return Outcome(name, said_of(received), ok=True, document=received.document)


def _one(request: PortalRequest, principal: Principal, base: KnowledgeBase) -> HttpResponse:
    """One file of the tray, with its relative path: 201 and what became of it, or problem+json."""
    files = _files(request)
    if len(files) != 1:
        raise Invalid("Send exactly one file.", code="file_missing")
    try:
        received = _receive(principal, base, request, files[0], request.POST.get("path", ""))
    except intake.Duplicate as error:
        body = problem_body(error, request.trace)
        body["document"] = {"id": error.document.uid, "url": _address(base, error.document)}
        return JsonResponse(body, status=error.status, content_type="application/problem+json")
    document = received.document
    body = {
        "status": received.status,
        "document": {"id": document.uid, "name": document.name, "url": _address(base, document)},
        "revision": received.revision.number if received.revision else None,
    }
    return JsonResponse(body, status=201)


def _address(base: KnowledgeBase, document: Document) -> str:
    return f"/bases/{base.uid}/documents/{document.uid}/"


@require_POST
@signed_in
def names(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """Which of the `path`s (below `folder`) are documents here already, so that people choose before bytes travel."""
    row = access_base(principal, base, Role.EDITOR)
    wanted: dict[str, str] = {}
    for raw in request.POST.getlist("path"):
        inner, name = intake.clean_path(raw)
        folder = intake.clean_path(f"{request.POST.get('folder', '')}/{inner}/x")[0]
        wanted[f"{folder}/{name}" if folder else name] = raw
    there = visible_documents(principal).filter(base=row, source_key__in=list(wanted))
    return JsonResponse({"existing": [wanted[key] for key in there.values_list("source_key", flat=True)]})
