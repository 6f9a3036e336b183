"""The truth that a search is measured against: every permitted vector compared, in memory."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from knowledge.bench.questions import Question
from knowledge.retrieval.candidates import Candidate
from knowledge.retrieval.permitted import Permitted
from portal.gateway.models import EmbeddingSpace

_HEADER = 19
_BLOCK = 50_000
# Halves differ in their last digit from one way of adding to another.
_EQUAL = 2e-4


class ExactScan:
    """The inner product of every question with every vector of a space, as stored."""

    def __init__(self, space: EmbeddingSpace, questions: Sequence[Question]) -> None:
        self._ids, self._scores = _read(space, np.stack([question.vector for question in questions]))

    def permitted(self, permitted: Permitted) -> NDArray[np.bool_]:
        """Which vectors an asker may see: one truth value a vector."""
        with connection.cursor() as cursor:
            cursor.execute(
                f"WITH {permitted.cte} SELECT v.chunk_id FROM permitted p "  # noqa: S608 (compiled by Django)
                "JOIN knowledge_chunkvector v ON v.revision_id = p.revision_id",
                permitted.params,
            )
            mine = np.fromiter((row[0] for row in cursor.fetchall()), dtype=np.int64)
        return np.asarray(np.isin(self._ids, mine))

    def recall(self, question: int, mask: NDArray[np.bool_], found: Sequence[Candidate], k: int = 10) -> float:
        """Of the k nearest permitted leaves, the share among the first k found; equal distances count as equal."""
        scores = self._scores[question][mask]
        if not len(scores):
            return 1.0
        k = min(k, len(scores))
        least = np.partition(scores, len(scores) - k)[len(scores) - k]
        return float(min(sum((item.cosine or 0.0) >= least - _EQUAL for item in found[:k]) / k, 1.0))


def _read(space: EmbeddingSpace, asked: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """All chunk ids of a space, and the inner products: float32 of shape (questions, vectors)."""
    width = space.dimensions
    row = np.dtype([
        ("fields", ">i2"), ("id_size", ">i4"), ("id", ">i8"), ("size", ">i4"), ("width", ">i2"), ("unused", ">i2"),
        ("halfvec", ">f2", (width,)),
    ])  # fmt: skip
    ids, scores = [], []
    with connection.cursor() as cursor:
        cursor.execute("SELECT min(chunk_id), max(chunk_id) FROM knowledge_chunkvector WHERE space_id = %s", [space.pk])
        low, high = cursor.fetchone()
        for start in range(low, high + 1, _BLOCK):
            buffer = io.BytesIO()
            with cursor.copy(
                "COPY (SELECT chunk_id, halfvec FROM knowledge_chunkvector "  # noqa: S608 (numbers)
                f"WHERE space_id = {int(space.pk)} AND chunk_id >= {int(start)} AND chunk_id < {int(start) + _BLOCK}) "
                "TO STDOUT (FORMAT BINARY)"
            ) as copy:
                for piece in copy:
                    buffer.write(piece)
            rows = np.frombuffer(buffer.getvalue()[_HEADER:-2], dtype=row)
            ids.append(rows["id"].astype(np.int64))
            scores.append(asked @ rows["halfvec"].astype(np.float32).T)
    return np.concatenate(ids), np.concatenate(scores, axis=1)
