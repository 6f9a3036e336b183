"""The second stage: batches of leaves through the embedding model into the tables, in LlamaIndex's frame.

While one batch is written the next is already being embedded, so that the model never waits for the
database; that is what keeps ingestion close to the pure time of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from knowledge.ingestion import store
from knowledge.models import Revision
from portal.gateway.models import EmbeddingSpace
from portal.gateway.protocols import Embedder, Vectors

# Leaves fetched at once, and leaves of one request to the model.
FETCH, BATCH = 2_048, 32  # a batch is what people see move: about a second on two busy processors

Row = tuple[int, str]


class Ahead:
    """An embedder that works one batch ahead of whoever asks it: the batches are known beforehand."""

    def __init__(self, embedder: Embedder, batches: Sequence[Sequence[Row]], pool: ThreadPoolExecutor) -> None:
        self.space, self.dimensions = embedder.space, embedder.dimensions
        self._embedder, self._pool = embedder, pool
        self._batches = iter(batches)
        self._next = self._submit()

    def _submit(self) -> Future[Vectors] | None:
        batch = next(self._batches, None)
        return self._pool.submit(self._embedder.embed_passages, [text for _, text in batch]) if batch else None

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """The vectors of the next batch; `texts` are that batch's."""
        assert self._next is not None
        vectors = self._next.result()
        self._next = self._submit()
        return vectors

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self._embedder.embed_queries(texts)


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
    from llama_index.core.ingestion import IngestionPipeline
    from llama_index.core.schema import TextNode

    from knowledge.ingestion.chunk_store import ChunkStore
    from knowledge.ingestion.components import EmbedTransformation

    sink = ChunkStore(revision, claim_no, space)
    done = total - store.count_without_vectors(revision.pk, space.pk)
    on_progress(done)
    while rows := store.leaves_without_vectors(revision.pk, space.pk, FETCH):
        batches = [rows[place : place + BATCH] for place in range(0, len(rows), BATCH)]
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="embed") as pool:
            embed = EmbedTransformation(embedder=Ahead(embedder, batches, pool), batch=BATCH)
            pipeline = IngestionPipeline(transformations=[embed], vector_store=sink, disable_cache=True)
            for batch in batches:
                pipeline.run(nodes=[TextNode(id_=str(pk), text=text) for pk, text in batch])
                done += len(batch)
                on_progress(done)
                if done < total and is_over():
                    pool.shutdown(cancel_futures=True)
                    return False
    return True
