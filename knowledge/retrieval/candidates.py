"""What both searches hand on: leaves with their passages and raw scores."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """A leaf that matched. `words` is its BM25 and `words_share` that of the query's best possible; `cosine` that
    of the query's and its own vector. None: not known. `question`: the question of the passage that matched, not the
    leaf (which is then the passage's first). `words_expected`: the share expected of a leaf in another language than
    the question (`languages`)."""

    leaf: int
    passage: int
    base: int
    words: float | None = None
    words_share: float | None = None
    cosine: float | None = None
    question: int | None = None
    words_expected: float = 0.0
