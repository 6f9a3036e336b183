"""Revisions: the original files, how they were split, what was read in them, and where the work on them stands.

Work that is under way is not carried along: such a revision is queued anew where it is imported.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from django.db.models import F, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone
from pydantic import Field, JsonValue, TypeAdapter, ValidationError

from knowledge import base_settings, storage
from knowledge.archive.contract import Building, Checking, Part, Place, Reading, batches_of, moment
from knowledge.archive.manifest import tampered
from knowledge.archive.parts.documents import facts, live
from knowledge.archive.records import Count, Digest, Json, Record, Text, canonical, digest
from knowledge.ingestion.blocks import ParsedDocument
from knowledge.ingestion.parsers import BY_MIME
from knowledge.ingestion.transformations import rules_of
from knowledge.intake import clean_path
from knowledge.models import Revision
from portal.kernel.models import json_safe, new_uid

Status = Revision.Status
State = Literal["indexed", "failed", "no_text", "cancelled", "queued"]
# Columns of `Revision` that are not carried along, and why.
_WORK = "belongs to the work on it, which ends or begins anew"
LEFT_OUT: dict[str, str] = {
    "id": "ids are of this installation",
    "uid": "ids are of this installation",
    "document": "named by its place",
    "base": "the archive is of one base",
    "file": "named by its hash",
    "status": "as `state`",
    "chunk_count": "counted when the chunks are written",
    "parsed_key": "as `parsed`",
    "raw_key": "the same text when nothing was cleaned up, else made anew when the document is read again",
    "handwork": "kept while a review is split anew, which begins anew",
    "space": "in the manifest",
    "vectors_kept": "follows from the vectors",
    "created_by": "people are mapped to whoever imports",
    "created_at": "queued_at says when it came",
    "error_message": "words of another installation; the code is carried along",
    "error_params": "words of another installation; the code is carried along",
    **dict.fromkeys(
        ("stage", "claim_no", "claimed_by", "served_at", "heartbeat_at", "attempts", "attempts_before", "not_before",
         "started_at", "finished_at", "cancel_requested", "done", "total", "unit"),
        _WORK,
    ),
}  # fmt: skip
_FAILED_ELSEWHERE = "It could not be processed where the archive comes from (%(reason)s); try again here."
_PARSED = TypeAdapter(dict[str, JsonValue])


class RevisionRecord(Record):
    """`parsed` is the digest of the text as it was read, with its blocks; kept in `parsed/<digest>`."""

    VOLATILE: ClassVar[frozenset[str]] = frozenset({"queued_at"})

    doc: Count
    number: Annotated[int, Field(ge=1, le=2_147_483_647)]
    state: State
    file_name: Annotated[Text, Field(max_length=400)]
    sha256: Digest
    mime: Annotated[Text, Field(max_length=120)]
    size: Annotated[int, Field(ge=0, le=1 << 40)]
    config: Json
    own_splitting: bool
    error_stage: Annotated[str, Field(pattern=r"^[a-z_]{0,12}$")]
    error_code: Annotated[str, Field(pattern=r"^[a-z_0-9]{0,40}$")]
    warnings: Annotated[list[Annotated[Text, Field(max_length=4_000)]], Field(max_length=200)]
    page_count: Count | None
    metadata: Json = Field(default_factory=dict)
    token_count: Annotated[int, Field(ge=0, le=1 << 50)]
    parsed: Digest | None
    queued_at: Annotated[Text, Field(max_length=40)]


def wanted(reading: Reading) -> QuerySet[Revision]:
    """The revisions of the archive: all, or of each document the current one (without one: the newest)."""
    rows = Revision.objects.filter(document__in=live(reading))
    if reading.which == "all":
        return rows
    newest = Revision.objects.filter(document=OuterRef("document")).order_by("-number").values("pk")[:1]
    current = Q(document__active_revision=F("pk"))
    return rows.filter(current | Q(document__active_revision__isnull=True, pk=Subquery(newest)))


def _read(reading: Reading) -> Iterator[RevisionRecord]:
    rows = wanted(reading).values_list("document_id", "number", "pk")
    places = sorted((reading.documents[document], number, pk) for document, number, pk in rows)
    reading.revisions.update({pk: Place(doc, number) for doc, number, pk in places})
    order = list(reading.revisions)
    for start in range(0, len(order), 500):
        found = Revision.objects.in_bulk(order[start : start + 500])
        for pk in order[start : start + 500]:
            row, place = found[pk], reading.revisions[pk]
            if row.status == Status.INDEXED:
                reading.indexed.append(pk)
            reading.keep("files", row.sha256, row.file)
            yield _record(place, row, _keep_parsed(reading, row))


def _record(place: Place, row: Revision, parsed: str | None) -> RevisionRecord:
    settled = row.status in (Status.INDEXED, Status.FAILED, Status.NO_TEXT, Status.CANCELLED)
    failed = row.status in (Status.FAILED, Status.NO_TEXT)
    return RevisionRecord(
        doc=place.doc,
        number=place.rev,
        state=row.status if settled else "queued",  # type: ignore[arg-type]
        file_name=row.file_name,
        sha256=row.sha256,
        mime=row.mime,
        size=row.size,
        config=base_settings.read(row.config).model_dump(mode="json"),
        own_splitting=row.own_splitting,
        error_stage=row.error_stage if failed else "",
        error_code=row.error_code if failed else "",
        warnings=[warning[:4_000] for warning in row.warnings[:200]] if settled else [],
        page_count=row.page_count if settled else None,
        metadata=row.metadata if settled else {},
        token_count=row.token_count if row.status == Status.INDEXED else 0,
        parsed=parsed,
        queued_at=row.queued_at.isoformat(),
    )


def _keep_parsed(reading: Reading, row: Revision) -> str | None:
    kept = storage.read_output(row.parsed_key) if row.status == Status.INDEXED else None
    if kept is None:
        return None
    data = canonical(ParsedDocument.from_json(kept).as_json())
    name = digest(data)
    key = row.parsed_key
    # Read again when it is written: the texts of a whole base do not fit into memory.
    reading.blobs.setdefault(f"parsed/{name}", lambda: io.BytesIO(_parsed_bytes(key)))
    return name


def _parsed_bytes(key: str) -> bytes:
    kept = storage.read_output(key)
    return canonical(ParsedDocument.from_json(kept).as_json()) if kept else b""


def _check(checking: Checking, record: RevisionRecord) -> None:
    place = Place(record.doc, record.number)
    checking.once("revision", place)
    if record.doc not in checking.active or record.mime not in BY_MIME:
        raise tampered()
    facts(record.metadata)
    if clean_path(record.file_name)[1] != record.file_name:
        raise tampered()
    if record.state == "queued":
        checking.once("queued", record.doc)
    if checking.active[record.doc] == record.number and record.state != "indexed":
        raise tampered()
    if (record.parsed is not None or record.token_count) and record.state != "indexed":
        raise tampered()
    try:
        base_settings.read(record.config)
    except ValidationError:
        raise tampered() from None
    moment(record.queued_at)
    checking.states[place] = record.state
    checking.expect(f"files/{record.sha256}", record.size)
    if record.parsed:
        checking.expect(f"parsed/{record.parsed}")


def check_active(checking: Checking) -> None:
    """After the last revision: what a document says is current must be there."""
    for doc, number in checking.active.items():
        if number is not None and checking.states.get(Place(doc, number)) != "indexed":
            raise tampered()


def _write(building: Building, records: Iterator[RevisionRecord]) -> None:
    for batch in batches_of(records, 100):
        keys = {_key_of(building, record.parsed) for record in batch if record.parsed}
        building.note([storage.output_name(key) for key in sorted(keys)])
        rows = [_row(building, record) for record in batch]
        Revision.objects.bulk_create(rows)
        for row, record in zip(rows, batch, strict=True):
            place = Place(record.doc, record.number)
            building.revisions[place], building.states[place] = row.pk, record.state
            building.leaves[place] = building.vectors[place] = 0
            row.queued_at = moment(record.queued_at)  # type: ignore[assignment]
        Revision.objects.bulk_update(rows, ["queued_at"])


def _row(building: Building, record: RevisionRecord) -> Revision:
    # Everything that is to be worked on waits as cancelled until the base is complete; then it is queued.
    status = Status.CANCELLED if record.state == "queued" else Status(record.state)
    failed = status in (Status.FAILED, Status.NO_TEXT)
    config = base_settings.read(record.config)
    parsed_key = _take_parsed(building, record.parsed)
    return Revision(
        uid=new_uid(),
        document_id=building.documents[record.doc],
        base=building.base,
        number=record.number,
        file=building.store(f"files/{record.sha256}"),
        file_name=record.file_name,
        sha256=record.sha256,
        mime=record.mime,
        size=record.size,
        config=config.model_dump(mode="json"),
        own_splitting=record.own_splitting,
        status=status,
        stage="embed" if status == Status.INDEXED else "parse",
        error_stage=record.error_stage,
        error_code=record.error_code,
        error_message=_FAILED_ELSEWHERE if failed else "",
        error_params={"reason": record.error_code} if failed else {},
        warnings=record.warnings,
        page_count=record.page_count,
        metadata=record.metadata,
        token_count=record.token_count,
        vectors_kept=False,
        parsed_key=parsed_key,
        raw_key="" if rules_of(config.splitting) else parsed_key,
        finished_at=timezone.now(),
        created_by_id=building.user_id,
    )


def _take_parsed(building: Building, name: str | None) -> str:
    """Keep what was read under a name of this base alone.

    Outputs of our own parser are shared by all that has the same bytes; what an archive claims to have been
    read in them must never be found by another document.
    """
    if name is None:
        return ""
    try:
        value = json_safe(_PARSED.validate_json(building.blob(f"parsed/{name}")))
        document = ParsedDocument.from_json(value)
        document.as_json()
    except (ValidationError, KeyError, TypeError, ValueError, AttributeError):
        raise tampered() from None
    key = _key_of(building, name)
    storage.write_output(key, {**document.as_json(), "images": []})
    return key


def _key_of(building: Building, name: str) -> str:
    return storage.output_key("imported", building.base.uid, name)


PART = Part("revisions", RevisionRecord, lambda reading: wanted(reading).count(), _read, _check, _write)
