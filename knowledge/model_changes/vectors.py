"""The vectors of a whole base in two spaces: what is missing in one, what is left over of the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from django.db import connection
from django.db.models import Q
from numpy.typing import NDArray

from knowledge.ingestion.store import copy_vectors, searchable_text
from knowledge.models import KnowledgeBase, ModelChange
from portal.gateway.models import EmbeddingSpace, ModelEndpoint

# Rows that one transaction deletes.
_DROPPED = 5_000

# Of documents that are switched off or lie in the recycle bin too: they may come back at any time.
_LEAVES = """
  FROM knowledge_document d
  JOIN knowledge_chunk leaf ON leaf.revision_id = d.active_revision_id AND leaf.level = 'leaf'
 WHERE d.base_id = %(base)s
"""
_MISSING = """
   AND NOT EXISTS (SELECT FROM knowledge_chunkvector v WHERE v.chunk_id = leaf.id AND v.space_id = %(space)s)
"""


@dataclass(frozen=True, slots=True)
class Missing:
    """A leaf without a vector, and the text that its vector is made of."""

    leaf: int
    revision: int
    text: str


def count_of_leaves(base_id: int) -> int:
    """How many leaves the active revisions of a base hold."""
    return _number(f"SELECT count(*) {_LEAVES}", {"base": base_id})


def bases_with_vectors_of(endpoint: ModelEndpoint) -> int:
    """How many bases are searched with an endpoint's model, or are about to be."""
    own = Q(embedding=endpoint, documents__active_revision__isnull=False)
    coming = Q(model_changes__after=endpoint, model_changes__status__in=ModelChange.OPEN)
    return KnowledgeBase.objects.filter(own | coming, deleted_at__isnull=True).distinct().count()


def count_of_missing(base_id: int, space_id: int) -> int:
    """How many of them have no vector in a space."""
    return _number(f"SELECT count(*) {_LEAVES} {_MISSING}", {"base": base_id, "space": space_id})


def is_complete(base_id: int, space_id: int) -> bool:
    """Whether every one of them has its vector in a space."""
    return (
        _number(f"SELECT (NOT EXISTS (SELECT 1 {_LEAVES} {_MISSING}))::int", {"base": base_id, "space": space_id}) == 1
    )


def missing(base_id: int, space_id: int, limit: int) -> list[Missing]:
    """Up to `limit` leaves without a vector in a space, with the text to embed, as ingestion embeds it."""
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH lacking AS (SELECT leaf.id, leaf.revision_id, leaf.parent_id, leaf.text, d.name "  # noqa: S608
            f"{_LEAVES} {_MISSING} "
            "ORDER BY leaf.id LIMIT %(limit)s) SELECT l.id, l.revision_id, l.name, passage.heading_path, l.text "
            "FROM lacking l JOIN knowledge_chunk passage ON passage.id = l.parent_id ORDER BY l.id",
            {"base": base_id, "space": space_id, "limit": limit},
        )
        return [
            Missing(leaf, revision, searchable_text(name, path, text))
            for leaf, revision, name, path, text in cursor.fetchall()
        ]


def write(space: EmbeddingSpace, rows: Sequence[Missing], vectors: NDArray[np.float32]) -> int:
    """Store the vectors of leaves that are still there and have none; returns how many. In a transaction.

    The leaves are held until it ends, so that one which is edited or deleted meanwhile leaves no vector behind.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id FROM knowledge_chunk c WHERE id = ANY(%s) AND NOT EXISTS "
            "(SELECT FROM knowledge_chunkvector v WHERE v.chunk_id = c.id AND v.space_id = %s) FOR KEY SHARE",
            [[row.leaf for row in rows], space.pk],
        )
        wanted = {row[0] for row in cursor.fetchall()}
    places = [place for place, row in enumerate(rows) if row.leaf in wanted]
    if places:
        revisions = np.asarray([rows[place].revision for place in places], dtype=np.int64)
        copy_vectors(revisions, space, [rows[place].leaf for place in places], vectors[places])
    return len(places)


_LEFT_OVER = """
DELETE FROM {table} WHERE id IN (
  SELECT v.id FROM knowledge_revision r JOIN {table} v ON v.revision_id = r.id
   WHERE v.space_id <> r.space_id AND r.status = 'indexed'
     AND (%(base)s::bigint IS NULL OR r.base_id = %(base)s)
     AND NOT EXISTS (
       SELECT FROM knowledge_modelchange m WHERE m.base_id = r.base_id AND m.switched_at IS NULL
          AND m.status IN ('queued', 'running') AND (m.space_id IS NULL OR m.space_id = v.space_id))
   LIMIT %(limit)s)
"""


def drop_leftovers(base_id: int | None = None, limit: int = _DROPPED) -> int:
    """Delete up to `limit` vectors of leaves, and of questions, in a space that their revision does not use.

    Returns how many. Those that a change under way is making are kept, and those of revisions being worked on.
    """
    dropped = 0
    with connection.cursor() as cursor:
        for table in ("knowledge_chunkvector", "knowledge_questionvector"):
            cursor.execute(_LEFT_OVER.format(table=table), {"base": base_id, "limit": limit})
            dropped += int(cursor.rowcount)
    return dropped


def _number(sql: str, params: dict[str, int]) -> int:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return int(cursor.fetchone()[0])
