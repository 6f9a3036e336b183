"""How two lists become one, and leaves become passages. Only orders: what a score is worth says `relevance`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from knowledge.retrieval.candidates import Candidate
from knowledge.text import QueryKind

RRF_K = 60
# What is added to the share of meaning for each kind of query (measured: docs/quality.md).
SHIFT: dict[QueryKind, float] = {"identifier": -0.3, "short": 0.0, "sentence": 0.0}


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
    """weight · cosine + (1 - weight) · BM25 share for each candidate, both min–max normalised over all of them.

    Candidates are complete: each has both scores, whichever list it comes from (None counts as the least).
    """
    words = _min_max([item.words_share for item in candidates])
    meaning = _min_max([item.cosine for item in candidates])
    return [weight * near + (1 - weight) * match for near, match in zip(meaning, words, strict=True)]


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


def _min_max(values: Sequence[float | None]) -> list[float]:
    known = [value for value in values if value is not None]
    if not known:
        return [0.0] * len(values)
    low, high = min(known), max(known)
    if high <= low:
        return [0.0 if value is None or high <= 0 else 1.0 for value in values]
    return [0.0 if value is None else (value - low) / (high - low) for value in values]


def _places(values: Sequence[float | None]) -> list[int]:
    order = sorted(
        (place for place, value in enumerate(values) if value is not None),
        key=lambda place: -(values[place] or 0.0),
    )
    places = [0] * len(values)
    for rank, place in enumerate(order, 1):
        places[place] = rank
    return places
