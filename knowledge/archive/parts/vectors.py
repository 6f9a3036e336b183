"""The leaves' vectors, when the archive is to hold them. They are used again only where the model is the same."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Annotated

import numpy as np
from django.db import connection, transaction
from numpy.typing import NDArray
from pydantic import Field

from knowledge.archive.contract import Building, Checking, Part, Place, Reading
from knowledge.archive.manifest import tampered
from knowledge.archive.parts.revisions import wanted
from knowledge.archive.records import Count, Record, Text
from knowledge.ingestion.store import add_vectors
from knowledge.models import Chunk, ChunkVector

# Columns of `ChunkVector` that are not carried along, and why.
LEFT_OUT = {
    "id": "ids are of this installation",
    "chunk": "named by its place",
    "revision": "named by its place",
    "space": "in the manifest",
    "bits": "the signs follow from the vector",
    "halfvec": "as `vector`",
}
_BATCH = 1_000
# The head of `halfvec_send`: dimensions and an unused number.
_HEAD = 4


class VectorRecord(Record):
    """`vector` is base64 of half-precision floats, little-endian."""

    doc: Count
    rev: Count
    ordinal: Count
    vector: Annotated[Text, Field(max_length=60_000)]


_SELECT = """
SELECT c.ordinal, halfvec_send(v.halfvec) FROM knowledge_chunkvector v JOIN knowledge_chunk c ON c.id = v.chunk_id
 WHERE v.revision_id = %s AND v.space_id = %s ORDER BY c.ordinal
"""


def _read(reading: Reading) -> Iterator[VectorRecord]:
    space = reading.base.embedding.space_id
    if not reading.vectors or space is None:
        return
    for pk in reading.indexed:
        place = reading.revisions[pk]
        with connection.cursor() as cursor:
            cursor.execute(_SELECT, [pk, space])
            while rows := cursor.fetchmany(_BATCH):
                for ordinal, raw in rows:
                    values = np.frombuffer(bytes(raw)[_HEAD:], dtype=">f2").astype("<f2")
                    vector = base64.b64encode(values.tobytes()).decode()
                    yield VectorRecord(doc=place.doc, rev=place.rev, ordinal=ordinal, vector=vector)


def _check(checking: Checking, record: VectorRecord) -> None:
    checking.indexed(Place(record.doc, record.rev))
    if checking.manifest.embedding is None:
        raise tampered()
    _numbers(record, checking.manifest.embedding.dimensions)


def _numbers(record: VectorRecord, dimensions: int) -> NDArray[np.float32]:
    try:
        values = np.frombuffer(base64.b64decode(record.vector, validate=True), dtype="<f2").astype(np.float32)
    except (binascii.Error, ValueError):
        raise tampered() from None
    # A vector that is not of unit length would stand above all others in every search.
    if values.shape != (dimensions,) or not np.isfinite(values).all() or not 0.9 < np.linalg.norm(values) < 1.1:
        raise tampered()
    return values


def _write(building: Building, records: Iterator[VectorRecord]) -> None:
    if building.space is None:
        return
    current: Place | None = None
    batch: list[VectorRecord] = []
    for record in records:
        place = Place(record.doc, record.rev)
        if current is not None and (place != current or len(batch) >= _BATCH):
            _store(building, current, batch)
            batch = []
        current = place
        batch.append(record)
    if current is not None:
        _store(building, current, batch)


def _store(building: Building, place: Place, batch: list[VectorRecord]) -> None:
    assert building.space is not None
    revision = building.revisions[place]
    ordinals = [record.ordinal for record in batch]
    rows = Chunk.objects.filter(revision_id=revision, level=Chunk.Level.LEAF, ordinal__in=ordinals)
    ids = dict(rows.values_list("ordinal", "pk"))
    if len(ids) != len(ordinals):
        raise tampered()
    vectors = np.stack([_numbers(record, building.space.dimensions) for record in batch])
    with transaction.atomic():
        add_vectors(revision, building.space, [ids[ordinal] for ordinal in ordinals], vectors)
    building.vectors[place] += len(batch)


def _count(reading: Reading) -> int:
    if not reading.vectors or reading.base.embedding.space_id is None:
        return 0
    revisions = wanted(reading)
    return ChunkVector.objects.filter(revision__in=revisions, space_id=reading.base.embedding.space_id).count()


PART = Part("vectors", VectorRecord, _count, _read, _check, _write)
