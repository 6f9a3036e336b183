"""A synthetic library in the tables that searches read: by COPY; the indexes are made afterwards, as migrations do."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any

import numpy as np
from django.db import connection
from django.db.utils import DatabaseError
from django.utils import timezone

from knowledge import statistics
from knowledge.base_settings import BaseSettings
from knowledge.bench.synthetic import (
    DIMENSIONS,
    LEAVES_OF_A_PASSAGE,
    Synthesis,
    SyntheticDocument,
    base_sizes,
    documents_of,
)
from knowledge.ingestion.store import vector_block
from knowledge.models import ChunkVector, Document, Grant, KnowledgeBase, Revision, Role
from portal.gateway.models import EmbeddingSpace, ModelEndpoint
from portal.kernel.models import Membership, User, Workspace
from portal.kernel.principal import Principal, for_user

SPACE = "synthetic@384"
OWNER = "bench-owner"
# What askers may see of all leaves: by grants on whole bases, and by a tag on documents scattered over all bases.
SHARES = (0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.3, 0.5, 1.0)
_BATCH = 4_000
_CHUNK_COLUMNS = (
    'id, revision_id, parent_id, level, ordinal, text, prefix, heading_path, start, "end", token_count, sha256, '
    "enabled, version, words, lexemes"
)
_TABLES = ("knowledge_chunk", "knowledge_chunkvector", "knowledge_baseterm")

Report = Callable[[int], None]


def load(chunks: int, *, report: Report = lambda done: None) -> dict[str, Any]:
    """Fill the empty tables with `chunks` leaves and their vectors; returns seconds and sizes."""
    began = time.perf_counter()
    synthesis = Synthesis()
    bases = _bases_and_people(base_sizes(chunks))
    seconds: dict[str, float] = {}
    with _without_indexes(seconds):
        loading = time.perf_counter()
        _load_documents(synthesis, bases, report)
        seconds["load"] = time.perf_counter() - loading
    counting = time.perf_counter()
    for base in bases:
        statistics.repair(base.pk)
    seconds["statistics"] = time.perf_counter() - counting
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    seconds["all"] = time.perf_counter() - began
    return {name: round(value, 1) for name, value in seconds.items()}


def asker(share: float | None = None) -> Principal:
    """Who may see about this share of all leaves by grants on whole bases; None: the owner of all."""
    return for_user(User.objects.get(username=OWNER if share is None else _person(share)), door="command")


def tag_of(share: float) -> str:
    """The tag that documents of about this share of all leaves carry, scattered over all bases."""
    return f"share-{share:g}"


def synthetic_space() -> EmbeddingSpace:
    return EmbeddingSpace.objects.get(key=SPACE)


def _person(share: float) -> str:
    return f"bench-{share:g}"


def _bases_and_people(sizes: Sequence[int]) -> list[KnowledgeBase]:
    """A base of each size, an owner of all, and for each share somebody who may see bases that make up the share."""
    workspace = Workspace.objects.create(name="Bench")
    space = EmbeddingSpace.objects.create(key=SPACE, dimensions=DIMENSIONS)
    endpoint = ModelEndpoint.objects.create(
        name="synthetic", kind="embedding", provider="openai_compatible", model_name="synthetic", space=space
    )
    people = {share: _member(workspace, _person(share)) for share in SHARES}
    owner = _member(workspace, OWNER)
    config = BaseSettings().model_dump(mode="json")
    bases = []
    left = {share: int(share * sum(sizes)) for share in SHARES}
    for number, size in enumerate(sizes):
        base = KnowledgeBase.objects.create(
            workspace=workspace, name=f"{number:04d}: {size}", config=config, embedding=endpoint
        )
        Grant.objects.create(base=base, user=owner, role=Role.OWNER)
        for share, room in left.items():
            if size <= room:
                Grant.objects.create(base=base, user=people[share], role=Role.VIEWER)
                left[share] -= size
        bases.append(base)
    return bases


def _member(workspace: Workspace, name: str) -> User:
    person = User.objects.create_user(name, f"{name}@bench.invalid")
    Membership.objects.create(workspace=workspace, user=person)
    return person


@contextlib.contextmanager
def _without_indexes(seconds: dict[str, float]) -> Iterator[None]:
    """Drops the large tables' indexes for the block, makes them again as they were, and notes each one's seconds."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT i.indexname, i.indexdef FROM pg_indexes i WHERE i.tablename = ANY(%s) AND NOT EXISTS "
            "(SELECT FROM pg_constraint c WHERE c.conname = i.indexname)",
            [list(_TABLES)],
        )
        definitions = cursor.fetchall()
        for name, _ in definitions:
            cursor.execute(f'DROP INDEX "{name}"')
        with contextlib.suppress(DatabaseError):  # a superuser's right; without it the load is slower
            cursor.execute("SET session_replication_role = replica")
    yield
    with connection.cursor() as cursor:
        with contextlib.suppress(DatabaseError):
            cursor.execute("RESET session_replication_role")
        for name, definition in definitions:
            began = time.perf_counter()
            cursor.execute(definition)
            seconds[f"index {name}"] = time.perf_counter() - began


