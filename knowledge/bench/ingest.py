"""How much longer ingestion takes than its model alone: the same chunks, in one run, against pure embedding."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from knowledge import bases, intake, lifecycle
from knowledge.bench.corpus import documents
from knowledge.ingestion import pipeline, store
from knowledge.ingestion.preload import preload
from knowledge.models import Chunk, ChunkVector, KnowledgeBase, Revision
from portal.gateway.embedding import embedder_for
from portal.kernel.principal import Principal

REQUEST = 64


def run(
    principal: Principal, *, chunks: int, rounds: int, on_round: Callable[[int], None] = lambda done: None
) -> dict[str, Any]:
    """Ingest about `chunks` leaves and embed the very same texts alone, `rounds` times in turn.

    Returns seconds of both (medians), their ratio round by round, SQL statements a chunk. The bases
    that it makes are deleted again.
    """
    # A worker loads before its first file; the parser's process starts with it.
    preload()
    _round(principal, 20, seed=-1)
    results = []
    for number in range(rounds):
        results.append(_round(principal, chunks, number))
        on_round(number + 1)
    ratios = [row["ingest_seconds"] / row["embedding_seconds"] for row in results]
    return {
        "chunks": results[0]["chunks"],
        "rounds": rounds,
        "ingest_seconds": round(statistics.median(row["ingest_seconds"] for row in results), 2),
        "embedding_seconds": round(statistics.median(row["embedding_seconds"] for row in results), 2),
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "chunks_per_second": round(statistics.median(row["chunks"] / row["ingest_seconds"] for row in results), 1),
        "statements_per_chunk": max(row["statements_per_chunk"] for row in results),
        "embedding": settings.ARCHWAY["EMBEDDING_MODE"],
    }


def _round(principal: Principal, chunks: int, seed: int) -> dict[str, Any]:
    base = bases.create(principal, name=f"bench {timezone.now():%H%M%S.%f}")
    try:
        revision = _upload(principal, base, chunks, seed)  # a section is about one leaf
        embedder = embedder_for(base.embedding)
        embedder.embed_passages(["warm"])
        with CaptureQueriesContext(connection) as captured:
            began = time.perf_counter()
            while claim := lifecycle.claim("bench", revision.pk):
                pipeline.work(claim)
            ingest_seconds = time.perf_counter() - began
        revision.refresh_from_db()
        if revision.status != Revision.Status.INDEXED:
            raise RuntimeError(f"the bench document ended as {revision.status}: {revision.error_message}")
        texts = _texts(revision)
        began = time.perf_counter()
        for place in range(0, len(texts), REQUEST):
            embedder.embed_passages(texts[place : place + REQUEST])
        embedding_seconds = time.perf_counter() - began
        return {
            "chunks": len(texts),
            "ingest_seconds": ingest_seconds,
            "embedding_seconds": embedding_seconds,
            "statements_per_chunk": round(len(captured) / len(texts), 3),
        }
    finally:
        bases.delete(principal, base)
        KnowledgeBase.objects.filter(pk=base.pk).delete()


def _upload(principal: Principal, base: KnowledgeBase, sections: int, seed: int) -> Revision:
    name, text = next(documents(1, sections, seed=seed))
    with tempfile.TemporaryDirectory(prefix="archway-bench-") as folder:
        path = Path(folder) / "file"
        path.write_text(text, "utf-8")
        revision = intake.receive(principal, base, path, name).revision
    assert revision is not None
    return revision


def _texts(revision: Revision) -> list[str]:
    """What was embedded, as it was embedded."""
    space_id = revision.space_id
    assert space_id is not None
    count = Chunk.objects.filter(revision=revision, level=Chunk.Level.LEAF).count()
    ChunkVector.objects.filter(revision=revision).delete()
    return [text for _, text in store.leaves_without_vectors(revision.pk, space_id, count)]
