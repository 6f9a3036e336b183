"""Which pictures belong to which stretch of a text, and so which ones a passage shows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import connection, transaction

from knowledge.ingestion.blocks import Block, ParsedDocument
from knowledge.models import PicturePlace, Revision, StoredImage

MOST_SHOWN = 6  # pictures of one passage


@dataclass(frozen=True, slots=True)
class Place:
    """A stretch [start, end) of the text: of the picture `key`, or of text read from a page (`recognised`)."""

    start: int
    end: int
    key: str | None
    page: int | None
    recognised: bool


@dataclass(frozen=True, slots=True)
class Shown:
    """A picture that goes with a passage. Sizes in pixels, 0 when not known."""

    key: str
    alt: str
    mime: str
    width: int
    height: int
    page: int | None


@dataclass(frozen=True, slots=True)
class Pictured:
    """What of a passage is pictured: its pictures in reading order, and whether text of it was read from pictures."""

    images: tuple[Shown, ...] = ()
    recognised: bool = False


def places_in(document: ParsedDocument) -> list[Place]:
    """The places of a document: a picture with the text read from it, runs of text read from pages."""
    found: list[Place] = []
    for block in document.blocks:
        last = found[-1] if found else None
        if block.kind == "image" and block.image:
            found.append(Place(block.start, block.end, block.image, block.page, False))
        elif block.ocr and last is not None and _goes_on(last, block, document):
            found[-1] = replace(last, end=block.end, recognised=True)
        elif block.ocr:
            found.append(Place(block.start, block.end, None, block.page, True))
    return found


def _goes_on(last: Place, block: Block, document: ParsedDocument) -> bool:
    """Whether recognised text follows directly on a place, on the same page."""
    return last.page == block.page and not document.text[last.end : block.start].strip()


def write(revision: Revision, document: ParsedDocument) -> None:
    """Make the revision's places those of the document; its pictures' rows are there already."""
    images = dict(StoredImage.objects.filter(revision=revision).values_list("key", "pk"))
    rows = [
        PicturePlace(
            revision=revision, image_id=images.get(place.key or ""), start=place.start, end=place.end,
            page=place.page, recognised=place.recognised,
        )
        for place in places_in(document)
        if place.recognised or place.key in images
    ]  # fmt: skip
    with transaction.atomic():
        PicturePlace.objects.filter(revision=revision).delete()
        PicturePlace.objects.bulk_create(rows, batch_size=1_000)


_SHOWN = """
SELECT asked.passage, place.page, place.recognised, i.key, i.alt, i.mime, i.width, i.height
  FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[]) AS asked (passage, revision, first, last)
  JOIN knowledge_pictureplace place
    ON place.revision_id = asked.revision AND place.start < asked.last AND place."end" > asked.first
  LEFT JOIN knowledge_storedimage i ON i.id = place.image_id
 ORDER BY asked.passage, place.start
"""


def pictured(passages: Sequence[tuple[int, int, int, int]]) -> dict[int, Pictured]:
    """For passages (id, revision's id, start, end), which the caller may see: what of them is pictured, by id."""
    if not passages:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_SHOWN, [list(column) for column in zip(*passages, strict=True)])
        rows = cursor.fetchall()
    grouped: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for passage, *rest in rows:
        grouped[passage].append(tuple(rest))
    return {
        passage: Pictured(tuple(_images(group)), any(recognised for _, recognised, *_ in group))
        for passage, group in grouped.items()
    }


def _images(rows: Sequence[tuple[Any, ...]]) -> Iterator[Shown]:
    told: set[str] = set()
    for page, _, key, alt, mime, width, height in rows:
        if key and key not in told and len(told) < MOST_SHOWN:
            told.add(key)
            yield Shown(key, alt, mime, width, height, page)
