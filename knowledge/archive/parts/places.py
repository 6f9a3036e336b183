"""Where pictures stand in the text, so that passages show them. What was recognised on them is read anew."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge.archive.contract import Building, Checking, Part, Place, Reading, batches_of
from knowledge.archive.manifest import tampered
from knowledge.archive.parts.revisions import wanted
from knowledge.archive.records import Count, Digest, Record
from knowledge.models import PicturePlace, StoredImage

# Columns of `PicturePlace` that are not carried along, and why.
LEFT_OUT = {"id": "ids are of this installation", "revision": "named by its place"}


class PlaceRecord(Record):
    """`image` is the key of a picture of the same revision."""

    doc: Count
    rev: Count
    image: Digest | None
    start: Count
    end: Count
    page: Count | None
    recognised: bool


def _read(reading: Reading) -> Iterator[PlaceRecord]:
    for pk, place in reading.revisions.items():
        rows = PicturePlace.objects.filter(revision_id=pk).select_related("image")
        found = [
            PlaceRecord(
                doc=place.doc,
                rev=place.rev,
                image=row.image.key if row.image else None,
                start=row.start,
                end=row.end,
                page=row.page,
                recognised=row.recognised,
            )
            for row in rows
        ]
        yield from sorted(found, key=lambda row: (row.start, row.end, row.image or "", row.page or 0, row.recognised))


def _check(checking: Checking, record: PlaceRecord) -> None:
    place = Place(record.doc, record.rev)
    if place not in checking.states or record.start > record.end:
        raise tampered()
    if record.image is not None and ("image of", place, record.image) not in checking.seen:
        raise tampered()


def _write(building: Building, records: Iterator[PlaceRecord]) -> None:
    current: Place | None = None
    pictures: dict[str, int] = {}
    for batch in batches_of(records):
        rows = []
        for record in batch:
            place = Place(record.doc, record.rev)
            if place != current:
                current = place
                found = StoredImage.objects.filter(revision_id=building.revisions[place])
                pictures = dict(found.values_list("key", "pk"))
            rows.append(
                PicturePlace(
                    revision_id=building.revisions[place],
                    image_id=pictures[record.image] if record.image else None,
                    start=record.start,
                    end=record.end,
                    page=record.page,
                    recognised=record.recognised,
                )
            )
        PicturePlace.objects.bulk_create(rows)


def _count(reading: Reading) -> int:
    return PicturePlace.objects.filter(revision__in=wanted(reading)).count()


PART = Part("places", PlaceRecord, _count, _read, _check, _write)
