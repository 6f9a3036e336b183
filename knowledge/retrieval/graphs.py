"""The graph index (HNSW) of an embedding space: when there is one, how it is built, how it is kept.

Alone decides that a space has a graph from `BUILD_AT` vectors on and loses it below `DROP_BELOW`. All
statements run CONCURRENTLY: neither writers nor searches wait. A build that was broken off leaves an
invalid index, which searches do not use and the next upkeep builds anew; so does one that holds far
more dead places than live ones. One upkeep at a time (an advisory lock of the session, gone with it).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from django.db import connection, transaction

from portal.gateway.models import EmbeddingSpace

BUILD_AT = 50_000
DROP_BELOW = 25_000
# pgvector's graphs hold no wider halfvec; spaces of wider models are searched by their signs at any size.
WIDEST = 4_000
# A graph takes about this much a vector beside the vector itself (measured: 1.4 kB a vector of 384 halves).
_BYTES_BESIDE = 500
# An index so much larger than a fresh one would be is built anew.
BLOATED = 2.5
# Links of a vector, and how many are tried for them (docs/decisions/0126-graphs-of-centred-vectors.md).
_LINKS, _TRIED = 24, 128
_UPKEEP_LOCK = 0xA4C3

Action = Literal["build", "rebuild", "drop", "keep", "none"]


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph as it is: whether searches may use it, the vectors it held when last counted, its bytes on disk."""

    valid: bool
    vectors: int
    size: int


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What was done about one space, and how long it took."""

    space: str
    action: Action
    vectors: int
    seconds: float


def graph_name(space: EmbeddingSpace) -> str:
    """The name of the space's graph index."""
    return f"vector_graph_{space.pk}"


def graph(space: EmbeddingSpace) -> Graph | None:
    """The space's graph, be it finished or not; None when there is none. One short statement."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT i.indisvalid, greatest(c.reltuples, 0)::bigint, pg_relation_size(c.oid) FROM pg_class c "
            "JOIN pg_index i ON i.indexrelid = c.oid WHERE c.relname = %s AND pg_table_is_visible(c.oid)",
            [graph_name(space)],
        )
        row = cursor.fetchone()
    return Graph(*row) if row else None


def vectors_of(space: EmbeddingSpace) -> int:
    """How many vectors the space holds: counted, a tenth of a second for a million."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM knowledge_chunkvector WHERE space_id = %s", [space.pk])
        return int(cursor.fetchone()[0])


def wanted(space: EmbeddingSpace, vectors: int, found: Graph | None) -> Action:
    """What should be done about a space with so many vectors and this graph."""
    if found is None:
        return "build" if vectors >= BUILD_AT and space.dimensions <= WIDEST else "none"
    if vectors < DROP_BELOW:
        return "drop"
    if not found.valid or found.size > BLOATED * vectors * _bytes(space):
        return "rebuild"
    return "keep"


def keep(spaces: Iterator[EmbeddingSpace] | list[EmbeddingSpace] | None = None) -> list[Upkeep]:
    """Build, rebuild or drop graphs as their spaces have grown; [] while another upkeep runs. Not in a transaction."""
    with _alone() as mine:
        if not mine:
            return []
        return [_kept(space) for space in (EmbeddingSpace.objects.order_by("pk") if spaces is None else spaces)]


def build(space: EmbeddingSpace) -> None:
    """Build the space's graph anew, whatever its size: writers go on meanwhile. Not in a transaction.

    Minutes for a million vectors; twice as quick when the whole graph fits into the memory it asks for,
    which is at most a sixth of what the database believes the machine to have.
    """
    assert not connection.in_atomic_block
    drop(space)
    width = int(space.dimensions)
    memory = max(64, vectors_of(space) * _bytes(space) * 5 // 4 // 2**20)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('maintenance_work_mem', greatest(setting.now, least(%s, setting.most)) || 'MB', false) "
            "FROM (SELECT pg_size_bytes(current_setting('maintenance_work_mem')) / 1048576 AS now, "
            "pg_size_bytes(current_setting('effective_cache_size')) / 3 / 1048576 AS most) setting",
            [memory],
        )
        try:
            cursor.execute(
                f"CREATE INDEX CONCURRENTLY {graph_name(space)} ON knowledge_chunkvector USING hnsw "
                f"((halfvec::halfvec({width})) halfvec_ip_ops) WITH (m = {_LINKS}, ef_construction = {_TRIED}) "
                f"WHERE space_id = {int(space.pk)}"
            )
        finally:
            cursor.execute("RESET maintenance_work_mem")
        # The planner learns the index's number of vectors.
        cursor.execute("ANALYZE knowledge_chunkvector")


def drop(space: EmbeddingSpace) -> None:
    """Drop the space's graph, if there is one. Not in a transaction."""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {graph_name(space)}")


def _kept(space: EmbeddingSpace) -> Upkeep:
    began = time.perf_counter()
    vectors = vectors_of(space)
    action = wanted(space, vectors, graph(space))
    act: dict[Action, Callable[[EmbeddingSpace], None]] = {"build": build, "rebuild": build, "drop": drop}
    if action in act:
        act[action](space)
    return Upkeep(space.key, action, vectors, round(time.perf_counter() - began, 1))


def _bytes(space: EmbeddingSpace) -> int:
    return 2 * space.dimensions + _BYTES_BESIDE


@contextmanager
def _alone() -> Iterator[bool]:
    """Whether no other session keeps graphs now."""
    assert not transaction.get_connection().in_atomic_block
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [_UPKEEP_LOCK])
        mine = bool(cursor.fetchone()[0])
    try:
        yield mine
    finally:
        if mine:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [_UPKEEP_LOCK])
