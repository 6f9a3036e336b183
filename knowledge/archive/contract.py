"""What a part of an archive is, and what it is handed: a base to read, records to check, a base to build.

A new kind of content (questions, terms, evaluation sets) is one module with a `Part` and one row of the table in
`knowledge/archive/parts/__init__.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import IO, Any, Generic, Literal, TypeVar

from knowledge import storage
from knowledge.archive.manifest import Manifest, tampered
from knowledge.archive.records import Record
from knowledge.models import KnowledgeBase
from portal.gateway.models import EmbeddingSpace

Revisions = Literal["current", "all"]
R = TypeVar("R", bound=Record)


@dataclass(frozen=True, slots=True)
class Place:
    """A revision as archives name it: number of its document in the archive, number of the revision."""

    doc: int
    rev: int


@dataclass(slots=True)
class Reading:
    """A base that is being exported. Parts run in the order of the table and leave here what later ones need.

    `documents` and `revisions` map primary keys to their place, in the archive's order. `blobs` maps names of
    files in the archive to what opens them.
    """

    base: KnowledgeBase
    which: Revisions
    vectors: bool
    documents: dict[int, int] = field(default_factory=dict)
    revisions: dict[int, Place] = field(default_factory=dict)
    indexed: list[int] = field(default_factory=list)
    blobs: dict[str, Callable[[], IO[bytes]]] = field(default_factory=dict)

    def keep(self, folder: str, sha256: str, stored: str) -> None:
        """Have a stored file written into the archive, once."""
        self.blobs.setdefault(f"{folder}/{sha256}", lambda: storage.open_file(stored))


@dataclass(slots=True)
class Checking:
    """An archive that is being looked through before anything is written. Parts leave here what later ones check.

    `states` maps the place of each revision to its state; `expected` names the blobs that records speak of,
    with their size where a record tells it.
    """

    manifest: Manifest
    tags: set[str] = field(default_factory=set)
    source_keys: set[str] = field(default_factory=set)
    active: dict[int, int | None] = field(default_factory=dict)
    states: dict[Place, str] = field(default_factory=dict)
    expected: dict[str, int | None] = field(default_factory=dict)
    seen: set[Any] = field(default_factory=set)
    # Of the revision whose chunks are being looked at: only one revision's places are held at a time.
    current: Place | None = None
    places: set[tuple[str, int]] = field(default_factory=set)

    def expect(self, name: str, size: int | None = None) -> None:
        if self.expected.setdefault(name, size) not in (None, size):
            raise tampered()

    def once(self, *key: Any) -> None:
        """Refuse a second record of the same key."""
        if key in self.seen:
            raise tampered()
        self.seen.add(key)

    def indexed(self, place: Place) -> None:
        """Refuse records of a revision that is not there or holds no chunks."""
        if self.states.get(place) != "indexed":
            raise tampered()


@dataclass(slots=True)
class Building:
    """A base that is being made from an archive: hidden until it is complete.

    `space` is the space of the vectors when they can be used here; None: all is embedded anew. `store` keeps a
    blob and gives its name, `blob` gives its bytes; `note` writes down stored names before there is anything under
    them, so that they can be deleted whatever happens.
    """

    base: KnowledgeBase
    user_id: int
    space: EmbeddingSpace | None
    store: Callable[[str], str]
    blob: Callable[[str], bytes]
    note: Callable[[list[str]], None]
    documents: dict[int, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    active: dict[int, int | None] = field(default_factory=dict)
    revisions: dict[Place, int] = field(default_factory=dict)
    states: dict[Place, str] = field(default_factory=dict)
    leaves: dict[Place, int] = field(default_factory=dict)
    vectors: dict[Place, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Part(Generic[R]):
    """One kind of content. Its records stand in `<name>.jsonl`, in an order that is the same in every export.

    `read` gives them; `check` refuses what does not fit together (raises `Invalid`); `write` puts them into the new
    base. `count` says how many there will be, for progress and estimate.
    """

    name: str
    shape: type[R]
    count: Callable[[Reading], int]
    read: Callable[[Reading], Iterator[R]]
    check: Callable[[Checking, R], None]
    write: Callable[[Building, Iterator[R]], None]

    @property
    def file(self) -> str:
        return f"{self.name}.jsonl"


def batches_of(records: Iterator[R], size: int = 500) -> Iterator[list[R]]:
    """Records in lists of at most `size`."""
    batch: list[R] = []
    for record in records:
        batch.append(record)
        if len(batch) >= size:
            yield batch
            batch = []
    if batch:
        yield batch


def stamp(moment: datetime | None) -> str | None:
    """A moment as archives write it."""
    return moment.isoformat() if moment else None


def moment(text: str | None) -> datetime | None:
    """The opposite. Raises `Invalid`."""
    try:
        found = datetime.fromisoformat(text) if text else None
    except ValueError:
        raise tampered() from None
    if found is not None and found.tzinfo is None:
        raise tampered()
    return found
