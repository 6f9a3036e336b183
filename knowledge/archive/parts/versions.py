"""Earlier states of passages that people changed, so that what was cited stays reproducible elsewhere, too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from knowledge.archive.contract import Building, Checking, Part, Place, Reading, batches_of, moment
from knowledge.archive.manifest import tampered
from knowledge.archive.parts.chunks import chunk_id
from knowledge.archive.parts.revisions import wanted
from knowledge.archive.records import Count, Digest, Json, Record, Text
from knowledge.chunks.history import PassageState
from knowledge.models import ChunkVersion, Revision
from portal.kernel.models import json_safe

# Columns of `ChunkVersion` that are not carried along, and why.
LEFT_OUT = {
    "id": "ids are of this installation",
    "chunk": "named by its place",
    "edited_by": "people are mapped to whoever imports",
}
_STATE = TypeAdapter(PassageState)
# What stands in columns of its own, not in `place`.
_COLUMNS = {"text", "enabled", "gone"}


class VersionRecord(Record):
    doc: Count
    rev: Count
    level: Annotated[Text, Field(max_length=7)]
    ordinal: Count
    number: Annotated[int, Field(ge=1, le=1_000_000)]
    verb: Annotated[Text, Field(max_length=8)]
    change: Annotated[str, Field(pattern=r"^[a-z0-9]{0,16}$")]
    text: Annotated[Text, Field(max_length=200_000)]
    sha256: Digest
    enabled: bool
    gone: bool
    place: Json
    at: Annotated[Text, Field(max_length=40)]


def _read(reading: Reading) -> Iterator[VersionRecord]:
    for pk in reading.indexed:
        place = reading.revisions[pk]
        rows = ChunkVersion.objects.filter(chunk__revision_id=pk).select_related("chunk").defer("chunk__lexemes")
        for row in rows.order_by("chunk__level", "chunk__ordinal", "number"):
            yield VersionRecord(
                doc=place.doc,
                rev=place.rev,
                level=row.chunk.level,
                ordinal=row.chunk.ordinal,
                number=row.number,
                verb=row.verb,
                change=row.change,
                text=row.text,
                sha256=row.sha256,
                enabled=row.enabled,
                gone=row.gone,
                place=row.place,
                at=row.at.isoformat(),
            )


def _check(checking: Checking, record: VersionRecord) -> None:
    checking.indexed(Place(record.doc, record.rev))
    checking.once("version", record.doc, record.rev, record.level, record.ordinal, record.number)
    if record.verb not in ChunkVersion.Verb.values:
        raise tampered()
    moment(record.at)
    _place(record)


def _place(record: VersionRecord) -> dict[str, Any]:
    """The place as a restore reads it: exactly the fields that it knows, of the right types."""
    try:
        state = _STATE.validate_python(
            {**record.place, "text": record.text, "enabled": record.enabled, "gone": record.gone}
        )
    except ValidationError:
        raise tampered() from None
    found = {name: value for name, value in asdict(state).items() if name not in _COLUMNS}
    return {**found, "heading_path": list(state.heading_path), "leaves": list(found["leaves"])}


def _write(building: Building, records: Iterator[VersionRecord]) -> None:
    for batch in batches_of(records, 200):
        rows = []
        for record in batch:
            row = ChunkVersion(
                chunk_id=chunk_id(building, Place(record.doc, record.rev), record.level, record.ordinal),
                number=record.number,
                verb=record.verb,
                change=record.change,
                text=record.text,
                sha256=record.sha256,
                enabled=record.enabled,
                gone=record.gone,
                place=json_safe(_place(record)),
                edited_by_id=building.user_id if record.verb != ChunkVersion.Verb.MADE else None,
            )
            rows.append(row)
        ChunkVersion.objects.bulk_create(rows)
        for row, record in zip(rows, batch, strict=True):
            row.at = moment(record.at)  # type: ignore[assignment]
        ChunkVersion.objects.bulk_update(rows, ["at"])


def _count(reading: Reading) -> int:
    revisions = wanted(reading).filter(status=Revision.Status.INDEXED)
    return ChunkVersion.objects.filter(chunk__revision__in=revisions).count()


PART = Part("versions", VersionRecord, _count, _read, _check, _write)
