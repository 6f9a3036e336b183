"""The evaluation set: questions with what is expected. Runs and their results stay behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from knowledge.archive.contract import Building, Checking, Part, Reading, batches_of
from knowledge.archive.manifest import tampered
from knowledge.archive.records import Count, Record, Text
from knowledge.models import CaseTarget, EvaluationCase
from knowledge.quality import cases

# Columns that are not carried along, and why.
LEFT_OUT = {
    "id": "ids are of this installation",
    "uid": "ids are of this installation",
    "base": "the archive is of one base",
    "digest": "follows from the question",
    "created_by": "people are of this installation",
    "created_at": "cases are made when they are imported",
}


class TargetRecord(Record):
    """`doc` is the number of a document of the archive; None: the text wherever it stands."""

    doc: Count | None
    snippet: Annotated[Text, Field(max_length=cases.LONGEST_SNIPPET)]
    grade: Annotated[int, Field(ge=1, le=10)]


class CaseRecord(Record):
    question: Annotated[Text, Field(min_length=1, max_length=cases.LONGEST_QUESTION)]
    origin: Annotated[Text, Field(max_length=10)]
    enabled: bool
    targets: Annotated[list[TargetRecord], Field(max_length=cases.MOST_TARGETS)]


def _read(reading: Reading) -> Iterator[CaseRecord]:
    rows = EvaluationCase.objects.filter(base=reading.base).prefetch_related("targets").order_by("digest")
    for case in rows.iterator(chunk_size=500):
        targets = [
            TargetRecord(
                doc=None if row.document_id is None else reading.documents[row.document_id],
                snippet=row.snippet,
                grade=row.grade,
            )
            for row in case.targets.all()
            if row.document_id is None or row.document_id in reading.documents
        ]
        targets.sort(key=lambda row: (-1 if row.doc is None else row.doc, row.snippet, row.grade))
        yield CaseRecord(question=case.question, origin=case.origin, enabled=case.enabled, targets=targets)


def _check(checking: Checking, record: CaseRecord) -> None:
    checking.once("case", cases.digest_of(record.question))
    if record.origin not in EvaluationCase.Origin.values:
        raise tampered()
    for target in record.targets:
        if target.doc is None and not target.snippet:
            raise tampered()
        if target.doc is not None and target.doc not in checking.active:
            raise tampered()


def _write(building: Building, records: Iterator[CaseRecord]) -> None:
    for batch in batches_of(records):
        made = EvaluationCase.objects.bulk_create(
            [
                EvaluationCase(
                    base=building.base,
                    question=record.question,
                    digest=cases.digest_of(record.question),
                    origin=record.origin,
                    enabled=record.enabled,
                    created_by_id=building.user_id,
                )
                for record in batch
            ]
        )
        CaseTarget.objects.bulk_create(
            [
                CaseTarget(
                    case=case,
                    document_id=None if target.doc is None else building.documents[target.doc],
                    snippet=target.snippet,
                    grade=target.grade,
                )
                for case, record in zip(made, batch, strict=True)
                for target in record.targets
            ]
        )


def _count(reading: Reading) -> int:
    return EvaluationCase.objects.filter(base=reading.base).count()


PART = Part("cases", CaseRecord, _count, _read, _check, _write)
