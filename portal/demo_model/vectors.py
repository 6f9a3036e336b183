"""Embeddings and rerank scores by rule: texts that share words are near each other, and nothing else is."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from portal.demo_model.prompts import overlap, text_of, tokens_of

DIMENSIONS = 64


def embedding(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """A unit vector: each token adds one at a place that its hash names."""
    row = [0.0] * dimensions
    for token in tokens_of(text.lower()):
        number = int.from_bytes(hashlib.blake2s(token.strip().encode()).digest()[:8])
        row[number % dimensions] += 1.0 if number & (1 << 40) else -1.0
    if not any(row):
        row[0] = 1.0
    length = math.sqrt(sum(value * value for value in row))
    return [value / length for value in row]


def openai_embeddings(body: Mapping[str, Any], model: str) -> dict[str, Any]:
    given = body["input"]
    texts = [given] if isinstance(given, str) else list(given)
    width = int(body.get("dimensions") or DIMENSIONS)
    rows = [
        {"object": "embedding", "index": index, "embedding": embedding(text, width)} for index, text in enumerate(texts)
    ]
    used = sum(len(tokens_of(text)) for text in texts)
    return {"object": "list", "data": rows, "model": model, "usage": {"prompt_tokens": used, "total_tokens": used}}


def gemini_embeddings(body: Mapping[str, Any]) -> dict[str, Any]:
    """`batchEmbedContents`."""
    texts = [text_of(request["content"]) for request in body["requests"]]
    return {"embeddings": [{"values": embedding(text)} for text in texts]}


def ranked(body: Mapping[str, Any]) -> dict[str, Any]:
    """Cohere's, Jina's, vLLM's and Xinference's answer to `POST /rerank`: best first, scores 0 to 1."""
    texts = [text_of(document) for document in body["documents"]]
    rows = _ranking(str(body["query"]), texts)[: body.get("top_n") or len(texts)]
    results: list[dict[str, Any]] = [{"index": index, "relevance_score": score} for index, score in rows]
    if body.get("return_documents"):
        results = [{**row, "document": {"text": texts[row["index"]]}} for row in results]
    used = sum(len(tokens_of(text)) for text in texts)
    meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
    return {"id": "rerank-demo", "results": results, "meta": meta, "usage": {"total_tokens": used}}


def ranked_by_tei(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Text Embeddings Inference's answer: a bare list."""
    return [{"index": index, "score": score} for index, score in _ranking(str(body["query"]), body["texts"])]


def _ranking(query: str, texts: Sequence[str]) -> list[tuple[int, float]]:
    scores = [(index, round(overlap(query, text), 6)) for index, text in enumerate(texts)]
    return sorted(scores, key=lambda row: (-row[1], row[0]))
