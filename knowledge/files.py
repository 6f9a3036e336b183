"""Handing out stored bytes: always as attachments or known-safe pictures, with a policy that runs nothing."""

from __future__ import annotations

from django.http import FileResponse

from knowledge import storage
from knowledge.images import keeping
from knowledge.ingestion.sniff import TEXTS
from knowledge.models import Revision, StoredImage
from portal.kernel.errors import NotFound

# A downloaded page or drawing must not act on the portal's origin, whatever it holds.
_POLICY = "default-src 'none'; sandbox"
# Pictures that a browser decodes without running anything; the rest is only offered for download.
_SHOWN = {"image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp"}


def download(revision: Revision) -> FileResponse:
    """The original file under the name it came with, in any language (RFC 6266), as the type that was found in it.

    Texts have none: what a browser shows of a page is the portal's to decide.
    """
    response = FileResponse(
        storage.open_file(revision.file),
        as_attachment=True,
        filename=revision.file_name,
        content_type="application/octet-stream" if revision.mime in TEXTS else revision.mime,
    )
    return guarded(response)


def image(revision: Revision, key: str, *, small: bool = False) -> FileResponse:
    """A picture of the revision; `small` its thumbnail, where it is large enough to have one."""
    row = StoredImage.objects.filter(revision=revision, key=key).first()
    if row is None:
        raise NotFound("Not found, or you don't have access.")
    thumbnail = small and row.thumbnail
    mime = keeping.THUMBNAIL_TYPE if thumbnail else row.mime
    safe = mime in _SHOWN
    try:
        stream = storage.open_file(row.thumbnail if thumbnail else row.file)
    except FileNotFoundError as error:
        raise NotFound("Not found, or you don't have access.") from error
    response = FileResponse(
        stream,
        as_attachment=not safe,
        filename=f"{key[:12]}",
        content_type=mime if safe else "application/octet-stream",
    )
    return guarded(response)


def guarded(response: FileResponse) -> FileResponse:
    """The response with a policy under which nothing of it runs."""
    response.headers["Content-Security-Policy"] = _POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
    return response
