"""Exports of a base, and the page that makes a new base of such a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from django.conf import settings
from django.core.files.uploadedfile import TemporaryUploadedFile
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from redis.exceptions import RedisError

from knowledge import archive as verbs
from knowledge import background, resumable
from knowledge.access import access_archive, access_base, visible_archives, visible_uploads
from knowledge.models import Archive, KnowledgeBase, Role
from knowledge.pages import frame
from knowledge.pages.document_list import following
from portal.gateway.endpoints import visible_endpoints
from portal.gateway.models import ModelEndpoint
from portal.kernel import events
from portal.kernel.errors import ArchwayError, Conflict, Invalid, NotFound, sentence_of
from portal.kernel.middleware import PortalRequest
from portal.kernel.models import User
from portal.kernel.pages import page_of, say, signed_in
from portal.kernel.principal import Principal


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def exports(request: PortalRequest, principal: Principal, base: str) -> HttpResponse:
    """The page at `/bases/{b}/archive/`: what an export would hold, starting one, fetching those that are kept."""
    row = access_base(principal, base, Role.OWNER)
    which = "current" if request.POST.get("revisions", request.GET.get("revisions")) == "current" else "all"
    vectors = request.POST.get("vectors", request.GET.get("vectors")) == "yes"
    if request.method == "POST":
        try:
            verbs.start_export(principal, row, which=which, vectors=vectors)  # type: ignore[arg-type]
            say(request, gettext("The export has begun; you are told when it is ready"))
        except Conflict as error:
            frame.keep_problem(request, error)
        return HttpResponseRedirect(f"/bases/{row.uid}/archive/")
    topic, seq = following(row)
    rows = visible_archives(principal).filter(base=row, kind=Archive.Kind.EXPORT).select_related("created_by")
    page = page_of(request, rows.order_by("-id"), default=20)
    context = {
        **frame.base_frame(row, "settings"),
        "which": which,
        "vectors": vectors,
        "sizes": _sizes(row),
        "page": page,
        "rows": [_Row(archive) for archive in page.object_list],
        "running": any(archive.is_open for archive in page.object_list),
        "hours": settings.ARCHWAY["EXPORT_HOURS"],
        "topic": topic,
        "after": seq,
        "problems": request.session.pop(frame.PROBLEMS, []),
    }
    return render(request, "knowledge/archive.html", context)


def _sizes(base: KnowledgeBase) -> dict[str, Any]:
    """The estimate of each choice, so that nobody has to ask the server to compare them."""
    everything = verbs.estimate(base, "all", vectors=True)
    without = verbs.estimate(base, "all", vectors=False)
    current = verbs.estimate(base, "current", vectors=False)
    return {"counts": everything, "all": without, "current": current, "vectors": everything["bytes"] - without["bytes"]}


class _Row:
    """An export or import as a line of its list."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.why = sentence_of(archive.error_message, archive.error_params)

    @property
    def may_fetch(self) -> bool:
        archive = self.archive
        return archive.status == Archive.Status.DONE and bool(archive.file) and not verbs.is_over(archive)


def _export(principal: Principal, base: str, uid: str) -> tuple[KnowledgeBase, Archive]:
    home = access_base(principal, base, Role.OWNER)
    row = access_archive(principal, uid)
    if row.base_id != home.pk or row.kind != Archive.Kind.EXPORT:
        raise NotFound("Not found, or you don't have access.")
    return home, row


@require_safe
@signed_in
def download(request: PortalRequest, principal: Principal, base: str, archive: str) -> HttpResponse:
    """The file of an export."""
    return cast(HttpResponse, verbs.download(principal, _export(principal, base, archive)[1]))


@require_POST
@signed_in
def cancel_export(request: PortalRequest, principal: Principal, base: str, archive: str) -> HttpResponse:
    """Stop an export that is under way."""
    home, row = _export(principal, base, archive)
    _try(request, lambda: background.cancel(principal, row), gettext("Asked to stop"))
    return HttpResponseRedirect(f"/bases/{home.uid}/archive/")


@require_POST
@signed_in
def delete_export(request: PortalRequest, principal: Principal, base: str, archive: str) -> HttpResponse:
    """Delete the file of an export before its time."""
    home, row = _export(principal, base, archive)
    _try(request, lambda: verbs.delete(principal, row), gettext("The file is deleted"))
    return HttpResponseRedirect(f"/bases/{home.uid}/archive/")


def _try(request: PortalRequest, act: Any, said: str) -> None:
    try:
        act()
        say(request, said)
    except (Conflict, Invalid) as error:
        frame.keep_problem(request, error)


# -- imports ------------------------------------------------------------------------------------------


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def imports(request: PortalRequest, principal: Principal) -> HttpResponse:
    """The page at `/imports/`: a new base from the file of an export, and the imports of this person."""
    principal.require("kb:manage")
    if request.method == "POST":
        try:
            _take(request, principal)
            say(request, gettext("The import has begun; you are told when the base is ready"))
            return HttpResponseRedirect("/imports/")
        except ArchwayError as error:
            return _imports(request, principal, error)
    return _imports(request, principal)


def _take(request: PortalRequest, principal: Principal) -> Archive:
    # The only upload handler of the settings makes temporary files.
    upload = cast("TemporaryUploadedFile | None", request.FILES.get("file"))
    if upload is None:
        raise Invalid("Choose the file of an export.", code="file_missing")
    return verbs.start_import(
        principal,
        Path(upload.temporary_file_path()),
        upload.name or "archive.zip",
        name=request.POST.get("name", ""),
        embedding=request.POST.get("embedding", ""),
    )


def _imports(request: PortalRequest, principal: Principal, error: ArchwayError | None = None) -> HttpResponse:
    person = User.objects.get(pk=principal.user_id)
    topic = f"user:{person.uid}"
    try:
        seq: int | None = events.latest_number(topic)
    except (RedisError, OSError):
        seq = None
    rows = visible_archives(principal).filter(kind=Archive.Kind.IMPORT).select_related("base").order_by("-id")
    page = page_of(request, rows, default=20)
    context = {
        "page": page,
        "rows": [_Row(archive) for archive in page.object_list],
        "problem": error.sentence() if error else "",
        "typed": request.POST.get("name", "")[:200],
        "unfinished": resumable.still_open(visible_uploads(principal).filter(base__isnull=True)),
        "endpoints": list(visible_endpoints(principal, ModelEndpoint.Kind.EMBEDDING)),
        "limit": settings.ARCHWAY["MAX_IMPORT_BYTES"],
        "topic": topic,
        "after": seq,
        "problems": request.session.pop(frame.PROBLEMS, []),
    }
    return render(request, "knowledge/imports.html", context, status=error.status if error else 200)


@require_POST
@signed_in
def discard_upload(request: PortalRequest, principal: Principal) -> HttpResponse:
    """Forget an archive that has come in part."""
    upload = resumable.find(principal, request.POST.get("upload", ""))
    if upload.base_id is not None:
        raise NotFound("Not found, or you don't have access.")
    resumable.discard(upload)
    return HttpResponseRedirect("/imports/")


@require_POST
@signed_in
def cancel_import(request: PortalRequest, principal: Principal, archive: str) -> HttpResponse:
    """Stop an import that is under way; nothing of it stays."""
    row = access_archive(principal, archive)
    if row.kind != Archive.Kind.IMPORT:
        raise NotFound("Not found, or you don't have access.")
    _try(request, lambda: background.cancel(principal, row), gettext("Asked to stop"))
    return HttpResponseRedirect("/imports/")
