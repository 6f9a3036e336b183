"""Retrieval quality of words alone: bm25s over our tokens, on sets of `corpus.jsonl`, `queries.jsonl`, `qrels.tsv`.

    python tests/bench/tokeniser_quality.py FOLDER [SET …]

FOLDER holds one folder per set. When it also holds `BASELINE.md`, its "words" column is printed beside ours.
"""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import bm25s
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from knowledge.text import query_lexemes, tokenise

Scores = tuple[float, float, float]


def read_rows(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]


def read_judgements(path: Path) -> dict[str, dict[str, int]]:
    judged: dict[str, dict[str, int]] = defaultdict(dict)
    for line in path.read_text("utf-8").splitlines():
        query, document, grade = line.split("\t")
        judged[query][document] = int(grade)
    return judged


def score(ranked: list[str], relevant: dict[str, int]) -> Scores:
    """(nDCG@10, MRR@10, recall@10) of one ranking."""
    gains = [relevant.get(name, 0) for name in ranked[:10]]
    ideal = sorted(relevant.values(), reverse=True)[:10]
    dcg = sum(gain / math.log2(rank + 2) for rank, gain in enumerate(gains))
    best = sum(gain / math.log2(rank + 2) for rank, gain in enumerate(ideal))
    first = next((1 / (rank + 1) for rank, gain in enumerate(gains) if gain), 0.0)
    return dcg / best, first, sum(1 for gain in gains if gain) / len(relevant)


def evaluate(
    folder: Path,
    of_document: Callable[[str], list[str]],
    of_query: Callable[[str], list[str]],
) -> tuple[Scores, dict[str, float]]:
    """Mean scores over the set's judged queries, and what it took."""
    corpus = read_rows(folder / "corpus.jsonl")
    judged = read_judgements(folder / "qrels.tsv")
    texts = [f"{row['title']}\n{row['text']}" for row in corpus]
    began = time.perf_counter()
    tokens = [of_document(text) for text in texts]
    seconds = time.perf_counter() - began
    index = bm25s.BM25(k1=1.2, b=0.75)
    index.index(tokens, show_progress=False)
    results = []
    for row in read_rows(folder / "queries.jsonl"):
        if row["id"] not in judged:
            continue
        known = [lexeme for lexeme in of_query(row["text"]) if lexeme in index.vocab_dict]
        if not known:
            results.append((0.0, 0.0, 0.0))
            continue
        scores = index.get_scores(known)
        order = np.argsort(-scores, kind="stable")[:10]
        results.append(score([corpus[i]["id"] for i in order if scores[i] > 0], judged[row["id"]]))
    mean = np.array(results).mean(axis=0)
    cost = {
        "chars_per_second": sum(map(len, texts)) / seconds,
        "lexemes_per_char": sum(map(len, tokens)) / sum(map(len, texts)),
    }
    return (float(mean[0]), float(mean[1]), float(mean[2])), cost


def read_baseline(folder: Path) -> dict[str, Scores]:
    path = folder / "BASELINE.md"
    found: dict[str, Scores] = {}
    for line in path.read_text("utf-8").splitlines() if path.is_file() else []:
        match = re.match(r"\| (\w+) \| \d+ \| ([\d.]+) / ([\d.]+) / ([\d.]+) \|", line)
        if match:
            found[match[1]] = (float(match[2]), float(match[3]), float(match[4]))
    return found


def main() -> None:
    folder = Path(sys.argv[1])
    wanted = set(sys.argv[2:])
    baseline = read_baseline(folder)
    print(f"{'set':28} {'nDCG@10':>8} {'base':>6} {'diff':>7} {'MRR@10':>7} {'R@10':>6} {'chars/s':>9} {'lex/char':>8}")
    for name in sorted(path.parent.name for path in folder.glob("*/corpus.jsonl")):
        if wanted and name not in wanted:
            continue
        (ndcg, mrr, recall), cost = evaluate(
            folder / name,
            lambda text: [token.lexeme for token in tokenise(text)],
            query_lexemes,
        )
        before = baseline.get(name, (math.nan,) * 3)[0]
        print(
            f"{name:28} {ndcg:8.3f} {before:6.3f} {ndcg - before:+7.3f} {mrr:7.3f} {recall:6.3f} "
            f"{cost['chars_per_second']:9.0f} {cost['lexemes_per_char']:8.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
