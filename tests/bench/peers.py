"""LlamaIndex's `PGVectorStore` (hybrid mode) and `bm25s` beside our modes: same leaves, same model, same questions.

    python tests/bench/peers.py FOLDER [SET …] [--limit N] [--json FILE] [--stored] [--vectors FOLDER]

FOLDER holds one folder per set; their corpora must be ingested (`manage.py evaluate FOLDER/SET`). The peer gets a
database of its own on the same server, dropped at the end. It is given our leaves as its nodes and the plain model's
vectors (with `--stored`: ours, without mean and language); with `--vectors` the plain ones are kept from run to run.
`PGVectorStore` returns the vectors' list with the words' list after it, unfused, so its two lists are also fused by
reciprocal ranks (k = 60), as LlamaIndex's `QueryFusionRetriever` does it. Its words are PostgreSQL's `english` for
English corpora and `simple` for others, which has no Chinese words. `bm25s` runs on our tokens, and on its own
tokeniser.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import bm25s
import numpy as np
import psycopg
from django.conf import settings
from llama_index.core.schema import BaseNode, TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode
from llama_index.vector_stores.postgres import PGVectorStore
from psycopg import sql
from sqlalchemy.exc import SQLAlchemyError

from tests.bench.ingested_sets import DEPTH, Ingested, Leaves, Matrix, folders, ingested, leaves

# isort: split
from knowledge.evaluation import MEASURES
from knowledge.models import ChunkVector
from knowledge.retrieval import MODES, RetrievalRequest, retrieve
from knowledge.text import query_lexemes, tokenise
from portal.gateway.embedding import embedder_for, plain_embedder_for, space_of
from portal.gateway.protocols import Embedder

SCRATCH = "archway_peers"
RRF_K = 60
Search = Callable[[str, Sequence[float]], list[str]]


def server_address(database: str | None = None) -> str:
    """The address of our server with another database."""
    now = settings.DATABASES["default"]
    host = str(now["HOST"])
    if host.startswith("/"):
        return f"postgresql://{now['USER']}:{now['PASSWORD']}@/{database or now['NAME']}?host={host}"
    return urlunsplit(
        (
            "postgresql",
            f"{now['USER']}:{now['PASSWORD']}@{host}:{now['PORT'] or 5432}",
            f"/{database or now['NAME']}",
            "",
            "",
        )
    )


def scratch(make: bool) -> None:
    """Make or drop the peer's database."""
    with psycopg.connect(server_address(), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(SCRATCH)))
        if make:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(SCRATCH)))


def vectors_of(
    one: Ingested, found: Leaves, questions: list[str], stored: bool, kept: Path | None
) -> tuple[Matrix, Matrix]:
    """Vectors of leaves and questions: the plain model's, or as we keep them."""
    if stored:
        model = embedder_for(one.base.embedding)
        rows = ChunkVector.objects.filter(space=space_of(one.base.embedding), chunk_id__in=found.ids)
        ours = dict(rows.values_list("chunk_id", "halfvec"))
        passages = np.vstack([np.asarray(ours[pk], dtype=np.float32) for pk in found.ids])
    else:
        model = plain_embedder_for(one.base.embedding)
        passages = plain_vectors(model, one.chosen.name, found.texts, kept)
    return passages, np.vstack([model.embed_queries([text]) for text in questions])


def plain_vectors(model: Embedder, name: str, texts: list[str], kept: Path | None) -> Matrix:
    """The model's vectors of a set's leaves; from `kept` if they are those of the same texts."""
    digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    path = kept / f"{name}-{digest[:16]}.npy" if kept else None
    if path is not None and path.exists():
        return np.asarray(np.load(path), dtype=np.float32)
    vectors = np.vstack([model.embed_passages(texts[at : at + 64]) for at in range(0, len(texts), 64)])
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, vectors)
    return vectors


def english(name: str) -> bool:
    """Whether the corpus of a set is English; mixed ones get the configuration that harms neither language."""
    return name.endswith(("_en", "en_doc"))


