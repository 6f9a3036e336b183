"""Questions as ways to passages. Lexemes are made anew from the text, vectors in the background."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from django.db import connection
from pydantic import Field

from knowledge.archive.contract import Building, Checking, Part, Place, Reading, batches_of
from knowledge.archive.manifest import tampered
from knowledge.archive.parts.chunks import chunk_id
from knowledge.archive.parts.revisions import wanted
from knowledge.archive.records import Count, Record, Text
from knowledge.models import ChunkQuestion, KnowledgeBase, Revision
from knowledge.questions import embedding, verbs
from knowledge.terms import overlay
from knowledge.text import tokenise, tsvector_literal
from portal.kernel.errors import Invalid

# Columns of `ChunkQuestion` that are not carried along, and why.
LEFT_OUT = {
    "id": "ids are of this installation",
    "uid": "ids are of this installation",
    "base": "the archive is of one base",
    "revision": "named by its place",
    "chunk": "named by its place",
    "digest": "made anew from the text",
    "words": "counted when the lexemes are made",
    "lexemes": "made anew from the text",
    "created_by": "people are mapped to whoever imports",
    "created_at": "when it came here",
}
_INSERT = """
UPDATE knowledge_chunkquestion q SET words = fresh.words, lexemes = fresh.lexemes::tsvector
  FROM unnest(%s::bigint[], %s::int[], %s::text[]) AS fresh (id, words, lexemes) WHERE q.id = fresh.id
"""


class QuestionRecord(Record):
    """`level` and `ordinal` name the passage; a removed one keeps its questions, too."""

    doc: Count
    rev: Count
    level: Literal["passage", "gone"]
    ordinal: Count
    version: Count
    text: Annotated[Text, Field(min_length=1, max_length=verbs.LONGEST)]
    source: Literal["hand", "imported", "generated", "file"]
    enabled: bool


def _read(reading: Reading) -> Iterator[QuestionRecord]:
    for pk in reading.indexed:
        place = reading.revisions[pk]
        rows = ChunkQuestion.objects.filter(revision_id=pk).select_related("chunk").defer("lexemes", "chunk__lexemes")
        for row in rows.order_by("chunk__level", "chunk__ordinal", "digest"):
            yield QuestionRecord(
                doc=place.doc,
                rev=place.rev,
                level=row.chunk.level,  # type: ignore[arg-type]
                ordinal=row.chunk.ordinal,
                version=row.version,
                text=row.text,
                source=row.source,  # type: ignore[arg-type]
                enabled=row.enabled,
            )


def _check(checking: Checking, record: QuestionRecord) -> None:
    checking.indexed(Place(record.doc, record.rev))
    try:
        if verbs.checked(record.text) != record.text:
            raise tampered()
    except Invalid:
        raise tampered() from None
    checking.once("question", record.doc, record.rev, record.level, record.ordinal, verbs.digest_of(record.text))


def _write(building: Building, records: Iterator[QuestionRecord]) -> None:
    version = KnowledgeBase.objects.values_list("terms_version", flat=True).get(pk=building.base.pk)
    terms = overlay.overlay(building.base.pk, version)
    written = 0
    for batch in batches_of(records, 200):
        rows = [
            ChunkQuestion(
                base=building.base,
                revision_id=building.revisions[Place(record.doc, record.rev)],
                chunk_id=chunk_id(building, Place(record.doc, record.rev), record.level, record.ordinal),
                version=record.version,
                text=record.text,
                digest=verbs.digest_of(record.text),
                source=record.source,
                enabled=record.enabled,
                created_by_id=building.user_id,
            )
            for record in batch
        ]
        ChunkQuestion.objects.bulk_create(rows)
        tokens = [tokenise(row.text, terms) for row in rows]
        with connection.cursor() as cursor:
            cursor.execute(
                _INSERT,
                [[row.pk for row in rows], [len(one) for one in tokens], [tsvector_literal(one) for one in tokens]],
            )
        written += len(rows)
    if written:
        KnowledgeBase.objects.filter(pk=building.base.pk).update(has_questions=True)
        embedding.wake()


def _count(reading: Reading) -> int:
    revisions = wanted(reading).filter(status=Revision.Status.INDEXED)
    return ChunkQuestion.objects.filter(revision__in=revisions).count()


PART = Part("questions", QuestionRecord, _count, _read, _check, _write)
