"""How chunks and vectors get into their tables: in batches, by COPY, under the claim of a revision.

Alone decides what text of a leaf is searched and embedded (`searchable_text`) and how a vector is
stored. Every write first locks the revision and compares the claim number, so a worker that lost
its claim writes nothing. Running the same slice again changes nothing.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
from django.db import connection, transaction
from numpy.typing import NDArray

from knowledge.models import Chunk, ChunkVector, ChunkVersion, Revision
from knowledge.terms import overlay
from knowledge.text import Terms, clean, tokenise, tsvector_literal
from portal.kernel.errors import Conflict

if TYPE_CHECKING:
    from knowledge.ingestion.split import Leaf, Passage
    from portal.gateway.models import EmbeddingSpace

# Chunks of one COPY and one transaction: about a quarter of a second of tokenising.
BATCH = 1_000
MAX_TITLE_CHARS = 200
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,5}$")
_COLUMNS = (
    "id, revision_id, parent_id, level, ordinal, text, prefix, heading_path, page, sheet, row_first, row_last, slide, "
    'start, "end", token_count, sha256, enabled, version, words, lexemes'
)
_COPY_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_COPY_END = struct.pack(">h", -1)


def searchable_text(name: str, heading_path: Sequence[str], text: str) -> str:
    """What words and vectors of a leaf are made of: its document's name and the titles above it, and itself.

    Measured over twelve sets: with the titles above it, a leaf is found better by words than its
    passage or its whole document is (docs/quality.md). A title that the text begins with is not
    repeated; of very long paths the inner end is kept, so that they do not drown the leaf.
    """
    titles = [_SUFFIX.sub("", name), *heading_path]
    while titles and text.startswith(titles[-1]):
        titles.pop()
    line = " > ".join(titles)[-MAX_TITLE_CHARS:]
    return f"{line}\n{text}" if line else text


def write_chunks(
    revision: Revision,
    claim_no: int,
    passages: Sequence[Passage],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> int:
    """Write all passages and leaves of a revision, with lexemes; return the number of leaves.

    Each batch is a transaction of its own, so a run broken off goes on where it stopped; chunks that
    stem from another split are dropped first. `progress` gets passages done and in all. Raises
    `Conflict(code="claim_lost")`.
    """
    done = _already_written(revision, claim_no, passages)
    name = clean(revision.document.name)
    for batch in _batches(passages[done:]):
        with transaction.atomic():
            hold_claim(revision.pk, claim_no)
            _copy_passages(revision.pk, name, batch, overlay.held(revision.base_id))
        done += len(batch)
        progress(done, len(passages))
    return sum(len(passage.leaves) for passage in passages)


def leaves_without_vectors(revision_id: int, space_id: int, limit: int) -> list[tuple[int, str]]:
    """Up to `limit` leaves of a revision that have no vector in a space yet: (chunk id, text to embed), in order."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT leaf.id, d.name, passage.heading_path, leaf.text
              FROM knowledge_chunk leaf
              JOIN knowledge_revision r ON r.id = leaf.revision_id
              JOIN knowledge_document d ON d.id = r.document_id
              JOIN knowledge_chunk passage ON passage.id = leaf.parent_id
             WHERE leaf.revision_id = %s AND leaf.level = 'leaf'
               AND NOT EXISTS (SELECT FROM knowledge_chunkvector v WHERE v.chunk_id = leaf.id AND v.space_id = %s)
             ORDER BY leaf.ordinal LIMIT %s
            """,
            [revision_id, space_id, limit],
        )
        return [(pk, searchable_text(name, path, text)) for pk, name, path, text in cursor.fetchall()]


def count_without_vectors(revision_id: int, space_id: int) -> int:
    """How many leaves of a revision have no vector in a space yet."""
    with_vector = ChunkVector.objects.filter(revision_id=revision_id, space_id=space_id).count()
    return Chunk.objects.filter(revision_id=revision_id, level=Chunk.Level.LEAF).count() - with_vector


def reuse_vectors(revision: Revision, claim_no: int, space: EmbeddingSpace) -> int:
    """Copy vectors of equal leaves from the other revisions of the same document; return how many.

    A re-index or a small edit so embeds only what is new. Raises `Conflict(code="claim_lost")`.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        hold_claim(revision.pk, claim_no)
        cursor.execute(
            """
            INSERT INTO knowledge_chunkvector (chunk_id, revision_id, space_id, halfvec, bits)
            SELECT DISTINCT ON (leaf.id) leaf.id, leaf.revision_id, v.space_id, v.halfvec, v.bits
              FROM knowledge_chunk leaf
              JOIN knowledge_revision other ON other.document_id = %(document)s AND other.id <> %(revision)s
              JOIN knowledge_chunk old ON old.revision_id = other.id AND old.level = 'leaf' AND old.sha256 = leaf.sha256
              JOIN knowledge_chunkvector v ON v.chunk_id = old.id AND v.space_id = %(space)s
             WHERE leaf.revision_id = %(revision)s AND leaf.level = 'leaf'
            ON CONFLICT (chunk_id, space_id) DO NOTHING
            """,
            {"document": revision.document_id, "revision": revision.pk, "space": space.pk},
        )
        return int(cursor.rowcount)


