"""Documents: name, folder, tags, review date, whether searches find them. The recycle bin stays behind."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Annotated, ClassVar

from django.db.models import QuerySet
from pydantic import Field, JsonValue

from knowledge import metadata
from knowledge.archive.contract import Building, Checking, Part, Reading, batches_of, moment
from knowledge.archive.manifest import tampered
from knowledge.archive.records import Count, Json, Record, Text
from knowledge.intake import clean_path
from knowledge.models import Document
from portal.kernel.errors import Invalid
from portal.kernel.models import new_uid

# Columns of `Document` that are not carried along, and why.
LEFT_OUT: dict[str, str] = {
    "id": "ids are of this installation",
    "uid": "ids are of this installation",
    "base": "the archive is of one base",
    "active_revision": "named by its number",
    "deleted_at": "the recycle bin stays behind",
    "created_by": "people are mapped to whoever imports",
    "owner": "people are mapped to whoever imports",
    "review_told": "reminders are sent anew",
}


class DocumentRecord(Record):
    """`active` is the number of the revision that searches find."""

    VOLATILE: ClassVar[frozenset[str]] = frozenset({"updated_at"})

    doc: Count
    source_key: Annotated[Text, Field(max_length=1000)]
    folder: Annotated[Text, Field(max_length=800)]
    name: Annotated[Text, Field(max_length=400)]
    enabled: bool
    tags: Annotated[list[Annotated[Text, Field(max_length=60)]], Field(max_length=30)]
    # Archives from before there was metadata have none.
    metadata: Json = Field(default_factory=dict)
    metadata_by_hand: Annotated[list[Annotated[Text, Field(max_length=60)]], Field(max_length=100)] = []
    review_date: Annotated[Text, Field(max_length=10)] | None
    active: Count | None
    created_at: Annotated[Text, Field(max_length=40)]
    updated_at: Annotated[Text, Field(max_length=40)]


def live(reading: Reading) -> QuerySet[Document]:
    """The documents of the archive."""
    return Document.objects.filter(base=reading.base, deleted_at__isnull=True)


def _read(reading: Reading) -> Iterator[DocumentRecord]:
    # Python's order of bytes, whatever the collation of the database.
    keys = sorted(live(reading).values_list("source_key", "pk"), key=lambda row: row[0].encode())
    reading.documents.update({pk: place for place, (_, pk) in enumerate(keys)})
    wanted = list(reading.documents)
    for start in range(0, len(wanted), 500):
        rows = Document.objects.select_related("active_revision").in_bulk(wanted[start : start + 500])
        for pk in wanted[start : start + 500]:
            yield _record(reading.documents[pk], rows[pk])


def _record(place: int, row: Document) -> DocumentRecord:
    active = row.active_revision
    return DocumentRecord(
        doc=place,
        source_key=row.source_key,
        folder=row.folder,
        name=row.name,
        enabled=row.enabled,
        tags=row.tags,
        metadata=row.metadata,
        metadata_by_hand=row.metadata_by_hand,
        review_date=row.review_date.isoformat() if row.review_date else None,
        active=active.number if active else None,
        created_at=row.created_at.isoformat(),
        updated_at=row.updated_at.isoformat(),
    )


def _check(checking: Checking, record: DocumentRecord) -> None:
    if record.doc != len(checking.active) or record.source_key in checking.source_keys:
        raise tampered()
    path = f"{record.folder}/{record.name}" if record.folder else record.name
    if record.source_key != path or clean_path(path) != (record.folder, record.name):
        raise tampered()
    if not checking.tags.issuperset(record.tags) or len(set(record.tags)) != len(record.tags):
        raise tampered()
    facts(record.metadata)
    moment(record.created_at)
    moment(record.updated_at)
    _date(record.review_date)
    checking.source_keys.add(record.source_key)
    checking.active[record.doc] = record.active


def facts(values: dict[str, JsonValue]) -> None:
    """Refuse metadata that this installation would not take from a person."""
    try:
        if metadata.checked(values) != values:
            raise tampered()
    except Invalid:
        raise tampered() from None


def _date(raw: str | None) -> date | None:
    try:
        return date.fromisoformat(raw) if raw else None
    except ValueError:
        raise tampered() from None


def _write(building: Building, records: Iterator[DocumentRecord]) -> None:
    for batch in batches_of(records):
        rows = [
            Document(
                uid=new_uid(),
                base=building.base,
                source_key=record.source_key,
                folder=record.folder,
                name=record.name,
                enabled=record.enabled,
                tags=record.tags,
                metadata=record.metadata,
                metadata_by_hand=record.metadata_by_hand,
                review_date=_date(record.review_date),
                created_by_id=building.user_id,
            )
            for record in batch
        ]
        Document.objects.bulk_create(rows)
        for row, record in zip(rows, batch, strict=True):
            row.created_at = moment(record.created_at)  # type: ignore[assignment]
            row.updated_at = moment(record.updated_at)  # type: ignore[assignment]
            building.documents[record.doc], building.names[record.doc] = row.pk, record.name
            building.active[record.doc] = record.active
        # A second statement: Django sets these times itself when it inserts.
        Document.objects.bulk_update(rows, ["created_at", "updated_at"])


PART = Part("documents", DocumentRecord, lambda reading: live(reading).count(), _read, _check, _write)
