"""Different passages instead of the same thing said ten times: maximal marginal relevance on the best of a ranking.

Source: Carbonell and Goldstein, "The use of MMR, diversity-based reranking", SIGIR 1998. Only orders: nothing is added
to a ranking and nothing taken from it, and its first stays first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from knowledge.retrieval.blend import Ranked
from knowledge.retrieval.passages import Loaded

# Of a ranking so many are looked at, or twice as many as are wanted.
POOL, MOST = 50, 100
# Characters of a passage whose runs of three are compared, and into how many places these are thrown.
_COMPARED, _PLACES = 1_500, 4_096
# The head of `halfvec_send`: dimensions and an unused number.
_HEAD = 4

Matrix = NDArray[np.float32]


def pool(wanted: int) -> int:
    """How many passages of a ranking are looked at."""
    return min(max(POOL, 2 * wanted), MOST)


def diversified(
    ranked: Sequence[Ranked],
    loaded: Mapping[int, Loaded],
    diversity: float,
    wanted: int,
    reranked: Mapping[int, float],
    detail: dict[str, Any],
) -> list[Ranked]:
    """The ranking with the best `pool(wanted)` of its loaded passages so ordered that each differs from those before.

    `diversity` weighs how like a passage is to the nearest one before it (1) against its own worth (0). Both are
    stretched to what occurs in the pool: cosines of some models lie close together. `reranked` holds scores that
    count instead of the search's, and then only passages that have one are in the pool. `detail` tells what `moved`.
    """
    first = [item for item in ranked[: pool(wanted)] if item.candidate.passage in loaded]
    if reranked:
        first = [item for item in first if item.candidate.passage in reranked]
    detail |= {"candidates": len(first), "diversity": round(diversity, 3), "moved": []}
    if len(first) < 3:
        # The first stays, so a second has nowhere to go.
        return list(ranked)
    likeness, by_vector = _likeness(first, loaded)
    detail["compared_by"] = "vectors" if by_vector.all() else ("vectors and text" if by_vector.any() else "text")
    scores = [reranked.get(item.candidate.passage, item.score) for item in first]
    order = _greedy(_stretched(np.asarray(scores, np.float32)), likeness, diversity)
    detail["moved"] = [
        {"passage": first[was].candidate.passage, "from": was + 1, "to": now + 1}
        for now, was in enumerate(order)
        if was != now
    ]
    picked = [first[place] for place in order]
    known = {item.candidate.passage for item in picked}
    return [*picked, *(item for item in ranked if item.candidate.passage not in known)]


def _greedy(worth: Matrix, likeness: Matrix, diversity: float) -> list[int]:
    """Places in the order in which they are picked; of equals the one that came first."""
    order: list[int] = [0]
    most = likeness[0].copy()
    left = np.ones(len(worth), bool)
    left[0] = False
    for _ in range(len(worth) - 1):
        gain = np.where(left, (1 - diversity) * worth - diversity * most, -np.inf)
        best = int(np.argmax(gain))
        order.append(best)
        left[best] = False
        most = np.maximum(most, likeness[best])
    return order


def _stretched(values: Matrix) -> Matrix:
    """From 0 for the least to 1 for the greatest; all 0 where they are equal."""
    least, greatest = float(values.min()), float(values.max())
    return (values - least) / ((greatest - least) or 1.0)


def _likeness(first: Sequence[Ranked], loaded: Mapping[int, Loaded]) -> tuple[Matrix, NDArray[np.bool_]]:
    """How alike each two are, 0 to 1, and which pairs were compared by vectors of one space (the others by text)."""
    count = len(first)
    pairs = ~np.eye(count, dtype=bool)
    found = np.zeros((count, count), np.float32)
    known = np.eye(count, dtype=bool)
    places = {item.candidate.leaf: place for place, item in enumerate(first)}
    for rows in _vectors(list(places)).values():
        here = np.array([places[leaf] for leaf in rows])
        vectors = np.stack(list(rows.values()))
        block = np.ix_(here, here)
        fresh = ~known[block]
        if fresh.any():
            cosines = vectors @ vectors.T
            cosines[fresh] = _stretched(cosines[fresh])
            found[block] = np.where(fresh, cosines, found[block])
            known[block] = True
    by_vector = known[pairs]
    unknown = ~known
    if unknown.any():
        texts = [loaded[item.candidate.passage].text[:_COMPARED] for item in first]
        found[unknown] = _stretched(_shared(texts)[unknown])
    return found, by_vector


def _vectors(leaves: list[int]) -> dict[int, dict[int, Matrix]]:
    """The vectors of leaves that come from a permitted search, by space and leaf."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT v.space_id, v.chunk_id, halfvec_send(v.halfvec) FROM knowledge_chunkvector v "
            "WHERE v.chunk_id = ANY(%s) ORDER BY v.space_id, v.chunk_id",
            [leaves],
        )
        found: dict[int, dict[int, Matrix]] = {}
        for space, leaf, raw in cursor.fetchall():
            found.setdefault(space, {})[leaf] = np.frombuffer(bytes(raw)[_HEAD:], ">f2").astype(np.float32)
    return found


def _shared(texts: Sequence[str]) -> Matrix:
    """The share of their runs of three characters that each two texts have in common (Jaccard's measure)."""
    marks = np.zeros((len(texts), _PLACES), np.float32)
    for place, text in enumerate(texts):
        codes = np.frombuffer(text.casefold().encode("utf-32-le", "replace"), np.uint32).astype(np.uint64)
        if len(codes) > 2:
            marks[place, (codes[:-2] * 961 + codes[1:-1] * 31 + codes[2:]) % _PLACES] = 1
    both = marks @ marks.T
    sizes = marks.sum(axis=1)
    either = sizes[:, None] + sizes[None, :] - both
    return np.asarray(both / np.maximum(either, 1), np.float32)