def write_vectors(
    revision: Revision, claim_no: int, space: EmbeddingSpace, ids: Sequence[int], vectors: NDArray[np.float32]
) -> None:
    """Store one unit vector for each leaf id: float32 of shape (len(ids), space.dimensions).

    Leaves that have a vector in the space keep it. Raises `Conflict(code="claim_lost")`.
    """
    if not ids:
        return
    with transaction.atomic(), connection.cursor() as cursor:
        hold_claim(revision.pk, claim_no)
        cursor.execute(
            "SELECT chunk_id FROM knowledge_chunkvector WHERE space_id = %s AND chunk_id = ANY(%s)",
            [space.pk, list(ids)],
        )
        known = {row[0] for row in cursor.fetchall()}
        fresh = [place for place, pk in enumerate(ids) if pk not in known]
        if not fresh:
            return
        add_vectors(revision.pk, space, [ids[place] for place in fresh], vectors[fresh])


def add_vectors(revision_id: int, space: EmbeddingSpace, ids: Sequence[int], vectors: NDArray[np.float32]) -> None:
    """Store vectors of leaves that have none; the caller holds the revision's claim or its document."""
    copy_vectors(revision_id, space, ids, vectors)


def copy_vectors(
    revisions: int | NDArray[np.int64], space: EmbeddingSpace, ids: Sequence[int], vectors: NDArray[np.float32]
) -> None:
    """Store vectors of leaves that have none and are held by the caller; one revision for all, or one a leaf."""
    block = vector_block(revisions, space, ids, vectors)
    with (
        connection.cursor() as cursor,
        cursor.copy(
            "COPY knowledge_chunkvector (chunk_id, revision_id, space_id, halfvec, bits) FROM STDIN (FORMAT BINARY)"
        ) as copy,
    ):
        copy.write(block)


def add_leaves(
    revision_id: int, passage_id: int, titles: tuple[str, Sequence[str]], leaves: Sequence[Leaf]
) -> list[int]:
    """Write leaves of a passage that has none, numbered behind all others; returns their ids in order.

    `titles` are the document's name and the heading path. The caller holds the document.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT coalesce(max(ordinal), -1) + 1 FROM knowledge_chunk WHERE revision_id = %s AND level = 'leaf'",
            [revision_id],
        )
        first = int(cursor.fetchone()[0])
        ids = _new_ids(cursor, len(leaves))
        path = (clean(titles[0]), [clean(title) for title in titles[1]])
        terms = overlay.held_for_revision(revision_id)
        with cursor.copy(f"COPY knowledge_chunk ({_COLUMNS}) FROM STDIN") as copy:
            for place, (pk, leaf) in enumerate(zip(ids, leaves, strict=True)):
                leaf = replace(leaf, ordinal=first + place)
                copy.write_row(_leaf_row(pk, revision_id, passage_id, path, leaf, terms))
    return ids


_EXCLUSIONS = """
WITH off AS (
  SELECT DISTINCT c.level, c.text
    FROM knowledge_chunk c JOIN knowledge_document d ON d.active_revision_id = c.revision_id
   WHERE d.id = %(document)s AND NOT c.enabled AND c.level <> 'gone'
), earlier AS (
  SELECT c.level, c.text, c.enabled, row_number() OVER (PARTITION BY c.level, c.text ORDER BY c.ordinal) AS place
    FROM off JOIN knowledge_chunk c ON c.level = off.level AND c.text = off.text
    JOIN knowledge_document d ON d.id = %(document)s AND c.revision_id = d.active_revision_id
), fresh AS (
  SELECT c.id, c.level, c.text, row_number() OVER (PARTITION BY c.level, c.text ORDER BY c.ordinal) AS place
    FROM off JOIN knowledge_chunk c ON c.level = off.level AND c.text = off.text AND c.revision_id = %(revision)s
)
UPDATE knowledge_chunk c SET enabled = false
  FROM fresh JOIN earlier USING (level, text, place)
 WHERE c.id = fresh.id AND NOT earlier.enabled AND c.enabled
