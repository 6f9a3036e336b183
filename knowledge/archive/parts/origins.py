"""The addresses of the web that documents were fetched from. They are shown; an import fetches nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from knowledge.archive.contract import Building, Checking, Part, Reading, batches_of
from knowledge.archive.manifest import tampered
from knowledge.archive.parts.documents import live
from knowledge.archive.records import Count, Record, Text
from knowledge.models import Origin

# Columns of `Origin` that are not carried along, and why.
LEFT_OUT = {"document": "named by its place"}


class OriginRecord(Record):
    doc: Count
    url: Annotated[Text, Field(max_length=2000)]


def _read(reading: Reading) -> Iterator[OriginRecord]:
    rows = Origin.objects.filter(document__in=live(reading)).values_list("document_id", "url")
    found = sorted((reading.documents[pk], url) for pk, url in rows)
    return (OriginRecord(doc=place, url=url) for place, url in found)


def _check(checking: Checking, record: OriginRecord) -> None:
    checking.once("origin", record.doc)
    # A link that is shown: only of the web, so that no script stands in it.
    if record.doc not in checking.active or not record.url.lower().startswith(("http://", "https://")):
        raise tampered()


def _write(building: Building, records: Iterator[OriginRecord]) -> None:
    for batch in batches_of(records):
        Origin.objects.bulk_create(
            [Origin(document_id=building.documents[record.doc], url=record.url) for record in batch]
        )


PART = Part(
    "origins",
    OriginRecord,
    lambda reading: Origin.objects.filter(document__in=live(reading)).count(),
    _read,
    _check,
    _write,
)
