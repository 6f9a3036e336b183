"""What is taken off a model's vectors before they are kept or compared: their mean, and the language they are in.

Real embeddings lie in a narrow cone: e5's cosines stand between 0.7 and 1 whatever the texts say. Taking the
mean vector off opens the cone. What then still separates a Chinese from an English text of the same meaning is
mostly one direction; a question would find passages of its own language first, whatever they say. That
direction is taken off as well (measured: docs/decisions/0100-language-axis.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from portal.gateway.protocols import Embedder, Vectors

Floats = NDArray[np.float32]
# Stands in the key of a space, so that vectors centred in another way are never compared with these.
VERSION = "c1"
_TINY = 1e-6


@dataclass(frozen=True, slots=True)
class Centring:
    """`mean` of shape (d,), and `axis` of shape (d,) and length 1, from Chinese to English; or no axis."""

    mean: Floats
    axis: Floats | None

    def apply(self, vectors: Vectors) -> Vectors:
        """Vectors of shape (n, d) without mean and language, each of length 1 (a vector that is all mean stays 0)."""
        moved = vectors - self.mean
        if self.axis is not None:
            moved = moved - np.outer(moved @ self.axis, self.axis)
        lengths = np.linalg.norm(moved, axis=1, keepdims=True)
        return np.asarray(moved / np.maximum(lengths, _TINY), dtype=np.float32)


def measure(chinese: Vectors, english: Vectors) -> Centring:
    """The centring of a model, from its vectors of Chinese and of English sentences about the same things."""
    mean = (np.concatenate([chinese, english])).mean(axis=0)
    difference = english.mean(axis=0) - chinese.mean(axis=0)
    length = float(np.linalg.norm(difference))
    return Centring(mean, difference / length if length > _TINY else None)


class Centred:
    """An embedder whose vectors are centred; raises what the inner one raises."""

    def __init__(self, inner: Embedder, centring: Centring, space: str) -> None:
        self._inner = inner
        self._centring = centring
        self.space = space
        self.dimensions = inner.dimensions

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        return self._centring.apply(self._inner.embed_passages(texts))

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self._centring.apply(self._inner.embed_queries(texts))
