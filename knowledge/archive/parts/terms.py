"""The terms of the base. They stand before the chunks, whose lexemes are made in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from knowledge.archive.contract import Building, Checking, Part, Reading
from knowledge.archive.manifest import tampered
from knowledge.archive.records import Record, Text
from knowledge.models import KnowledgeBase, Term
from knowledge.terms import verbs
from portal.kernel.errors import Invalid

# Columns of `Term` that are not carried along, and why.
LEFT_OUT = {
    "id": "ids are of this installation",
    "uid": "ids are of this installation",
    "base": "the archive is of one base",
    "surface": "made anew from the text",
    "created_by": "people are mapped to whoever imports",
    "created_at": "when it came here",
    "updated_at": "when it came here",
}
_Word = Annotated[Text, Field(min_length=1, max_length=verbs.LONGEST)]


class TermRecord(Record):
    text: _Word
    synonyms: Annotated[list[_Word], Field(max_length=verbs.MOST_SYNONYMS)]
    weight: Annotated[float, Field(ge=verbs.LEAST_WEIGHT, le=verbs.MOST_WEIGHT)]


def _read(reading: Reading) -> Iterator[TermRecord]:
    rows = sorted(Term.objects.filter(base=reading.base), key=lambda row: row.surface.encode())
    return (TermRecord(text=row.text, synonyms=row.synonyms, weight=row.weight) for row in rows)


def _check(checking: Checking, record: TermRecord) -> None:
    try:
        new = verbs.wanted(record.text, record.synonyms, record.weight)
    except Invalid:
        raise tampered() from None
    if (new.text, list(new.synonyms)) != (record.text, record.synonyms):
        raise tampered()
    checking.once("term", new.surface)


def _write(building: Building, records: Iterator[TermRecord]) -> None:
    rows = [
        Term(
            base=building.base,
            text=record.text,
            surface=verbs.wanted(record.text).surface,
            synonyms=record.synonyms,
            weight=record.weight,
            created_by_id=building.user_id,
        )
        for record in records
    ]
    if len(rows) > verbs.MOST:
        raise tampered()
    Term.objects.bulk_create(rows)
    if rows:
        KnowledgeBase.objects.filter(pk=building.base.pk).update(terms_version=1)


PART = Part("terms", TermRecord, lambda reading: Term.objects.filter(base=reading.base).count(), _read, _check, _write)
