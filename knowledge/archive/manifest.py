"""The head of an archive: format, what the base is, its parts with their hashes, and the hash of the content.

The content hash says whether two archives hold the same: it leaves out times of change, people, ids of this
installation, names of bases and vectors. The seal is a hash of the manifest itself, so that any change of an
archive is noticed, by accident or not; it is no signature.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from knowledge.archive.records import Count, Digest, Json, Record, Text, canonical, digest
from portal.kernel.errors import Invalid

FORMAT, VERSION = "archway-base", 1
FILE = "manifest.json"
LONGEST = 1_000_000


class BaseRecord(Record):
    """The base itself. Its name is a matter of the place where it stands, so it does not count as content."""

    VOLATILE = frozenset({"name"})

    name: Annotated[Text, Field(max_length=200)]
    description: Annotated[Text, Field(max_length=20_000)]
    sensitive: bool
    config: Json


class PartEntry(Record):
    """One file of records: its hash as it is, and the hash of what of it counts as content."""

    name: Annotated[str, Field(pattern=r"^[a-z_]{1,40}$")]
    records: Count
    sha256: Digest
    content: Digest


class SpaceEntry(Record):
    """Which model the vectors are of. Vectors of another one are of no use."""

    key: Annotated[Text, Field(max_length=200)]
    dimensions: Annotated[int, Field(ge=1, le=16_000)]
    model: Annotated[Text, Field(max_length=200)]


class Manifest(Record):
    """`seal` is the digest of the manifest with an empty seal."""

    format: Literal["archway-base"]
    version: Annotated[int, Field(ge=1)]
    exported_at: Annotated[Text, Field(max_length=40)]
    revisions: Literal["current", "all"]
    base: BaseRecord
    embedding: SpaceEntry | None
    parts: Annotated[list[PartEntry], Field(max_length=50)]
    blobs: Count
    bytes: Annotated[int, Field(ge=0)]
    content_hash: Digest
    seal: Annotated[Text, Field(max_length=64)]

    def sealed(self) -> Manifest:
        return self.model_copy(update={"seal": self._seal()})

    def _seal(self) -> str:
        return digest(canonical({**self.model_dump(mode="json"), "seal": ""}))

    def is_intact(self) -> bool:
        return self.seal == self._seal() and self.content_hash == content_hash(self.base, self.parts)

    def part(self, name: str) -> PartEntry | None:
        return next((part for part in self.parts if part.name == name), None)


def content_hash(base: BaseRecord, parts: list[PartEntry]) -> str:
    """One hash for all content. Parts without records do not count: an archive of today has less of them."""
    counted = [[part.name, part.content] for part in parts if part.records and part.name not in NO_CONTENT]
    return digest(canonical([digest(base.counted()), sorted(counted)]))


# Vectors follow from text and model: with or without them an archive holds the same.
NO_CONTENT = frozenset({"vectors"})


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def read(data: bytes) -> Manifest:
    """The manifest of an archive of this format and version. Raises `Invalid`."""
    try:
        manifest = Manifest.model_validate_json(data)
    except ValidationError as error:
        raise no_archive() from error
    if manifest.version > VERSION:
        raise Invalid(
            "This archive was made by a newer version of Archway (format %(version)s).",
            code="archive_newer",
            version=manifest.version,
        )
    if not manifest.is_intact():
        raise tampered()
    return manifest


def no_archive() -> Invalid:
    return Invalid("This is not an archive of a knowledge base.", code="not_an_archive")


def tampered(**detail: Any) -> Invalid:
    return Invalid("The archive is damaged or was changed after it was made.", code="archive_changed", **detail)
