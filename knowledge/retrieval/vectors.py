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
GRAPH_LEAVES = 25_000
GRAPH_SHARE = 0.2
# How many candidates of the binary pass are compared exactly: a share of the permitted leaves within bounds.
RERANKED_SHARE, LEAST_RERANKED, MOST_RERANKED = 1 / 8, 2_000, 8_000
# The scan of the graph goes on until it has met more permitted leaves than asked for, the more the fewer are permitted:
# those that come late are near the query too.
_EF_SEARCH = 400
_DEEPER, _DEEPEST = 2.5, 6.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A query in one space: its unit vector, and what the space's centring needs."""

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
    if space.mean is None:
        return "exact", f"{leaves} permitted leaves, but the space has no mean vector to take signs from"
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
        plan = "exact" if asked.space.mean is None else "binary"
        detail |= {"plan": plan, "why": f"the graph gave only {len(near)} permitted leaves"}
    rows = _exact(permitted, asked, k) if plan == "exact" else _binary(permitted, asked, k)
    return _candidates(rows, asked)


def complete(asked: Asked, candidates: Sequence[Candidate], base_ids: set[int]) -> list[Candidate]:
    """The same candidates with their cosines, for those of `base_ids`. They come from a permitted search."""
    missing = [item.leaf for item in candidates if item.cosine is None and item.base in base_ids]
    if not missing:
        return list(candidates)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT v.chunk_id, -(v.halfvec <#> %s::halfvec), -(v.halfvec <#> %s::halfvec) "
            "FROM knowledge_chunkvector v WHERE v.space_id = %s AND v.chunk_id = ANY(%s)",
            [asked.literal, literal_of(mean_of(asked.space)), asked.space.pk, missing],
        )
        found = {pk: cosines(asked, cosine, along) for pk, cosine, along in cursor.fetchall()}
    return [
        replace(item, cosine=found[item.leaf][0], centred=found[item.leaf][1]) if item.leaf in found else item
        for item in candidates
    ]


# -- the three plans --------------------------------------------------------------------------------

# Joined plainly, PostgreSQL takes the permitted revisions for more than they are (the rules of access are more than it
# can estimate) and reads the whole index; so each revision's part of it is read on its own.
_FROM = f"""FROM permitted p CROSS JOIN LATERAL (
   SELECT {{columns}} FROM knowledge_chunkvector v WHERE v.revision_id = p.revision_id AND v.space_id = %s OFFSET 0) v
 WHERE v.chunk_id NOT IN ({DISABLED_LEAVES})"""  # noqa: S608 (our own text)
_SELECT = """SELECT n.chunk_id, c.parent_id, n.base_id, n.cosine, -(v.halfvec <#> %s::halfvec)
  FROM nearest n JOIN knowledge_chunk c ON c.id = n.chunk_id
  JOIN knowledge_chunkvector v ON v.chunk_id = n.chunk_id AND v.space_id = %s
 ORDER BY n.cosine DESC, n.chunk_id LIMIT %s"""

Row = tuple[int, int, int, float, float]


def _exact(permitted: Permitted, asked: Asked, k: int) -> list[Row]:
    sql = f"""
        WITH {permitted.cte}, nearest AS MATERIALIZED (
          SELECT v.chunk_id, p.base_id, -(v.halfvec <#> %s::halfvec) AS cosine
           {_FROM.format(columns="v.chunk_id, v.halfvec")}
           ORDER BY v.halfvec <#> %s::halfvec LIMIT %s
        ) {_SELECT}"""
    params = [asked.literal, asked.space.pk, asked.literal, k]
    return _run(sql, [*permitted.params, *params, *_tail(asked, k)])


def _binary(permitted: Permitted, asked: Asked, k: int) -> list[Row]:
    pool = max(reranked(permitted.leaves), 2 * k)
    sql = f"""
        WITH {permitted.cte}, near AS MATERIALIZED (
          SELECT v.chunk_id, p.base_id {_FROM.format(columns="v.chunk_id, v.bits")} AND v.bits IS NOT NULL
           ORDER BY v.bits <~> %s::varbit LIMIT %s
        ), nearest AS MATERIALIZED (
          SELECT f.chunk_id, f.base_id, -(v.halfvec <#> %s::halfvec) AS cosine
            FROM near f JOIN knowledge_chunkvector v ON v.chunk_id = f.chunk_id AND v.space_id = %s
           ORDER BY v.halfvec <#> %s::halfvec LIMIT %s
        ) {_SELECT}"""  # noqa: S608 (our own text; every value is bound)
    packed = signs(asked.space, asked.vector[None, :])
    assert packed is not None
    bits = "".join(map(str, np.unpackbits(packed[0], count=asked.space.dimensions)))
    params = [asked.space.pk, bits, pool, asked.literal, asked.space.pk, asked.literal, k]
    return _run(sql, [*permitted.params, *params, *_tail(asked, k)])


def _by_graph(permitted: Permitted, asked: Asked, k: int, share: float) -> list[Candidate]:
    depth = int(k * min(max(_DEEPER / max(share, 0.01), 1.0), _DEEPEST))
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
        rows = _run(sql, [*permitted.params, asked.literal, asked.literal, depth, *_tail(asked, k)])
    return _candidates(rows, asked)


def _tail(asked: Asked, k: int) -> list[Any]:
    return [literal_of(mean_of(asked.space)), asked.space.pk, k]


def _run(sql: str, params: Sequence[Any]) -> list[Row]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return list(cursor.fetchall())


def _candidates(rows: Sequence[Row], asked: Asked) -> list[Candidate]:
    found = []
    for leaf, passage, base, cosine, along in rows:
        raw, centred = cosines(asked, cosine, along)
        found.append(Candidate(leaf, passage, base, cosine=raw, centred=centred))
    return found


def cosines(asked: Asked, cosine: float, along: float) -> tuple[float, float]:
    """The raw cosine, and that of query and leaf after the mean m is taken off both (`along` is leaf·m).

    For unit q and d: (q - m)(d - m) = qd - qm - dm + mm, and |d - m|² = 1 - 2dm + mm.
    """
    mean = mean_of(asked.space)
    own, square = float(asked.vector @ mean), float(mean @ mean)
    length = ((1 - 2 * own + square) * max(1 - 2 * along + square, 1e-9)) ** 0.5
    centred = (cosine - own - along + square) / length
    return float(cosine), float(np.clip(centred, -1.0, 1.0))


def mean_of(space: EmbeddingSpace) -> Vector:
    if space.mean is None:
        return np.zeros(space.dimensions, dtype=np.float32)
    return np.asarray(space.mean, dtype=np.float32)


def literal_of(vector: Vector) -> str:
    return "[" + ",".join(map(str, vector.tolist())) + "]"
