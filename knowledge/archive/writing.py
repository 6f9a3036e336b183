"""A base into a zip file. Everything that is read from the database is read in the caller's transaction.

Records first, in the order of the table; then the files they speak of, by name; the manifest last, because it holds
the hashes. Times inside the zip are fixed, so that equal bases make equal files but for the manifest.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from django.db.models import Sum

from knowledge import base_settings
from knowledge.archive import manifest
from knowledge.archive.contract import Part, Reading
from knowledge.archive.manifest import BaseRecord, Manifest, PartEntry, SpaceEntry
from knowledge.archive.parts import PARTS
from knowledge.archive.parts.revisions import wanted
from knowledge.models import KnowledgeBase
from portal.kernel.errors import Unavailable

Told = Callable[[int], None]
_BLOCK = 256 * 1024
_TIME = (1980, 1, 1, 0, 0, 0)
# Already compressed: squeezing these again costs time and gains nothing.
_DENSE = (b"PK\x03\x04", b"%PDF", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"\x1f\x8b")


def steps_of(reading: Reading) -> int:
    """How many records and files there will be, for progress: a close figure, not an exact one."""
    return sum(part.count(reading) for part in PARTS) + 2 * wanted(reading).count()


def estimate(reading: Reading) -> dict[str, int]:
    """What an export would hold, and about how many bytes it would have: rather more than it turns out."""
    counts = {part.name: part.count(reading) for part in PARTS}
    revisions = wanted(reading)
    files = sum(revisions.order_by().values("file").distinct().values_list("size", flat=True))
    tokens = revisions.aggregate(tokens=Sum("token_count"))["tokens"] or 0
    space = reading.base.embedding.space
    # Chunks and the text as it was read took 4 bytes a token in English guides, 2 in a table of 3,000 rows; vectors
    # their own size. The whole comes out 1.1 to 2.1 times too large, for files that shrink in the archive.
    text = int(tokens) * 4
    vectors = counts["vectors"] * (space.dimensions if space else 0) * 2
    open_work = revisions.exclude(status__in=["indexed", "failed", "no_text", "cancelled"]).count()
    return {**counts, "bytes": files + text + vectors + 20_000, "unfinished": open_work}


def write_parts(reading: Reading, archive: zipfile.ZipFile, told: Told) -> list[PartEntry]:
    """All records; `reading.blobs` holds afterwards what files belong to them."""
    done = 0

    def one_more() -> None:
        nonlocal done
        done += 1
        if done % 100 == 0:
            told(done)

    return [_write_part(part, reading, archive, one_more) for part in PARTS]


def _write_part(part: Part[Any], reading: Reading, archive: zipfile.ZipFile, one_more: Callable[[], None]) -> PartEntry:
    whole, content = hashlib.sha256(), hashlib.sha256()
    count = 0
    with archive.open(_info(part.file, zipfile.ZIP_DEFLATED), "w", force_zip64=True) as stream:
        for record in part.read(reading):
            line = record.line()
            stream.write(line)
            whole.update(line)
            content.update(record.counted() if record.VOLATILE else line)
            count += 1
            one_more()
    return PartEntry(name=part.name, records=count, sha256=whole.hexdigest(), content=content.hexdigest())


def write_blobs(reading: Reading, archive: zipfile.ZipFile, told: Told, done: int) -> int:
    """All files; returns their bytes. Raises `Unavailable` when one was deleted meanwhile."""
    total = 0
    for number, (name, opened) in enumerate(sorted(reading.blobs.items())):
        try:
            with opened() as source:
                total += _copy(source, archive, name, lambda: told(done + number))  # noqa: B023 (called at once)
        except FileNotFoundError as error:
            raise Unavailable("A file was deleted during the export; start it again.", code="export_changed") from error
        told(done + number)
    return total


def _copy(source: IO[bytes], archive: zipfile.ZipFile, name: str, told: Callable[[], None]) -> int:
    block = source.read(_BLOCK)
    how = zipfile.ZIP_STORED if block.startswith(_DENSE) else zipfile.ZIP_DEFLATED
    size = 0
    with archive.open(_info(name, how), "w", force_zip64=True) as stream:
        while block:
            stream.write(block)
            size += len(block)
            told()
            block = source.read(_BLOCK)
    return size


def write_manifest(
    reading: Reading, archive: zipfile.ZipFile, parts: list[PartEntry], blobs: int, size: int
) -> Manifest:
    """The manifest, sealed; its content hash is the archive's."""
    base = base_record(reading.base)
    found = Manifest(
        format="archway-base",
        version=manifest.VERSION,
        exported_at=manifest.now(),
        revisions=reading.which,
        base=base,
        embedding=space_entry(reading.base),
        parts=parts,
        blobs=blobs,
        bytes=size,
        content_hash=manifest.content_hash(base, parts),
        seal="",
    ).sealed()
    archive.writestr(_info(manifest.FILE, zipfile.ZIP_DEFLATED), found.line())
    return found


def base_record(base: KnowledgeBase) -> BaseRecord:
    return BaseRecord(
        name=base.name,
        description=base.description,
        sensitive=base.sensitive,
        config=base_settings.read(base.config).model_dump(mode="json"),
    )


def space_entry(base: KnowledgeBase) -> SpaceEntry | None:
    space = base.embedding.space
    if space is None:
        return None
    return SpaceEntry(key=space.key, dimensions=space.dimensions, model=base.embedding.model_name)


def write_archive(reading: Reading, path: Path, told: Told = lambda done: None) -> Manifest:
    """The whole archive into a file, in one go."""
    with zipfile.ZipFile(path, "w", allowZip64=True) as archive:
        parts = write_parts(reading, archive, told)
        return finish_archive(reading, archive, parts, told)


def finish_archive(reading: Reading, archive: zipfile.ZipFile, parts: list[PartEntry], told: Told) -> Manifest:
    """Files and manifest, after the records."""
    size = write_blobs(reading, archive, told, sum(part.records for part in parts))
    return write_manifest(reading, archive, parts, len(reading.blobs), size)


def _info(name: str, how: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _TIME)
    info.compress_type, info.external_attr = how, 0o600 << 16
    return info
