"""Passages and leaves with their places, offsets and switches. Lexemes are made anew from the text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from django.db import connection, transaction
from pydantic import Field

from knowledge.archive.contract import Building, Checking, Part, Place, Reading
from knowledge.archive.manifest import tampered
from knowledge.archive.parts.revisions import wanted
from knowledge.archive.records import Count, Digest, Record, Text
from knowledge.ingestion.store import searchable_text
from knowledge.models import Chunk, KnowledgeBase, Revision
from knowledge.terms import overlay
from knowledge.text import Terms, clean, tokenise, tsvector_literal

# Columns of `Chunk` that are not carried along, and why.
LEFT_OUT = {
    "id": "ids are of this installation",
    "revision": "named by its place",
    "words": "counted when the lexemes are made",
    "lexemes": "made anew from the text",
}
_BATCH = 1_000
_COLUMNS = (
    "id", "revision_id", "parent_id", "level", "ordinal", "text", "prefix", "heading_path", "page", "sheet",
    "row_first", "row_last", "slide", "start", "end", "token_count", "sha256", "enabled", "version", "words", "lexemes",
)  # fmt: skip
_COPIED = (
    "level", "ordinal", "text", "prefix", "heading_path", "page", "sheet", "row_first", "row_last", "slide", "start",
    "end", "token_count", "sha256", "enabled", "version",
)  # fmt: skip
Level = Literal["passage", "leaf", "gone"]


class ChunkRecord(Record):
    """`parent` is (level, ordinal) of the passage that a leaf belongs to."""

    doc: Count
    rev: Count
    level: Level
    ordinal: Count
    parent: tuple[Level, Count] | None
    text: Annotated[Text, Field(max_length=200_000)]
    prefix: Annotated[Text, Field(max_length=200_000)]
    heading_path: Annotated[list[Annotated[Text, Field(max_length=10_000)]], Field(max_length=100)]
    page: Count | None
    sheet: Annotated[Text, Field(max_length=10_000)] | None
    row_first: Count | None
    row_last: Count | None
    slide: Count | None
    start: Count
    end: Count
    token_count: Count
    sha256: Digest
    enabled: bool
    version: Annotated[int, Field(ge=1, le=1_000_000)]


def _read(reading: Reading) -> Iterator[ChunkRecord]:
    """Passages of a revision before its leaves, so that a reader knows a leaf's parent."""
    for pk in reading.indexed:
        place = reading.revisions[pk]
        rows = Chunk.objects.filter(revision_id=pk).defer("lexemes").select_related("parent").defer("parent__lexemes")
        for level in (Chunk.Level.PASSAGE, Chunk.Level.GONE, Chunk.Level.LEAF):
            for row in rows.filter(level=level).order_by("ordinal").iterator(chunk_size=2_000):
                parent = (row.parent.level, row.parent.ordinal) if row.parent else None
                copied: dict[str, Any] = {name: getattr(row, name) for name in _COPIED}
                yield ChunkRecord(doc=place.doc, rev=place.rev, parent=parent, **copied)  # type: ignore[arg-type]


def _check(checking: Checking, record: ChunkRecord) -> None:
    place = Place(record.doc, record.rev)
    if place != checking.current:
        # Chunks of a revision stand together.
        checking.once("chunks", place)
        checking.indexed(place)
        checking.current, checking.places = place, set()
    if (record.level == "leaf") != (record.parent is not None) or record.start > record.end:
        raise tampered()
    if record.parent is not None and (record.parent[0] == "leaf" or record.parent not in checking.places):
        raise tampered()
    if (record.level, record.ordinal) in checking.places:
        raise tampered()
    checking.places.add((record.level, record.ordinal))


def _write(building: Building, records: Iterator[ChunkRecord]) -> None:
    version = KnowledgeBase.objects.values_list("terms_version", flat=True).get(pk=building.base.pk)
    terms = overlay.overlay(building.base.pk, version)
    current: Place | None = None
    parents: dict[tuple[str, int], tuple[int, list[str]]] = {}
    batch: list[tuple[object, ...]] = []
    ids = _ids()
    for record in records:
        place = Place(record.doc, record.rev)
        if place != current:
            current, parents = place, {}
        pk = next(ids)
        parent = parents[record.parent] if record.parent else None
        if record.level != "leaf":
            parents[record.level, record.ordinal] = (pk, record.heading_path)
        else:
            building.leaves[place] += 1
        batch.append(_row(building, place, pk, parent, record, terms))
        if len(batch) >= _BATCH:
            _copy(batch)
            batch = []
    _copy(batch)
    for place, leaves in building.leaves.items():
        Revision.objects.filter(pk=building.revisions[place]).update(chunk_count=leaves)


def _row(
    building: Building,
    place: Place,
    pk: int,
    parent: tuple[int, list[str]] | None,
    record: ChunkRecord,
    terms: Terms | None,
) -> tuple[object, ...]:
    words, lexemes = 0, None
    if parent is not None:
        tokens = tokenise(searchable_text(clean(building.names[place.doc]), parent[1], record.text), terms)
        words, lexemes = len(tokens), tsvector_literal(tokens)
    copied = [getattr(record, name) for name in _COPIED]
    return (pk, building.revisions[place], parent[0] if parent else None, *copied, words, lexemes)


def _ids() -> Iterator[int]:
    while True:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT nextval(pg_get_serial_sequence('knowledge_chunk', 'id')) FROM generate_series(1, %s)", [_BATCH]
            )
            yield from [row[0] for row in cursor.fetchall()]


def _copy(rows: list[tuple[object, ...]]) -> None:
    columns = ", ".join(f'"{name}"' for name in _COLUMNS)
    with (
        transaction.atomic(),
        connection.cursor() as cursor,
        cursor.copy(f"COPY knowledge_chunk ({columns}) FROM STDIN") as copy,
    ):
        for row in rows:
            copy.write_row(row)


def chunk_id(building: Building, place: Place, level: str, ordinal: int) -> int:
    """The chunk that a record of a later part names. Raises `Invalid` (archive_changed)."""
    rows = Chunk.objects.filter(revision_id=building.revisions[place], level=level, ordinal=ordinal)
    found = rows.values_list("pk", flat=True).first()
    if found is None:
        raise tampered()
    return found


def _count(reading: Reading) -> int:
    return Chunk.objects.filter(revision__in=wanted(reading).filter(status=Revision.Status.INDEXED)).count()


PART = Part("chunks", ChunkRecord, _count, _read, _check, _write)
