"""Search by meaning, planned by how much of the space's vectors the asker may see.

- `exact`: every permitted vector is compared. Small sets.
- `binary`: the permitted vectors' signs are compared (from an index of their own, 48 bytes a vector at
  384 dimensions), and the nearest few hundred are compared exactly. The middle.
- `hnsw`: the graph index, scanned until enough permitted leaves are found. Large shares of large spaces.

The plan and its reason stand in the trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from django.db import connection, transaction
from numpy.typing import NDArray

from knowledge.ingestion.store import signs
from knowledge.retrieval.candidates import Candidate
from knowledge.retrieval.graphs import Graph, graph
from knowledge.retrieval.permitted import DISABLED_LEAVES, Permitted
from portal.gateway.models import EmbeddingSpace

Plan = Literal["exact", "binary", "hnsw"]
Vector = NDArray[np.float32]

# Up to so many permitted leaves all of them are compared: some 10 ms.
EXACT_LEAVES = 10_000
# From so many permitted leaves on the graph is quicker than the binary pass, if they are such a share of its vectors:
# of a smaller share it has to pass too many that are not permitted.
GRAPH_LEAVES = 60_000
GRAPH_SHARE = 0.2
# How many candidates of the binary pass are compared exactly: a share of the permitted leaves within bounds.
RERANKED_SHARE, LEAST_RERANKED, MOST_RERANKED = 1 / 16, 2_000, 5_000
# The scan of the graph goes on, batch by batch, until it has met so many leaves, permitted or not: those that come late
# are near the query too, and what lies apart from where it began is found by the later batches only.
_EF_SEARCH = 1_000
_VISITED = 2_000


@dataclass(frozen=True, slots=True)
class Asked:
    """A query in one space, and its unit vector."""

    space: EmbeddingSpace
    vector: Vector

    @property
    def literal(self) -> str:
        return literal_of(self.vector)


def plan_for(permitted: Permitted, space: EmbeddingSpace, found: Graph | None) -> tuple[Plan, str]:
    """The plan for `permitted.leaves`, and why."""
    leaves = permitted.leaves
    if leaves <= EXACT_LEAVES:
        return "exact", f"{leaves} permitted leaves: comparing all is quickest"
    if found is not None and found.valid and leaves >= GRAPH_LEAVES and leaves >= GRAPH_SHARE * found.vectors:
        return "hnsw", f"{leaves} of {found.vectors} leaves are permitted: the graph finds enough of them"
    return "binary", f"{leaves} permitted leaves: signs first, then the nearest {reranked(leaves)} exactly"


def reranked(leaves: int) -> int:
    """How many candidates of the signs are compared exactly, of so many permitted leaves (docs/decisions/0086)."""
    return int(min(max(leaves * RERANKED_SHARE, LEAST_RERANKED), MOST_RERANKED))


def search(
    permitted: Permitted, asked: Asked, k: int, detail: dict[str, Any], plan: Plan | None = None
) -> list[Candidate]:
    """The k nearest permitted leaves that have a vector in the space, nearest first. `plan` overrides the planner."""
    if not permitted.bases:
        detail["plan"] = "nothing is permitted"
        return []
    reason = "asked for"
    found = graph(asked.space) if plan == "hnsw" or permitted.leaves >= GRAPH_LEAVES else None
    if plan is None:
        plan, reason = plan_for(permitted, asked.space, found)
    detail |= {"plan": plan, "why": reason, "space": asked.space.key}
    if plan == "hnsw":
        near = _by_graph(permitted, asked, k, permitted.leaves / max(found.vectors, 1) if found else 1.0)
        if len(near) >= min(k, permitted.leaves):
            return near
        # What is permitted lies far from the query: the scan of the graph ended before it had met enough of it.
        plan = "binary"
        detail |= {"plan": plan, "why": f"the graph gave only {len(near)} permitted leaves"}
    return _exact(permitted, asked, k) if plan == "exact" else _binary(permitted, asked, k)


def there_are_any(permitted: Permitted, space: EmbeddingSpace) -> bool:
    """Whether any permitted leaf has a vector in a space."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH {permitted.lookup} SELECT EXISTS (SELECT FROM permitted p "  # noqa: S608 (our own text)
            "JOIN knowledge_chunkvector v ON v.revision_id = p.revision_id AND v.space_id = %s)",
            [*permitted.params, space.pk],
        )
        return bool(cursor.fetchone()[0])


