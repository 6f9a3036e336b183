"""What people do with web sources: make, change, delete. Synchronising and cancelling stand in `runs`."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.db import transaction

from knowledge import documents
from knowledge.details import Details
from knowledge.intake import clean_path
from knowledge.models import Document, KnowledgeBase, Source, SourceRun
from knowledge.sources import runs
from knowledge.sources.addresses import canonical, clean_patterns
from portal.kernel import audit, egress
from portal.kernel.errors import Conflict, Invalid
from portal.kernel.principal import Principal

MOST_SOURCES = 200
CHANGEABLE = (
    "name", "folder", "depth", "page_limit", "limit_mb", "include", "exclude", "main_only", "schedule", "gone",
    "tags", "metadata",
)  # fmt: skip


@transaction.atomic
def create(principal: Principal, base: KnowledgeBase, *, url: str, kind: str, **values: Any) -> Source:
    """Make a source in a base the asker may edit, and synchronise it for the first time.

    Raises `Invalid` (url_invalid, url_forbidden, patterns_invalid, tags_invalid, metadata_invalid,
    too_many_sources), `Unavailable` (host_unknown) and
    `Conflict` (source_taken).
    """
    address = canonical(url)
    egress.judge(address)
    if base.sources.count() >= MOST_SOURCES:
        raise Invalid("A base takes at most %(limit)s web sources.", code="too_many_sources", limit=MOST_SOURCES)
    if base.sources.filter(url=address, kind=kind).exists():
        raise Conflict("This address is a source of the base already.", code="source_taken")
    source = Source(base=base, url=address, kind=kind, created_by_id=principal.user_id)
    _set(source, values)
    source.name = source.name or _name_of(address)
    source.save()
    audit.record(principal, "source.create", source, base_ids=[base.pk], url=address, kind=kind)
    runs.start(principal, source, SourceRun.Trigger.PERSON)
    return source


def _name_of(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.netloc}{parts.path.rstrip('/')}"[:200]


def _set(source: Source, values: dict[str, Any]) -> None:
    for name, value in values.items():
        if name not in CHANGEABLE:
            raise ValueError(name)
        setattr(source, name, value)
    source.name = " ".join(source.name.split())[:200]
    source.folder = clean_path(f"{source.folder}/x")[0][:400]
    details = Details.checked(source.tags, source.metadata)
    source.tags, source.metadata = list(details.tags), dict(details.metadata)
    source.include, source.exclude = clean_patterns(source.include), clean_patterns(source.exclude)


@transaction.atomic
def change(principal: Principal, source: Source, **values: Any) -> Source:
    """Change settings of a source; they hold from its next synchronisation on. Errors as `create`."""
    row = Source.objects.select_for_update(of=("self",)).select_related("base").get(pk=source.pk)
    before = {name: getattr(row, name) for name in values}
    _set(row, values)
    row.name = row.name or _name_of(row.url)
    changed = [name for name, value in before.items() if getattr(row, name) != value]
    if not changed:
        return row
    if "schedule" in changed:
        row.next_run_at = runs.next_time(row.schedule)
    row.save()
    if "main_only" in changed:
        # What was read of the pages is another text now: each is read anew.
        row.pages.update(etag="", last_modified="", content_hash="")
    audit.record(
        principal, "source.change", row, base_ids=[row.base_id], before={name: before[name] for name in changed}
    )
    return row


@transaction.atomic
def delete(principal: Principal, source: Source, *, with_documents: bool = False) -> int:
    """Forget a source; its documents stay, or go to the recycle bin. Returns how many went.

    What was moved to another base stays there in any case.
    """
    row = Source.objects.select_for_update(of=("self",)).select_related("base").get(pk=source.pk)
    kept = Document.objects.filter(web_page__source=row, base=row.base, deleted_at__isnull=True)
    gone = list(kept) if with_documents else []
    audit.record(principal, "source.delete", row, base_ids=[row.base_id], url=row.url, documents=len(gone))
    for document in gone:
        documents.delete(principal, document)
    row.delete()
    return len(gone)
