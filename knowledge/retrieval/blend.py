"""How two lists become one, and leaves become passages. Only orders: what a score is worth says `relevance`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from knowledge.retrieval.candidates import Candidate
from knowledge.text import QueryKind

RRF_K = 60
# What is added to the share of meaning for each kind of query (measured: docs/quality.md).
SHIFT: dict[QueryKind, float] = {"identifier": -0.45, "short": 0.0, "sentence": 0.0}


@dataclass(frozen=True, slots=True)
class Ranked:
    """A passage by its best leaf."""

    candidate: Candidate
    score: float


def weight_for(asked: float | None, default: float, kind: QueryKind) -> float:
    """The share of meaning: as the request says, or the base's own shifted by the kind of query."""
    if asked is not None:
        return min(max(asked, 0.0), 1.0)
    return min(max(default + SHIFT[kind], 0.0), 1.0)


def ranks(scores: Sequence[tuple[int, float]]) -> dict[int, int]:
    """Rank from 1 of each passage by its best leaf: pairs of passage and score in any order."""
    best: dict[int, float] = {}
    for passage, score in scores:
        best[passage] = max(score, best.get(passage, float("-inf")))
    order = sorted(best, key=lambda passage: (-best[passage], passage))
    return {passage: place for place, passage in enumerate(order, 1)}


def convex(candidates: Sequence[Candidate], weight: float) -> list[float]:
    """weight · cosine + (1 - weight) · BM25 share for each candidate.

    Both are absolute: neither is stretched to the list's own best. A list in which nothing matches well
    (words of another language, a code that means nothing) so has no say, which min–max normalising gives
    it (measured: docs/decisions/0030-blend.md). Candidates are complete: each has both scores, whichever
    list it comes from; where the model is away, words alone count. A leaf in another language has at least the
    share that is expected of it.
    """
    return [
        (item.words_share or 0.0)
        if item.cosine is None
        else weight * item.cosine + (1 - weight) * max(item.words_share or 0.0, item.words_expected)
        for item in candidates
    ]


def reciprocal(candidates: Sequence[Candidate], weight: float) -> list[float]:
    """Reciprocal rank fusion of both lists, k = 60, weighted; a leaf without a score stands in no list."""
    word_rank = _places([item.words_share or None for item in candidates])
    near_rank = _places([item.cosine for item in candidates])
    return [
        (weight / (RRF_K + near) if near else 0.0) + ((1 - weight) / (RRF_K + match) if match else 0.0)
        for near, match in zip(near_rank, word_rank, strict=True)
    ]


def fuse(candidates: Sequence[Candidate], weight: float, fusion: Literal["convex", "rrf"]) -> list[float]:
    """A score for each candidate; see `convex` and `reciprocal`."""
    return convex(candidates, weight) if fusion == "convex" else reciprocal(candidates, weight)


def best_leaves(candidates: Iterable[Candidate], scores: Iterable[float]) -> list[Ranked]:
    """One entry a passage, that of its best leaf, best first. Ties go to the earlier leaf."""
    best: dict[int, Ranked] = {}
    for candidate, score in zip(candidates, scores, strict=True):
        known = best.get(candidate.passage)
        if known is None or (score, -candidate.leaf) > (known.score, -known.candidate.leaf):
            best[candidate.passage] = Ranked(candidate, score)
    return sorted(best.values(), key=lambda item: (-item.score, item.candidate.leaf))


def _places(values: Sequence[float | None]) -> list[int]:
    order = sorted(
        (place for place, value in enumerate(values) if value is not None),
        key=lambda place: -(values[place] or 0.0),
    )
    places = [0] * len(values)
    for rank, place in enumerate(order, 1):
        places[place] = rank
    return places
