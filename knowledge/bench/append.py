"""What it costs to add chunks to a large library, against an empty one: storage alone, and with the model's time."""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import sha256
from statistics import median
from typing import Any

import numpy as np
from django.conf import settings
from django.db import connection

from knowledge import lifecycle
from knowledge.bench import loading
from knowledge.bench.database import Backend, own_database
from knowledge.bench.synthetic import DIMENSIONS, LEAVES_OF_A_PASSAGE, Synthesis, SyntheticDocument
from knowledge.ingestion import store
from knowledge.ingestion.split import Leaf, Passage
from knowledge.models import Chunk, Document, KnowledgeBase, Revision
from knowledge.retrieval import graphs
from portal.gateway.local.model import E5
from portal.gateway.models import EmbeddingSpace, ModelEndpoint
from portal.kernel.models import Membership, User, Workspace

BATCH = 64
BAR = 1.3
# Documents of the library are numbered from 0; these are none of them.
_FIRST = 90_000_000

Report = Callable[[str, int], None]


def run(
    *, chunks: int, added: int, rounds: int, keep: bool, report: Report = lambda what, done: None
) -> dict[str, Any]:
    """Add documents of `added` leaves to the largest base of a library of `chunks`, and to an empty one, by turns.

    The texts are embedded once with the built-in model: its time is the same on both sides.
    """
    synthesis = Synthesis()
    drafts = [synthesis.document(_FIRST + 2 * number, added) for number in range(rounds)]
    embedding = _embedding_seconds(drafts[0])
    seconds: dict[str, list[tuple[float, float]]] = {"empty": [], "large": []}
    for side, size in (("empty", 0), ("large", chunks), ("empty", 0)):
        report(side, 0)
        with own_database(f"archway_bench_{size or 'empty'}", keep=keep and size > 0) as fresh:
            if fresh and size:
                loading.load(size)
            if size:
                graphs.keep()
            base, space = _largest_base() if size else _empty_base()
            for draft in drafts:
                seconds[side].append(_add(base, space, draft))
    wall = {side: median(row[0] for row in rows) for side, rows in seconds.items()}
    busy = {side: median(row[1] for row in rows) for side, rows in seconds.items()}
    ratio = (embedding[0] + wall["large"]) / (embedding[0] + wall["empty"])
    return {
        "chunks": chunks,
        "added": added,
        "rounds": rounds,
        "embedding_seconds": round(embedding[0], 2),
        "embedding_cpu_seconds": round(embedding[1], 2),
        "storage_seconds": {side: round(value, 3) for side, value in wall.items()},
        "storage_cpu_seconds": {side: round(value, 3) for side, value in busy.items()},
        "storage_ratio": round(wall["large"] / wall["empty"], 2),
        "ratio": round(ratio, 3),
        "cpu_ratio": round((embedding[1] + busy["large"]) / (embedding[1] + busy["empty"]), 3),
        "bar": BAR,
        "met": ratio <= BAR,
    }


def _embedding_seconds(draft: SyntheticDocument) -> tuple[float, float]:
    """Seconds of the clock and of the processors that the built-in model takes for the leaves' texts."""
    model = E5(settings.ARCHWAY["DATA_DIR"] / "models", threads=settings.ARCHWAY["EMBEDDING_THREADS"])
    texts = [leaf.text for leaf in draft.leaves]
    model.embed_passages(texts[:4])
    began, busy = time.perf_counter(), time.process_time()
    for place in range(0, len(texts), BATCH):
        model.embed_passages(texts[place : place + BATCH])
    return time.perf_counter() - began, time.process_time() - busy


def _add(base: KnowledgeBase, space: EmbeddingSpace, draft: SyntheticDocument) -> tuple[float, float]:
    """Store one document as ingestion does, batch by batch under its claim, and publish it.

    Returns seconds of the clock and of the processors.
    """
    revision = _claimed(base, space, draft)
    backend = Backend()
    began, busy = time.perf_counter(), backend.milliseconds()
    store.write_chunks(revision, revision.claim_no, _passages(draft))
    leaves = Chunk.objects.filter(revision=revision, level=Chunk.Level.LEAF).order_by("ordinal")
    ids = list(leaves.values_list("pk", flat=True))
    for place in range(0, len(ids), BATCH):
        part = slice(place, place + BATCH)
        store.write_vectors(revision, revision.claim_no, space, ids[part], np.asarray(draft.vectors[part]))
    lifecycle.publish(lifecycle.Claim(revision.pk, revision.claim_no, "bench"))
    return time.perf_counter() - began, (backend.milliseconds() - busy) / 1000


def _claimed(base: KnowledgeBase, space: EmbeddingSpace, draft: SyntheticDocument) -> Revision:
    name = f"appended-{draft.number}-{time.time_ns()}.md"
    document = Document.objects.create(base=base, source_key=name, name=name)
    return Revision.objects.create(
        document=document,
        base=base,
        number=1,
        file_name=name,
        sha256=sha256(name.encode()).hexdigest(),
        mime="text/markdown",
        size=1,
        status=Revision.Status.VECTORIZING,
        stage="embed",
        claim_no=1,
        claimed_by="bench",
        chunk_count=len(draft.leaves),
        space=space,
    )


def _passages(draft: SyntheticDocument) -> list[Passage]:
    passages: list[Passage] = []
    for place in range(0, len(draft.leaves), LEAVES_OF_A_PASSAGE):
        mine = draft.leaves[place : place + LEAVES_OF_A_PASSAGE]
        leaves = tuple(Leaf(place + n, leaf.text, 0, len(leaf.text), leaf.tokens) for n, leaf in enumerate(mine))
        text = "\n".join(leaf.text for leaf in mine)
        passages.append(
            Passage(
                ordinal=place // LEAVES_OF_A_PASSAGE,
                text=text,
                start=0,
                end=len(text),
                token_count=sum(leaf.tokens for leaf in mine),
                leaves=leaves,
            )
        )
    return passages


def _largest_base() -> tuple[KnowledgeBase, EmbeddingSpace]:
    return KnowledgeBase.objects.order_by("pk")[0], loading.synthetic_space()


def _empty_base() -> tuple[KnowledgeBase, EmbeddingSpace]:
    """A base of an empty database; what an earlier round left there is deleted."""
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE knowledge_knowledgebase CASCADE")
    workspace, _ = Workspace.objects.get_or_create(name="Bench")
    person, made = User.objects.get_or_create(username=loading.OWNER)
    if made:
        Membership.objects.create(workspace=workspace, user=person)
    space, _ = EmbeddingSpace.objects.get_or_create(key=loading.SPACE, defaults={"dimensions": DIMENSIONS})
    ModelEndpoint.objects.get_or_create(
        name="synthetic", kind="embedding", provider="openai_compatible", model_name="synthetic", space=space
    )
    endpoint = ModelEndpoint.objects.get(name="synthetic")
    base = KnowledgeBase.objects.create(workspace=workspace, name="empty", embedding=endpoint)
    return base, space