def _load_documents(synthesis: Synthesis, bases: Sequence[KnowledgeBase], report: Report) -> None:
    space = synthetic_space()
    numbers = _Numbers()
    done = document_number = 0
    for place, (base, size) in enumerate(zip(bases, map(_size, bases), strict=True)):
        for batch in _batches(documents_of(synthesis, place, size, document_number)):
            _copy_batch(base, space, batch, numbers)
            document_number += len(batch)
            done += sum(len(row.leaves) for row in batch)
            report(done)
    numbers.settle()


def _size(base: KnowledgeBase) -> int:
    return int(base.name.split(": ")[1])


def _batches(documents: Iterable[SyntheticDocument]) -> Iterator[list[SyntheticDocument]]:
    batch: list[SyntheticDocument] = []
    for document in documents:
        batch.append(document)
        if sum(len(row.leaves) for row in batch) >= _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


class _Numbers:
    """Primary keys given by hand, and the sequences put right at the end."""

    def __init__(self) -> None:
        self.document = self.chunk = 0

    def settle(self) -> None:
        with connection.cursor() as cursor:
            for model in (Document, Revision):
                cursor.execute(_SETTLE.format(table=model._meta.db_table), [self.document + 1])
            cursor.execute(_SETTLE.format(table="knowledge_chunk"), [self.chunk + 1])


_SETTLE = "SELECT setval(pg_get_serial_sequence('{table}', 'id'), %s)"


def _copy_batch(
    base: KnowledgeBase, space: EmbeddingSpace, batch: Sequence[SyntheticDocument], numbers: _Numbers
) -> None:
    now = timezone.now()
    documents, revisions, ids, owners = [], [], [], []
    rows: list[tuple[Any, ...]] = []
    for item in batch:
        numbers.document += 1
        pk = numbers.document
        name = f"{base.pk}-{item.number}.md"
        tags = [tag_of(share) for share in SHARES if _scattered(item.number, share)]
        documents.append(
            Document(
                pk=pk, base=base, source_key=name, name=name, active_revision_id=pk, tags=tags,
                created_at=now, updated_at=now,
            )
        )  # fmt: skip
        revisions.append(
            Revision(
                pk=pk, document_id=pk, base=base, number=1, file_name=name, sha256=sha256(name.encode()).hexdigest(),
                mime="text/markdown", size=1, status=Revision.Status.INDEXED, chunk_count=len(item.leaves),
                space=space, claim_no=1,
            )
        )  # fmt: skip
        of_document = list(_chunk_rows(pk, item, numbers))
        rows += of_document
        leaves = [row[0] for row in of_document if row[3] == "leaf"]
        ids += leaves
        owners += [pk] * len(leaves)
    Document.objects.bulk_create(documents)
    Revision.objects.bulk_create(revisions)
    with connection.cursor() as cursor, cursor.copy(f"COPY knowledge_chunk ({_CHUNK_COLUMNS}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
    vectors = np.concatenate([item.vectors for item in batch])
    _copy_vectors(vector_block(np.asarray(owners), space, ids, vectors))


def _copy_vectors(block: bytes) -> None:
    columns = ", ".join(("chunk_id", "revision_id", "space_id", "halfvec", "bits"))
    table = ChunkVector._meta.db_table
    with connection.cursor() as cursor, cursor.copy(f"COPY {table} ({columns}) FROM STDIN (FORMAT BINARY)") as copy:
        copy.write(block)


def _scattered(number: int, share: float) -> bool:
    """Whether document `number` carries the tag of a share: the same ones on every machine."""
    return int.from_bytes(sha256(f"{share:g}/{number}".encode()).digest()[:4], "big") < share * 2**32


def _chunk_rows(revision: int, document: SyntheticDocument, numbers: _Numbers) -> Iterator[tuple[Any, ...]]:
    leaves = document.leaves
    start = 0
    for place in range(0, len(leaves), LEAVES_OF_A_PASSAGE):
        mine = leaves[place : place + LEAVES_OF_A_PASSAGE]
        text = "\n".join(leaf.text for leaf in mine)
        numbers.chunk += 1
        parent = numbers.chunk
        ordinal = place // LEAVES_OF_A_PASSAGE
        yield _chunk_row(parent, revision, None, "passage", ordinal, text, start, (0, None))
        for offset, leaf in enumerate(mine):
            numbers.chunk += 1
            counted = (leaf.tokens, leaf.lexemes)
            yield _chunk_row(numbers.chunk, revision, parent, "leaf", place + offset, leaf.text, start, counted)
            start += len(leaf.text) + 1


def _chunk_row(
    pk: int, revision: int, parent: int | None, level: str, ordinal: int, text: str, start: int,
    counted: tuple[int, str | None],
) -> tuple[Any, ...]:  # fmt: skip
    digest = sha256(text.encode()).hexdigest()
    return (
        *(pk, revision, parent, level, ordinal, text, "", [], start, start + len(text)),
        *(counted[0], digest, True, 1, *counted),
    )
