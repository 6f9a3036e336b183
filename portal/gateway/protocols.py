"""What the rest of Archway may ask of a model, whoever provides it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


class TokenCounter(Protocol):
    """Counts tokens as the embedding model does, prefix and special tokens included."""

    max_tokens: int

    def count(self, texts: Sequence[str]) -> list[int]: ...


class Embedder(Protocol):
    """Turns texts into unit vectors.

    `space` names the vector space: model and weights hash. Vectors of different spaces are never
    compared. Both methods return float32 of shape (len(texts), dimensions), each row of length 1,
    and raise `portal.kernel.errors.Unavailable` (retryable) when the model is away.
    """

    space: str
    dimensions: int

    def embed_passages(self, texts: Sequence[str]) -> Vectors: ...

    def embed_queries(self, texts: Sequence[str]) -> Vectors: ...


@dataclass(frozen=True, slots=True)
class Ranked:
    """A text's place in the list that was given, and its score as the model gave it (most give 0 to 1)."""

    index: int
    score: float


class Reranker(Protocol):
    """Ranks texts by how well they answer a query, best first; texts that the model left out are missing.

    Raises `Unavailable` when the model is away and `Invalid` when a person must act, as `chat` does.
    """

    def rerank(self, query: str, texts: Sequence[str]) -> list[Ranked]: ...
