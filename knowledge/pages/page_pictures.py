"""Pictures of PDF pages for the reader, with the blocks of the cited passage marked. Drawn in the parsers' sandbox."""

from __future__ import annotations

import json
import re

from django.http import HttpResponse
from django.views.decorators.http import require_safe

from knowledge import storage
from knowledge.ingestion.blocks import Source
from knowledge.ingestion.kept import parsed
from knowledge.ingestion.sandbox import SandboxLimits, parse_file
from knowledge.models import Chunk, Revision
from knowledge.pages.frame import open_document, open_revision
from knowledge.pages.passage_place import as_cited, locate
from portal.kernel import limits
from portal.kernel.errors import NotFound, ParseError
from portal.kernel.middleware import PortalRequest
from portal.kernel.pages import signed_in
from portal.kernel.principal import Principal

PDF = "application/pdf"
LIMITS = SandboxLimits(memory_mb=600, cpu_seconds=10, wall_seconds=15, result_mb=32)
PER_MINUTE = 60
_CHUNK = re.compile(r"^c_(\d{1,18})$")


def has_pictures(revision: Revision | None) -> bool:
    """Whether pages of this file can be drawn."""
    return revision is not None and (revision.mime == PDF or revision.mime.startswith("image/"))


@require_safe
@signed_in
def page_picture(request: PortalRequest, principal: Principal, base: str, document: str, number: int) -> HttpResponse:
    """The picture at `…/pages/{n}.png?rev=3&chunk=c_81`."""
    _, row = open_document(principal, base, document)
    revision = open_revision(row, request.GET.get("rev") or (row.active_revision.number if row.active_revision else 1))
    if not has_pictures(revision) or not 1 <= number <= (revision.page_count or 0):
        raise NotFound("Not found, or you don't have access.")
    limits.hit("page-picture", str(principal.user_id), PER_MINUTE)
    boxes = _boxes(revision, request.GET.get("chunk", ""), request.GET.get("v", ""), number)
    wanted = {"page": number, "boxes": boxes}
    with storage.local_copy(revision.file) as path:
        source = Source(path=path, name=json.dumps(wanted), mime=revision.mime)
        try:
            drawn = parse_file(source, LIMITS, parser="knowledge.pages.page_drawing:draw")
        except ParseError as error:
            raise NotFound("This page can not be shown as a picture.", code=error.code) from error
    return HttpResponse(drawn.images[0].data, content_type="image/png")


def _boxes(revision: Revision, raw: str, version: str, page: int) -> list[list[float]]:
    """Where the blocks of the cited passage stand on the page; none when the passage is not found exactly."""
    match = _CHUNK.match(raw)
    chunk = Chunk.objects.filter(pk=int(match[1]), revision=revision).first() if match else None
    text = parsed(revision) if chunk else None
    span = locate(text.text, as_cited(chunk, version)) if chunk and text else None
    if span is None or text is None:
        return []
    touched = [
        block
        for block in text.blocks
        if block.bbox and block.page == page and block.start < span.end and block.end > span.start
    ]
    # A picture is marked only where nothing in it is: the words of a scan stand inside it.
    marked = [block for block in touched if block.kind != "image"] or touched
    return [list(block.bbox) for block in marked if block.bbox]
