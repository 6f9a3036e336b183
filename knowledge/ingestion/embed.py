"""The second stage: batches of leaves through the embedding model into the tables, in LlamaIndex's frame.

While one batch is written the next is already being embedded, so that the model never waits for the
database; that is what keeps ingestion close to the pure time of the model.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from knowledge.ingestion import store
from knowledge.models import Revision
from portal.gateway.models import EmbeddingSpace
from portal.gateway.protocols import Embedder

# Leaves fetched at once, and leaves of one request to the model.
FETCH, BATCH = 2_048, 64


def embed_and_store(
    revision: Revision,
    claim_no: int,
    space: EmbeddingSpace,
    embedder: Embedder,
    *,
    total: int,
    on_progress: Callable[[int], None],
    is_over: Callable[[], bool],
) -> bool:
    """Give every leaf of a revision that lacks one its vector. Returns False when `is_over` ended it first.

    Raises `Unavailable` when the model is away and `Conflict` (claim_lost) when the claim is.
    """
    while rows := store.leaves_without_vectors(revision.pk, space.pk, FETCH):
        rows = [row for row in rows if row[1].strip()]
        batches = [rows[place : place + BATCH] for place in range(0, len(rows), BATCH)]
        done = total - store.count_without_vectors(revision.pk, space.pk)
        on_progress(done)
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="embed") as pool:
            ahead: Future[NDArray[np.float32]] | None = None
            for place, batch in enumerate(batches):
                current = ahead or pool.submit(embedder.embed_passages, [text for _, text in batch])
                vectors = current.result()
                stop = is_over()
                following = batches[place + 1] if place + 1 < len(batches) and not stop else None
                ahead = pool.submit(embedder.embed_passages, [text for _, text in following]) if following else None
                store.write_vectors(revision, claim_no, space, [pk for pk, _ in batch], vectors)
                done += len(batch)
                on_progress(done)
                if stop and done < total:
                    return False
    return True

