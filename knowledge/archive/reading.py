"""An archive from anywhere, looked through before anything of it is used: limits, names, hashes, shapes, references.

The zip is read by the one reader that trusts no size it is told (`ingestion/parsers/archive.py`). Names in it are only
names: nothing is ever written under them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from pydantic import ValidationError

from knowledge import base_settings
from knowledge.archive import manifest
from knowledge.archive.contract import Checking, Part
from knowledge.archive.manifest import Manifest, PartEntry, no_archive, tampered
from knowledge.archive.parts import PARTS
from knowledge.archive.parts.revisions import check_active
from knowledge.archive.records import Record
from knowledge.ingestion.blocks import ParseContext
from knowledge.ingestion.parsers.archive import Archive
from portal.kernel.errors import Invalid, ParseError

Told = Callable[[int], None]
_BLOB = re.compile(r"(files|images|parsed)/([0-9a-f]{64})")
_BLOCK = 256 * 1024
# A passage is at most 200,000 characters, twice as record and once more as a version with its leaves.
LONGEST_LINE = 8 * 1024 * 1024
MAX_ENTRIES = 200_000


def limits() -> ParseContext:
    """Ten times the largest upload of an archive, unpacked; a ratio would refuse honest records, which repeat a lot."""
    return ParseContext(
        max_archive_entries=MAX_ENTRIES,
        max_archive_bytes=settings.ARCHWAY["MAX_IMPORT_BYTES"] * 10,
        max_archive_ratio=2_000,
    )


def opened(path: Path) -> Archive:
    """The zip, its directory read. Raises `Invalid`."""
    try:
        return Archive(path, limits())
    except ParseError as error:
        if error.code == "archive_limit":
            raise
        raise no_archive() from error


def read_manifest(archive: Archive) -> Manifest:
    """The manifest. Raises `Invalid` (not_an_archive, archive_changed, archive_newer)."""
    if archive.names.count(manifest.FILE) != 1:
        raise no_archive()
    try:
        return manifest.read(archive.read(manifest.FILE, at_most=manifest.LONGEST))
    except ParseError as error:
        raise tampered() from error


def check(archive: Archive, told: Told = lambda done: None) -> Manifest:
    """Look through all of it. Raises `Invalid`; nothing has been written then. `told` gets records and files seen."""
    found = read_manifest(archive)
    checking = Checking(found)
    try:
        base_settings.read(found.base.config)
        done = 0
        for part, entry in _parts(archive, found):
            for record in _checked(archive, part, entry):
                part.check(checking, record)
                done += 1
                if done % 200 == 0:
                    told(done)
            if part.name == "revisions":
                check_active(checking)
        _check_blobs(archive, checking, lambda: told(done))
    except (ValidationError, KeyError) as error:
        raise tampered() from error
    except ParseError as error:
        raise error if error.code == "archive_limit" else tampered() from error
    return found


def _parts(archive: Archive, found: Manifest) -> Iterator[tuple[Part[Any], PartEntry]]:
    known = {part.name: part for part in PARTS}
    names = [entry.name for entry in found.parts]
    if len(set(names)) != len(names):
        raise tampered()
    for name in names:
        if name not in known:
            # Content that this version can not keep: half an import would pretend to be all of it.
            raise Invalid(
                "The archive holds %(part)s, which this version can not read.", code="part_unknown", part=name
            )
    for part in PARTS:
        entry = found.part(part.name)
        if entry is not None:
            yield part, entry


def _checked(archive: Archive, part: Part[Any], entry: PartEntry) -> Iterator[Record]:
    """The records of a part; after the last one their number and both hashes must be those of the manifest."""
    whole, content = hashlib.sha256(), hashlib.sha256()
    count = 0
    for line in lines(archive, part.file):
        record = part.shape.model_validate_json(line)
        whole.update(line)
        content.update(record.counted())
        count += 1
        yield record
    if (count, whole.hexdigest(), content.hexdigest()) != (entry.records, entry.sha256, entry.content):
        raise tampered()


def records(archive: Archive, part: Part[Any]) -> Iterator[Any]:
    """The records of a part that was checked."""
    for line in lines(archive, part.file):
        yield part.shape.model_validate_json(line)


def lines(archive: Archive, name: str) -> Iterator[bytes]:
    """The lines of an entry, newline included, none of them longer than the limit. Raises `Invalid`."""
    with archive.open(name) as stream:
        while line := stream.readline(LONGEST_LINE):
            if not line.endswith(b"\n"):
                raise tampered()
            yield line


def _check_blobs(archive: Archive, checking: Checking, told: Callable[[], None]) -> None:
    """Every file that a record speaks of is there, is what its name says, and nothing else is there."""
    own = {manifest.FILE, *(f"{entry.name}.jsonl" for entry in checking.manifest.parts)}
    names = [name for name in archive.names if name not in own]
    if sorted(names) != sorted(checking.expected) or len(archive.names) != len(set(archive.names)):
        raise tampered()
    if len(names) != checking.manifest.blobs:
        raise tampered()
    for name in names:
        found = _BLOB.fullmatch(name)
        with archive.open(name) as stream:
            sha256, size = _digest(stream)
        if found is None or found[2] != sha256 or checking.expected[name] not in (None, size):
            raise tampered()
        told()


def _digest(stream: IO[bytes]) -> tuple[str, int]:
    found, size = hashlib.sha256(), 0
    while block := stream.read(_BLOCK):
        found.update(block)
        size += len(block)
    return found.hexdigest(), size
