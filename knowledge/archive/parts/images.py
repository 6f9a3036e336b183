"""Pictures inside documents, each stored once in the archive, whichever revisions show it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from knowledge import storage
from knowledge.archive.contract import Building, Checking, Part, Place, Reading, batches_of
from knowledge.archive.manifest import tampered
from knowledge.archive.records import Count, Digest, Record, Text
from knowledge.models import StoredImage
from portal.kernel.models import new_uid

# Columns of `StoredImage` that are not carried along, and why.
LEFT_OUT = {
    "id": "ids are of this installation",
    "uid": "ids are of this installation",
    "revision": "named by its place",
    "file": "named by its hash",
    "thumbnail": "made anew where it is asked for; the picture itself stands in for it",
    "width": "read from the picture",
    "height": "read from the picture",
    "size": "read from the picture",
}


class ImageRecord(Record):
    doc: Count
    rev: Count
    key: Digest
    mime: Annotated[Text, Field(max_length=60)]
    alt: Annotated[Text, Field(max_length=100_000)]
    sha256: Digest
    thumbnail: Digest | None
    width: Count
    height: Count
    size: Annotated[int, Field(ge=0, le=1 << 40)]


def _read(reading: Reading) -> Iterator[ImageRecord]:
    for pk, place in reading.revisions.items():
        for row in StoredImage.objects.filter(revision_id=pk).order_by("key"):
            name = _digest_of(row.file)
            if name is None:
                continue  # its bytes are gone: the picture can not be shown here either
            reading.keep("images", name, row.file)
            small = _digest_of(row.thumbnail) if row.thumbnail else None
            if small is not None:
                reading.keep("images", small, row.thumbnail)
            yield ImageRecord(
                doc=place.doc,
                rev=place.rev,
                key=row.key,
                mime=row.mime,
                alt=row.alt,
                sha256=name,
                thumbnail=small,
                width=row.width,
                height=row.height,
                size=row.size,
            )


def _digest_of(stored: str) -> str | None:
    try:
        with storage.open_file(stored) as stream:
            found = hashlib.sha256()
            for block in stream.chunks():
                found.update(block)
    except FileNotFoundError:
        return None
    return found.hexdigest()


def _check(checking: Checking, record: ImageRecord) -> None:
    if Place(record.doc, record.rev) not in checking.states or not record.mime.startswith("image/"):
        raise tampered()
    checking.once("image of", Place(record.doc, record.rev), record.key)
    for name in (record.sha256, record.thumbnail):
        if name is not None:
            checking.expect(f"images/{name}")


def _write(building: Building, records: Iterator[ImageRecord]) -> None:
    for batch in batches_of(records, 100):
        StoredImage.objects.bulk_create(
            [
                StoredImage(
                    uid=new_uid(),
                    revision_id=building.revisions[Place(record.doc, record.rev)],
                    key=record.key,
                    file=building.store(f"images/{record.sha256}"),
                    mime=record.mime,
                    alt=record.alt,
                    thumbnail=building.store(f"images/{record.thumbnail}") if record.thumbnail else "",
                    width=record.width,
                    height=record.height,
                    size=record.size,
                )
                for record in batch
            ]
        )


def _count(reading: Reading) -> int:
    from knowledge.archive.parts.revisions import wanted

    return StoredImage.objects.filter(revision__in=wanted(reading)).count()


PART = Part("images", ImageRecord, _count, _read, _check, _write)
