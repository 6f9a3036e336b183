"""The fused ranking as the trace shows it: where each passage stood in every list, and why it is not among the hits.

Only ids and numbers: a trace is kept with its question and holds no text of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from knowledge.retrieval import blend
from knowledge.retrieval.blend import Ranked
from knowledge.retrieval.candidates import Candidate

# Of the ranking, so many are told.
TOLD = 20


def fused(
    ranked: Sequence[Ranked],
    candidates: Sequence[Candidate],
    reranked: Mapping[int, float],
    relevance: Mapping[int, float],
    threshold: float,
    shown: Collection[int],
) -> list[dict[str, Any]]:
    """The best `TOLD` passages in their final order before anything is cut off; `relevance` by passage.

    `keywords`, `embedding` and `rerank` are ranks from 1 in these lists, null where a passage is not in them.
    `outcome`: `shown`, `below_threshold`, or `left_out` (a copy of a better one, beyond the top, or gone meanwhile).
    """
    words = blend.ranks([(item.passage, item.words) for item in candidates if item.words])
    near = blend.ranks([(item.passage, item.cosine) for item in candidates if item.cosine is not None])
    again = blend.ranks(list(reranked.items()))
    rows = []
    for rank, item in enumerate(ranked[:TOLD], 1):
        passage = item.candidate.passage
        cut = "below_threshold" if relevance[passage] < threshold else "left_out"
        rows.append(
            {
                "rank": rank,
                "passage": passage,
                "score": round(item.score, 6),
                "relevance": round(relevance[passage], 4),
                "keywords": words.get(passage),
                "embedding": near.get(passage),
                "rerank": again.get(passage),
                "outcome": "shown" if passage in shown else cut,
            }
        )
    return rows