"""


def keep_exclusions(revision: Revision, claim_no: int) -> int:
    """Exclude what was excluded in the document's current revision and reads the same; returns how many chunks.

    Of equal texts the first stays the first. Raises `Conflict(code="claim_lost")`.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        hold_claim(revision.pk, claim_no)
        cursor.execute(_EXCLUSIONS, {"document": revision.document_id, "revision": revision.pk})
        return int(cursor.rowcount)


def count_leaves(revision_id: int) -> tuple[int, int]:
    """(leaves, their tokens) of a revision as it stands."""
    counts = Chunk.objects.filter(revision_id=revision_id, level=Chunk.Level.LEAF).values_list("token_count", flat=True)
    return len(counts), sum(counts)


def drop_chunks(revision_id: int) -> None:
    """Delete a revision's chunks; the database deletes their vectors and versions with them."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM knowledge_chunkvector WHERE revision_id = %s", [revision_id])
        cursor.execute("DELETE FROM knowledge_chunk WHERE revision_id = %s", [revision_id])


def hold_claim(revision_id: int, claim_no: int) -> None:
    """Lock the revision until the transaction ends. Raises `Conflict(code="claim_lost")` when the claim is gone."""
    row = (
        Revision.objects.select_for_update(of=("self",))
        .filter(pk=revision_id)
        .values_list("claim_no", "status")
        .first()
    )
    if row is None or row[0] != claim_no or row[1] not in Revision.RUNNING:
        raise Conflict("This document is no longer being worked on by this process.", code="claim_lost")


def signs(vector: NDArray[np.float32]) -> str:
    """A vector's signs as PostgreSQL writes bits. They say much because the gateway centres vectors."""
    return "".join(np.where(vector > 0, "1", "0"))


def _already_written(revision: Revision, claim_no: int, passages: Sequence[Passage]) -> int:
    """How many of the first passages stand in the table as they should; when any does not, all are dropped."""
    stored = list(
        Chunk.objects.filter(revision=revision, level=Chunk.Level.PASSAGE)
        .order_by("ordinal")
        .values_list("ordinal", "sha256")
    )
    wanted = [(passage.ordinal, digest(clean(passage.text))) for passage in passages[: len(stored)]]
    # An earlier try may have come as far as carrying over what people changed: that begins anew, too.
    changed = ChunkVersion.objects.filter(chunk__revision=revision).exists()
    if changed or (stored and stored != wanted):
        with transaction.atomic():
            hold_claim(revision.pk, claim_no)
            drop_chunks(revision.pk)
        return 0
    return len(stored)


def _batches(passages: Sequence[Passage]) -> Iterator[list[Passage]]:
    batch: list[Passage] = []
    size = 0
    for passage in passages:
        batch.append(passage)
        size += 1 + len(passage.leaves)
        if size >= BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _copy_passages(revision_id: int, name: str, passages: Sequence[Passage], terms: Terms | None) -> None:
    with connection.cursor() as cursor:
        total = sum(1 + len(passage.leaves) for passage in passages)
        numbers = iter(_new_ids(cursor, total))
        with cursor.copy(f"COPY knowledge_chunk ({_COLUMNS}) FROM STDIN") as copy:
            for row in _rows(revision_id, name, passages, numbers, terms):
                copy.write_row(row)


