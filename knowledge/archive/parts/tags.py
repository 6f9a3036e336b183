"""The vocabulary of tags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from knowledge import tags as vocabulary
from knowledge.archive.contract import Building, Checking, Part, Reading
from knowledge.archive.manifest import tampered
from knowledge.archive.records import Record, Text
from knowledge.models import Tag


class TagRecord(Record):
    name: Annotated[Text, Field(max_length=vocabulary.LONGEST)]


def _read(reading: Reading) -> Iterator[TagRecord]:
    names = sorted(Tag.objects.filter(base=reading.base).values_list("folded", "name"))
    return (TagRecord(name=name) for _, name in names)


def _check(checking: Checking, record: TagRecord) -> None:
    checking.once("tag", vocabulary.folded(record.name))
    if not record.name or vocabulary.clean(record.name) != record.name:
        raise tampered()
    checking.tags.add(record.name)


def _write(building: Building, records: Iterator[TagRecord]) -> None:
    Tag.objects.bulk_create(
        [
            Tag(
                base=building.base,
                name=record.name,
                folded=vocabulary.folded(record.name),
                created_by_id=building.user_id,
            )
            for record in records
        ],
        batch_size=1_000,
    )


PART = Part("tags", TagRecord, lambda reading: Tag.objects.filter(base=reading.base).count(), _read, _check, _write)