def llama_index(one: Ingested, found: Leaves, vectors: Matrix) -> dict[str, Search]:
    """The store filled with our leaves, and its searches: documents, best first."""
    address = server_address(SCRATCH)
    parts = urlsplit(address)
    drivers = {kind: urlunsplit((f"postgresql+{kind}", *parts[1:])) for kind in ("psycopg2", "asyncpg")}
    store = PGVectorStore.from_params(
        connection_string=drivers["psycopg2"],
        async_connection_string=drivers["asyncpg"],
        table_name="peer_" + "".join(letter for letter in one.chosen.name if letter.isalnum()),
        hybrid_search=True,
        text_search_config="english" if english(one.chosen.name) else "simple",
        embed_dim=vectors.shape[1],
        hnsw_kwargs={
            "hnsw_m": 16,
            "hnsw_ef_construction": 64,
            "hnsw_ef_search": 100,
            "hnsw_dist_method": "vector_cosine_ops",
        },
    )
    rows = zip(found.ids, found.texts, found.documents, vectors, strict=True)
    nodes: list[BaseNode] = [
        TextNode(id_=str(pk), text=text, metadata={"document": uid}, embedding=vector.tolist())
        for pk, text, uid, vector in rows
    ]
    for at in range(0, len(nodes), 500):
        store.add(nodes[at : at + 500])

    def ask(mode: VectorStoreQueryMode, text: str, vector: Sequence[float]) -> list[str]:
        query = VectorStoreQuery(
            query_embedding=list(vector), query_str=text, similarity_top_k=DEPTH, sparse_top_k=DEPTH, mode=mode
        )
        try:
            return [str(node.metadata["document"]) for node in store.query(query).nodes or []]
        except SQLAlchemyError as error:  # a question that the peer can not take counts as no answer
            print(f"    {type(error).__name__} for {text[:40]!r}")
            return []

    def fused(text: str, vector: Sequence[float]) -> list[str]:
        lists = [ask(mode, text, vector) for mode in (VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.SPARSE)]
        score: dict[str, float] = {}
        for ranked in lists:
            for rank, uid in enumerate(dict.fromkeys(ranked), 1):
                score[uid] = score.get(uid, 0.0) + 1 / (RRF_K + rank)
        return sorted(score, key=lambda uid: -score[uid])

    return {
        "llamaindex hybrid": lambda text, vector: ask(VectorStoreQueryMode.HYBRID, text, vector),
        "llamaindex hybrid, rrf": fused,
        "llamaindex vectors": lambda text, vector: ask(VectorStoreQueryMode.DEFAULT, text, vector),
    }


def plain_bm25(found: Leaves, tokens: Callable[[str, bool], list[str]]) -> Search:
    """`bm25s` over our leaves (k1 1.2, b 0.75, Lucene's form); a document counts by its best leaf."""
    index = bm25s.BM25(k1=1.2, b=0.75, method="lucene")
    index.index([tokens(text, False) or [""] for text in found.texts], show_progress=False)
    known = index.vocab_dict
    depth = min(4 * DEPTH, len(found.texts))

    def ask(text: str, vector: Sequence[float]) -> list[str]:
        wanted = [token for token in dict.fromkeys(tokens(text, True)) if token in known]
        if not wanted:
            return []
        numbers, scores = index.retrieve([wanted], k=depth, show_progress=False)
        return [found.documents[int(at)] for at, score in zip(numbers[0], scores[0], strict=True) if score > 0]

    return ask


def ours(text: str, query: bool) -> list[str]:
    """Our tokeniser's lexemes."""
    return query_lexemes(text) if query else [token.lexeme for token in tokenise(text)]


def theirs(text: str, query: bool) -> list[str]:
    """The tokeniser of `bm25s`: runs of two or more letters, without English stop words."""
    tokenised: Any = bm25s.tokenize([text], stopwords="en", return_ids=False, show_progress=False)
    return list(tokenised[0])


def measured(one: Ingested, search: Search, vectors: Matrix) -> dict[str, float]:
    """Mean measures of one way to search, and its milliseconds."""
    scores, times = [], []
    for row, vector in zip(one.chosen.queries, vectors, strict=True):
        began = time.perf_counter()
        ranked = search(row["text"], vector.tolist())
        times.append((time.perf_counter() - began) * 1000)
        scores.append(one.scores(ranked, row["id"]))
    means = np.mean(scores, axis=0)
    named = {name: round(float(value), 4) for name, value in zip(MEASURES, means, strict=True)}
    return {**named, "p50_ms": round(float(np.median(times)), 2)}


def compare(folder: Path, limit: int | None, stored: bool, kept: Path | None) -> dict[str, Any]:
    """All searches on one set."""
    one = ingested(folder, limit)
    found = leaves(one.base)
    passages, questions = vectors_of(one, found, [row["text"] for row in one.chosen.queries], stored, kept)

    def our_own(mode: Any) -> Search:
        def ask(text: str, vector: Sequence[float]) -> list[str]:
            request = RetrievalRequest(text, base_uids=(one.base.uid,), mode=mode, top_k=DEPTH, threshold=0.0)
            return [hit.document for hit in retrieve(one.principal, request).hits]

        return ask

    searches: dict[str, Search] = {f"archway {mode}": our_own(mode) for mode in MODES}
    searches |= llama_index(one, found, passages)
    searches |= {"bm25s, our tokens": plain_bm25(found, ours), "bm25s, its own tokens": plain_bm25(found, theirs)}
    rows = {name: measured(one, search, questions) for name, search in searches.items()}
    return {"set": one.chosen.name, "queries": len(one.chosen.queries), "leaves": len(found.ids), "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--stored", action="store_true")
    parser.add_argument("--vectors", type=Path)
    chosen = parser.parse_args()
    scratch(make=True)
    reports = []
    try:
        for folder in folders(chosen.folder, chosen.sets):
            report = compare(folder, chosen.limit, chosen.stored, chosen.vectors)
            reports.append(report)
            print(f"\n{report['set']}: {report['queries']} questions, {report['leaves']} leaves")
            for name, row in report["rows"].items():
                shown = "  ".join(f"{measure} {value:.3f}" for measure, value in row.items() if measure != "p50_ms")
                print(f"  {name:<24} {shown}  p50 {row['p50_ms']:.0f} ms", flush=True)
            if chosen.json:
                chosen.json.write_text(json.dumps(reports, indent=1), "utf-8")
    finally:
        scratch(make=False)


if __name__ == "__main__":
    main()
