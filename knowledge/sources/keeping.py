"""Bringing a document to what was read of its page. Nothing is taken away for a fault that may pass.

A document that was moved to another base is kept up to date there, with the rights of whoever made the source.
"""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from django.utils import timezone

from knowledge import documents, intake
from knowledge.access import visible_bases
from knowledge.details import Details
from knowledge.models import Document, Origin, Role, Source, SourcePage
from knowledge.sources.fetching import Fetched
from knowledge.sources.reading import Read
from portal.kernel.errors import ArchwayError, Conflict
from portal.kernel.models import json_safe
from portal.kernel.principal import Principal

State = SourcePage.State
# How a visit can end; the counts of a run are of these.
OUTCOMES = ("new", "changed", "unchanged", "gone", "failed", "skipped")


@dataclass(slots=True)
class Visit:
    """How a visit to a page ended."""

    outcome: str
    error: ArchwayError | None = None
    links: tuple[str, ...] = field(default=())


def keep(principal: Principal, page: SourcePage, answer: Fetched, found: Read) -> Visit:
    """Make or revise the page's document when what people read on it has changed. Must run in a transaction."""
    document = _live(page)
    away = _out_of_hand(principal, page, document)
    if away is not None:
        return _noted(page, "skipped", away)
    binned = page.document is not None and page.document.deleted_at is not None
    page.title = found.title[:400]
    if binned and page.state != State.GONE:
        # Somebody threw it away here: that decision stands until they restore it.
        return _noted(
            page,
            "skipped",
            Conflict("Its document was deleted here; restore it to have it kept up to date.", code="deleted_here"),
        )
    if document is not None and found.content_hash == page.content_hash:
        outcome = _woken(principal, page, document)
    else:
        twin = _twin(page, found)
        if twin is not None:
            return _noted(page, "skipped", Conflict("The same text stands at %(url)s.", code="page_twin", url=twin.url))
        outcome = _receive(principal, page, document, found)
    page.state, page.last_outcome = State.KEPT, outcome
    page.content_hash, page.etag, page.last_modified = found.content_hash, answer.etag, answer.last_modified
    page.error_code = page.error_message = ""
    return Visit(outcome, links=found.links)


def unchanged(principal: Principal, page: SourcePage) -> Visit:
    """The server said that nothing has changed (304). Must run in a transaction."""
    document = _live(page)
    away = _out_of_hand(principal, page, document)
    if away is not None:
        return _noted(page, "skipped", away)
    outcome = _woken(principal, page, document) if document is not None else "unchanged"
    page.last_outcome = outcome
    if document is not None:
        page.state = State.KEPT
        page.error_code = page.error_message = ""
    return Visit(outcome)


def gone(principal: Principal, source: Source, page: SourcePage, error: ArchwayError) -> Visit:
    """The page is there no more: its document goes the way that the source says. Must run in a transaction."""
    document = _live(page)
    away = _out_of_hand(principal, page, document)
    if away is not None:
        return _noted(page, "skipped", away)
    if document is not None:
        if source.gone == Source.Gone.DELETE:
            documents.delete(principal, document)
        elif source.gone == Source.Gone.DISABLE and document.enabled:
            documents.set_enabled(principal, document, False)
    known = page.state == State.KEPT
    page.etag = page.last_modified = ""
    if document is None or source.gone == Source.Gone.DELETE:
        page.content_hash = ""
    visit = _noted(page, "gone" if known else "failed" if page.state != State.GONE else "skipped", error)
    page.state = State.GONE
    return visit


def troubled(page: SourcePage, outcome: str, error: ArchwayError) -> Visit:
    """A visit that brought nothing; the document stays as it was."""
    return _noted(page, outcome, error)


def _noted(page: SourcePage, outcome: str, error: ArchwayError) -> Visit:
    page.last_outcome = outcome
    page.error_code, page.error_message = error.code[:40], error.message
    page.error_params = json_safe({key: str(value) for key, value in error.params.items()})
    if page.state in (State.WAITING, State.FAILED, State.SKIPPED):
        page.state = State.SKIPPED if outcome == "skipped" else State.FAILED
    return Visit(outcome, error)


def _live(page: SourcePage) -> Document | None:
    document = page.document
    return document if document is not None and document.deleted_at is None else None


def _out_of_hand(principal: Principal, page: SourcePage, document: Document | None) -> Conflict | None:
    """Why a document that lies in another base by now may not be touched; None when it may."""
    if document is None or document.base_id == page.source.base_id:
        return None
    if visible_bases(principal, Role.EDITOR).filter(pk=document.base_id).exists():
        return None
    return Conflict("Its document was moved to a base that whoever made this source may not edit.", code="moved_away")


def _woken(principal: Principal, page: SourcePage, document: Document) -> str:
    """A page that was gone and is back: what we disabled is enabled again."""
    if page.state == State.GONE and not document.enabled:
        documents.set_enabled(principal, document, True)
        return "changed"
    return "unchanged"


def _twin(page: SourcePage, found: Read) -> SourcePage | None:
    """Another page of the source that shows the same text and is kept."""
    others = SourcePage.objects.filter(
        source_id=page.source_id,
        content_hash=found.content_hash,
        state=State.KEPT,
        document__isnull=False,
        document__deleted_at__isnull=True,
    )
    return others.exclude(pk=page.pk).first()


def _receive(principal: Principal, page: SourcePage, document: Document | None, found: Read) -> str:
    source, home = page.source, page.source.base
    if document is not None:
        # Whatever people call it by now, and wherever they moved it: its base, place and name are its identity.
        # Its tags and metadata too are left to people.
        home, folder, name = document.base, document.folder, document.name
        details = intake.NO_DETAILS
    else:
        folder, name = _place(source, page, found)
        details = Details.checked(source.tags, source.metadata)
    with tempfile.TemporaryDirectory(prefix="archway-page-") as place:
        path = Path(place) / "page"
        path.write_bytes(found.data)
        try:
            received = intake.receive(principal, home, path, name, folder=folder, details=details)
        except intake.Duplicate as error:
            if document is not None and error.document.pk == document.pk:
                return _woken(principal, page, document)
            raise
    if document is None:
        Origin.objects.update_or_create(document=received.document, defaults={"url": page.url})
    elif page.state == State.GONE and not document.enabled:
        documents.set_enabled(principal, document, True)
    page.document = received.document
    page.changed_at = timezone.now()
    return "new" if document is None else "changed"


def _place(source: Source, page: SourcePage, found: Read) -> tuple[str, str]:
    """Folder and name of a new document: the site's own folders, the page's title, never a name that is taken."""
    parts = urlsplit(page.url)
    inner = (
        "/".join(unquote(part) for part in parts.path.split("/")[1:-1] if part)
        if source.kind != Source.Kind.PAGE
        else ""
    )
    top = source.folder or (parts.hostname or "")
    folder = intake.clean_path(f"{top}/{inner}/x")[0]
    title = found.title.replace("/", "∕").strip() or parts.hostname or "page"
    name = intake.clean_path(f"{title[:120].strip()}.{found.extension}")[1]
    key = f"{folder}/{name}" if folder else name
    taken = Document.objects.filter(base=source.base, source_key=key, deleted_at__isnull=True).exists()
    if taken:
        mark = hashlib.sha256(page.url.encode()).hexdigest()[:6]
        name = intake.clean_path(f"{title[:120].strip()} ({mark}).{found.extension}")[1]
    return folder, name
