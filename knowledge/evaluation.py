"""Measuring retrieval on a set of judged questions: ingest the corpus once, ask, compare.

A set is a folder: `corpus.jsonl` {id, title, text}, `queries.jsonl` {id, text}, `qrels.tsv` (query,
document, grade). Judgements are of documents: a document counts by its best passage. The corpus
lives in a base `eval:<set>` of a workspace of its own and is ingested again only when it, or the way
of ingesting, has changed.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from knowledge import evaluation_corpus
from knowledge.models import Document, KnowledgeBase
from knowledge.retrieval import Mode, RetrievalRequest, retrieve
from portal.kernel.errors import Invalid
from portal.kernel.principal import Principal

# Passages asked for: enough to hold the ten best documents.
PASSAGES = 40
DEPTH = 10
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """A set as read from its folder. `judged[query][document]` is the grade, 1 or more."""

    name: str
    documents: list[dict[str, str]]
    queries: list[dict[str, str]]
    judged: dict[str, dict[str, int]]
    digest: str


def read_set(folder: Path, limit: int | None = None) -> EvaluationSet:
    """Read a set; queries without a judgement are left out, and of the others the first `limit` are kept.

    Raises `Invalid` when a file is missing or has another shape.
    """
    try:
        corpus = (folder / "corpus.jsonl").read_bytes()
        documents = [json.loads(line) for line in corpus.decode("utf-8").splitlines() if line.strip()]
        queries = [json.loads(line) for line in _lines(folder / "queries.jsonl")]
        judged: dict[str, dict[str, int]] = defaultdict(dict)
        for line in _lines(folder / "qrels.tsv"):
            query, document, grade = line.split("\t")[:3]
            if int(grade) > 0:
                judged[query][document] = int(grade)
        for row in (*documents, *queries):
            _ = row["id"], row["text"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Invalid(
            "%(folder)s is not an evaluation set: corpus.jsonl, queries.jsonl and qrels.tsv are needed.",
            code="evaluation_set_invalid",
            folder=folder.name,
        ) from error
    kept = [row for row in queries if row["id"] in judged][:limit]
    digest = hashlib.sha256(corpus + evaluation_corpus.VERSION.encode()).hexdigest()
    return EvaluationSet(folder.resolve().name, documents, kept, dict(judged), digest)


def evaluate(
    folder: Path,
    modes: Sequence[Mode],
    *,
    limit: int | None = None,
    progress: Progress = lambda what, done, total: None,
) -> dict[str, Any]:
    """Measure a set in some modes; ingests its corpus when it has to. The shape is that of `manage.py evaluate`."""
    chosen = read_set(folder, limit)
    principal, base = evaluation_corpus.ensure_base(chosen.name, chosen.documents, chosen.digest, progress)
    return {
        "set": chosen.name,
        "documents": len(chosen.documents),
        "queries": len(chosen.queries),
        "modes": {mode: measure(principal, base, chosen, mode, progress) for mode in modes},
    }


def measure(
    principal: Principal,
    base: KnowledgeBase,
    chosen: EvaluationSet,
    mode: Mode,
    progress: Progress = lambda what, done, total: None,
) -> dict[str, float]:
    """Ask every question of a set in one mode: mean measures, and milliseconds of the whole retrieval."""
    # A text that the set holds twice is one document here; its other ids are its tags.
    rows = Document.objects.filter(base=base).values_list("uid", "source_key", "tags")
    names = {uid: (key, *tags) for uid, key, tags in rows}
    scores: list[tuple[float, ...]] = []
    times: list[float] = []
    for place, row in enumerate(chosen.queries, 1):
        request = RetrievalRequest(row["text"], base_uids=(base.uid,), mode=mode, top_k=PASSAGES, threshold=0.0)
        began = time.perf_counter()
        result = retrieve(principal, request)
        times.append((time.perf_counter() - began) * 1000)
        ranked = list(dict.fromkeys(name for hit in result.hits for name in names[hit.document]))
        scores.append(judge(ranked, chosen.judged[row["id"]]))
        progress(mode, place, len(chosen.queries))
    means = np.mean(scores, axis=0) if scores else np.zeros(len(MEASURES))
    p50, p95 = np.percentile(times, [50, 95]) if times else (0.0, 0.0)
    measures = {name: round(float(value), 4) for name, value in zip(MEASURES, means, strict=True)}
    return {**measures, "p50_ms": round(float(p50), 2), "p95_ms": round(float(p95), 2)}


MEASURES = ("recall@1", "recall@5", "recall@10", "mrr@10", "ndcg@10")


def judge(ranked: Sequence[str], relevant: dict[str, int]) -> tuple[float, ...]:
    """`MEASURES` of one ranking (Järvelin and Kekäläinen 2002 for nDCG, with the grade itself as gain)."""
    gains = [relevant.get(name, 0) for name in ranked[:DEPTH]]
    ideal = sorted(relevant.values(), reverse=True)[:DEPTH]
    recalls = [sum(1 for gain in gains[:depth] if gain) / len(relevant) for depth in (1, 5, 10)]
    first = next((1 / rank for rank, gain in enumerate(gains, 1) if gain), 0.0)
    return (*recalls, first, _discounted(gains) / _discounted(ideal))


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def _lines(path: Path) -> Iterator[str]:
    return (line for line in path.read_text("utf-8").splitlines() if line.strip())