def _new_ids(cursor: Any, count: int) -> list[int]:
    cursor.execute(
        "SELECT nextval(pg_get_serial_sequence('knowledge_chunk', 'id')) FROM generate_series(1, %s)", [count]
    )
    return [row[0] for row in cursor.fetchall()]


def _rows(
    revision_id: int, name: str, passages: Iterable[Passage], numbers: Iterator[int], terms: Terms | None
) -> Iterator[tuple[object, ...]]:
    for passage in passages:
        pk = next(numbers)
        path = [clean(title) for title in passage.heading_path]
        text = clean(passage.text)
        first, last = passage.rows or (None, None)
        yield (
            *(pk, revision_id, None, Chunk.Level.PASSAGE.value, passage.ordinal, text, clean(passage.prefix), path),
            *(passage.page, passage.sheet and clean(passage.sheet), first, last, passage.slide),
            *(passage.start, passage.end, passage.token_count, digest(text), True, 1, 0, None),
        )
        for leaf in passage.leaves:
            yield _leaf_row(next(numbers), revision_id, pk, (name, path), leaf, terms)


def _leaf_row(
    pk: int, revision_id: int, parent: int, titles: tuple[str, list[str]], leaf: Leaf, terms: Terms | None
) -> tuple[object, ...]:
    text, prefix = clean(leaf.text), clean(leaf.prefix)
    searched = searchable_text(*titles, text)
    tokens = tokenise(searched, terms)
    return (
        *(pk, revision_id, parent, Chunk.Level.LEAF.value, leaf.ordinal, text, prefix, []),
        *(None, None, None, None, None),
        # A leaf's digest is of what is embedded: equal leaves share their vectors (`reuse_vectors`).
        *(leaf.start, leaf.end, leaf.token_count, digest(searched), True, 1, len(tokens), tsvector_literal(tokens)),
    )


def digest(text: str) -> str:
    return sha256(text.encode("utf-8")).hexdigest()


def vector_block(
    revisions: int | NDArray[np.int64], space: EmbeddingSpace, ids: Sequence[int], vectors: NDArray[np.float32]
) -> bytes:
    """All rows in PostgreSQL's binary COPY format (its documentation, "COPY", and pgvector's `halfvec_send`).

    `revisions` is one for all rows, or one a row; columns are chunk, revision, space, halfvec, bits.

    Each field is a four-byte length and its bytes, big-endian: a halfvec is dimensions, an unused
    number, and half-precision floats; bits are their count and the packed bytes.
    """
    width = vectors.shape[1]
    if width != space.dimensions:
        raise ValueError(f"vectors of {width} dimensions in a space of {space.dimensions}")
    packed = np.packbits(vectors > 0, axis=1)
    size = packed.shape[1]
    layout: list[tuple[str, str] | tuple[str, str, tuple[int]]] = [("fields", ">i2")]
    for name in ("chunk", "revision", "space"):
        layout += [(f"{name}_size", ">i4"), (name, ">i8")]
    layout += [("halfvec_size", ">i4"), ("width", ">i2"), ("unused", ">i2"), ("halfvec", ">f2", (width,))]
    layout += [("bits_size", ">i4"), ("bit_count", ">i4"), ("bits", "u1", (size,))]
    rows = np.zeros(len(ids), dtype=np.dtype(layout))
    rows["fields"] = 5
    for name in ("chunk", "revision", "space"):
        rows[f"{name}_size"] = 8
    rows["chunk"], rows["revision"], rows["space"] = ids, revisions, space.pk
    rows["halfvec_size"], rows["width"], rows["halfvec"] = 4 + 2 * width, width, vectors
    rows["bits_size"], rows["bit_count"], rows["bits"] = 4 + size, width, packed
    return _COPY_SIGNATURE + rows.tobytes() + _COPY_END