def complete(asked: Asked, candidates: Sequence[Candidate], base_ids: set[int]) -> list[Candidate]:
    """The same candidates with their cosines, for those of `base_ids`. They come from a permitted search."""
    missing = [item.leaf for item in candidates if item.cosine is None and item.base in base_ids]
    if not missing:
        return list(candidates)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT v.chunk_id, -(v.halfvec <#> %s::halfvec) "
            "FROM knowledge_chunkvector v WHERE v.space_id = %s AND v.chunk_id = ANY(%s)",
            [asked.literal, asked.space.pk, missing],
        )
        found = dict(cursor.fetchall())
    return [replace(item, cosine=found[item.leaf]) if item.leaf in found else item for item in candidates]


# -- the three plans --------------------------------------------------------------------------------

# Joined plainly, PostgreSQL takes the permitted revisions for more than they are (the rules of access are more than it
# can estimate) and reads the whole index; so each revision's part of it is read on its own.
_FROM = f"""FROM permitted p CROSS JOIN LATERAL (
   SELECT {{columns}} FROM knowledge_chunkvector v WHERE v.revision_id = p.revision_id AND v.space_id = %s OFFSET 0) v
 WHERE v.chunk_id NOT IN ({DISABLED_LEAVES})"""  # noqa: S608 (our own text)
_SELECT = """SELECT n.chunk_id, c.parent_id, n.base_id, n.cosine
  FROM nearest n JOIN knowledge_chunk c ON c.id = n.chunk_id
 ORDER BY n.cosine DESC, n.chunk_id LIMIT %s"""


def _exact(permitted: Permitted, asked: Asked, k: int) -> list[Candidate]:
    sql = f"""
        WITH {permitted.cte}, nearest AS MATERIALIZED (
          SELECT v.chunk_id, p.base_id, -(v.halfvec <#> %s::halfvec) AS cosine
           {_FROM.format(columns="v.chunk_id, v.halfvec")}
           ORDER BY v.halfvec <#> %s::halfvec LIMIT %s
        ) {_SELECT}"""
    params = [asked.literal, asked.space.pk, asked.literal, k]
    return _run(sql, [*permitted.params, *params, k])


def _binary(permitted: Permitted, asked: Asked, k: int) -> list[Candidate]:
    pool = max(reranked(permitted.leaves), 2 * k)
    sql = f"""
        WITH {permitted.cte}, near AS MATERIALIZED (
          SELECT v.chunk_id, p.base_id {_FROM.format(columns="v.chunk_id, v.bits")}
           ORDER BY v.bits <~> %s::varbit LIMIT %s
        ), nearest AS MATERIALIZED (
          SELECT f.chunk_id, f.base_id, -(v.halfvec <#> %s::halfvec) AS cosine
            FROM knowledge_chunkvector v JOIN near f ON f.chunk_id = v.chunk_id + 0
           WHERE v.space_id = %s AND v.chunk_id = ANY (ARRAY(SELECT chunk_id FROM near))
           ORDER BY v.halfvec <#> %s::halfvec LIMIT %s
        ) {_SELECT}"""  # noqa: S608 (our own text; every value is bound)
    params = [asked.space.pk, signs(asked.vector), pool, asked.literal, asked.space.pk, asked.literal, k]
    return _run(sql, [*permitted.params, *params, k])


def _by_graph(permitted: Permitted, asked: Asked, k: int, share: float) -> list[Candidate]:
    depth = max(k, int(_VISITED * min(share, 1.0)))
    width, space = int(asked.space.dimensions), int(asked.space.pk)
    # The space's number and width are written out, because only so the partial expression index fits.
    sql = f"""
        WITH {permitted.lookup}, nearest AS MATERIALIZED (
          SELECT v.chunk_id, p.base_id, -(v.halfvec::halfvec({width}) <#> %s::halfvec({width})) AS cosine
            FROM knowledge_chunkvector v JOIN permitted p ON p.revision_id = v.revision_id
           WHERE v.space_id = {space} AND v.chunk_id NOT IN ({DISABLED_LEAVES})
           ORDER BY v.halfvec::halfvec({width}) <#> %s::halfvec({width}) LIMIT %s
        ) {_SELECT}"""  # noqa: S608 (our own text; every value is bound)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            f"SET LOCAL hnsw.iterative_scan = relaxed_order; SET LOCAL hnsw.ef_search = {_EF_SEARCH}; "
            "SET LOCAL enable_sort = off; SET LOCAL enable_hashjoin = on"
        )
        return _run(sql, [*permitted.params, asked.literal, asked.literal, depth, k])


def _run(sql: str, params: Sequence[Any]) -> list[Candidate]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return [
            Candidate(leaf, passage, base, cosine=float(min(max(cosine, -1.0), 1.0)))
            for leaf, passage, base, cosine in cursor.fetchall()
        ]


def literal_of(vector: Vector) -> str:
    return "[" + ",".join(map(str, vector.tolist())) + "]"
