"""What people do with documents: enable, disable, rename, move, tag, delete, restore, purge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from knowledge import lifecycle, statistics, storage
from knowledge import metadata as facts
from knowledge import tags as vocabulary
from knowledge.access import may_edit
from knowledge.images import keeping
from knowledge.intake import clean_path
from knowledge.models import ChunkVector, Document, Revision
from portal.kernel import audit, events
from portal.kernel.errors import Conflict, Invalid
from portal.kernel.models import User
from portal.kernel.principal import Principal


def _changed(document: Document) -> None:
    lifecycle.touch(document.base_id)
    events.publish(f"base:{document.base.uid}", {"type": "document.changed", "doc": document.uid})


def _count(document: Document, sign: int) -> None:
    """Add or take a document's words to or from the base's statistics; only what can be found counts."""
    if document.active_revision_id is not None:
        statistics.append(document.base_id, document.active_revision_id, sign=sign)


@transaction.atomic
def set_enabled(principal: Principal, document: Document, enabled: bool) -> None:
    """Let searches find a document, or not. Takes effect at the next search."""
    row = Document.objects.select_for_update().select_related("base").get(pk=document.pk)
    if row.enabled == enabled:
        return
    row.enabled = enabled
    row.save(update_fields=["enabled", "updated_at"])
    if row.deleted_at is None:
        _count(row, 1 if enabled else -1)
    audit.record(principal, "document.enable" if enabled else "document.disable", row, base_ids=[row.base_id])
    _changed(row)


@transaction.atomic
def delete(principal: Principal, document: Document) -> None:
    """Put a document into the recycle bin. Work on it stops; searches stop finding it at once."""
    row = Document.objects.select_for_update().select_related("base").get(pk=document.pk)
    if row.deleted_at is not None:
        return
    for revision in row.revisions.filter(status__in=[*lifecycle.OPEN, Revision.Status.REVIEW]):
        lifecycle.cancel(principal, revision)
    row.deleted_at = timezone.now()
    row.save(update_fields=["deleted_at", "updated_at"])
    if row.enabled:
        _count(row, -1)
    audit.record(principal, "document.delete", row, base_ids=[row.base_id], name=row.name)
    _changed(row)


@transaction.atomic
def restore(principal: Principal, document: Document) -> None:
    """Take a document out of the recycle bin; `Conflict` when its name is in use again."""
    row = Document.objects.select_for_update().select_related("base").get(pk=document.pk)
    if row.deleted_at is None:
        return
    if Document.objects.filter(base=row.base, source_key=row.source_key, deleted_at__isnull=True).exists():
        raise Conflict("A document named %(name)s is there already.", code="name_taken", name=row.name)
    row.deleted_at = None
    row.save(update_fields=["deleted_at", "updated_at"])
    if row.enabled:
        _count(row, 1)
    audit.record(principal, "document.restore", row, base_ids=[row.base_id], name=row.name)
    _changed(row)


@transaction.atomic
def purge(principal: Principal | None, document: Document) -> None:
    """Delete a document of the recycle bin for good: rows, vectors, files. Can not be undone."""
    row = Document.objects.select_for_update().select_related("base").get(pk=document.pk)
    if row.deleted_at is None:
        raise Conflict("Only a document in the recycle bin can be deleted for good.", code="not_deleted")
    revisions = list(row.revisions.values_list("pk", "file", "parsed_key", "raw_key"))
    files = {name for _, name, *_ in revisions}
    outputs = {key for _, _, *keys in revisions for key in keys if key}
    pictures = keeping.names_of(pk for pk, *_ in revisions)
    audit.record(
        principal,
        "document.purge",
        row,
        workspace_id=row.base.workspace_id,
        base_ids=[row.base_id],
        name=row.name,
    )
    base_uid, uid = row.base.uid, row.uid
    row.delete()
    transaction.on_commit(lambda: _delete_unused(files, outputs), robust=True)
    transaction.on_commit(lambda: keeping.forget_unused(pictures), robust=True)
    events.publish(f"base:{base_uid}", {"type": "document.changed", "doc": uid})


def _delete_unused(files: set[str], outputs: set[str]) -> None:
    """Delete stored files, and what was read in them, that no revision has any more."""
    used = set(Revision.objects.filter(file__in=files).values_list("file", flat=True))
    for name in files - used:
        storage.delete_file(name)
    kept = Revision.objects.filter(Q(parsed_key__in=outputs) | Q(raw_key__in=outputs))
    for key in outputs - {key for row in kept.values_list("parsed_key", "raw_key") for key in row}:
        storage.delete_output(key)


@transaction.atomic
def describe(
    principal: Principal,
    document: Document,
    *,
    name: str | None = None,
    folder: str | None = None,
    tags: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    review_date: date | None = None,
    clear_review_date: bool = False,
    owner: User | None = None,
    clear_owner: bool = False,
) -> Document:
    """Change what a document is called, where it lies, how it is tagged, who looks after it; None leaves a field.

    The identity (source key) follows name and folder, so that the next upload to that place revises it.
    """
    row = Document.objects.select_for_update().select_related("base").get(pk=document.pk)
    before = {name: getattr(row, name) for name in ("name", "folder", "tags", "metadata")}
    before |= {"review_date": str(row.review_date or ""), "owner": str(row.owner or "")}
    if name is not None:
        row.name = clean_path(name)[1]
    if folder is not None:
        row.folder = clean_path(f"{folder}/x")[0]
    if tags is not None:
        row.tags = vocabulary.adopt(row.base_id, tags, by=principal.user_id)
    if metadata is not None:
        facts.set_by_hand(row, metadata)
    if review_date is not None or clear_review_date:
        row.review_date, row.review_told = review_date, ""
    if owner is not None or clear_owner:
        row.owner = responsible(row, owner)
    row.source_key = f"{row.folder}/{row.name}" if row.folder else row.name
    taken = Document.objects.filter(base=row.base, source_key=row.source_key, deleted_at__isnull=True)
    if taken.exclude(pk=row.pk).exists():
        raise Conflict("A document named %(name)s is there already.", code="name_taken", name=row.name)
    row.save()
    audit.record(principal, "document.describe", row, base_ids=[row.base_id], before=before)
    _changed(row)
    return row


def responsible(document: Document, person: User | None) -> User | None:
    """The person, when they may edit the document: a reminder is of no use to anybody else."""
    if person is not None and not may_edit(person, document.base):
        raise Invalid("%(person)s may not edit this base.", code="owner_may_not_edit", person=str(person))
    return person


def empty_recycle_bin() -> int:
    """Purge what has lain in recycle bins longer than the configured days; returns how many documents."""
    limit = timezone.now() - timedelta(days=settings.ARCHWAY["RECYCLE_DAYS"])
    old = list(Document.objects.filter(deleted_at__lt=limit)[:200])
    for document in old:
        purge(None, document)
    return len(old)


# How many revisions of a document keep their vectors besides the current one, for an instant way back.
KEPT_REVISIONS = 2


def drop_superseded_vectors(limit: int = 100) -> int:
    """Take the vectors of revisions that were left behind out of the indexed tables; returns how many revisions."""
    dropped = 0
    candidates = Revision.objects.filter(status=Revision.Status.INDEXED, vectors_kept=True).exclude(
        document__active_revision_id=F("pk")
    )
    for revision in candidates.select_related("document")[:limit]:
        newer = Revision.objects.filter(
            document_id=revision.document_id, status=Revision.Status.INDEXED, number__gt=revision.number
        )
        if newer.count() <= KEPT_REVISIONS:
            continue
        with transaction.atomic():
            document = Document.objects.select_for_update().get(pk=revision.document_id)
            if document.active_revision_id == revision.pk:
                continue
            Revision.objects.filter(pk=revision.pk).update(vectors_kept=False)
            ChunkVector.objects.filter(revision_id=revision.pk).delete()
            dropped += 1
    return dropped
