"""What the rest of Archway may ask of a model, whoever provides it."""

from __future__ import annotations

from collections.abc import Sequence
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
