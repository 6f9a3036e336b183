"""How quick and how complete searches are in a large library, for askers who may see more or less of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db import connection

from knowledge.bench import loading, plain
from knowledge.bench.database import Backend, own_database, read_through
from knowledge.bench.exact import ExactScan
from knowledge.bench.questions import Question, questions
from knowledge.retrieval import MODES, Filters, Mode, RetrievalRequest, graphs, retrieve, vectors, words
from knowledge.retrieval.permitted import Permitted, resolve
from knowledge.retrieval.vectors import Asked
from knowledge.text import query_lexemes
from portal.gateway.models import ModelEndpoint
from portal.kernel.principal import Principal

POOL = 100
# Of so many questions the plain statements and the exact ranking by words are asked: they take seconds each.
FEW = 8
# Milliseconds (p95) up to so many chunks; questions of common words alone apart.
BARS = ((100_000, 50), (1_000_000, 150))
BAR_COMMON = 400
BAR_RECALL = 0.98
BAR_RATIO = 20

Report = Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class View:
    """An asker with a share of the library: by grants on whole bases, or by a tag on scattered documents."""

    layout: str
    share: float
    principal: Principal
    filters: Filters

    def request(self, text: str, mode: Mode | None = None) -> RetrievalRequest:
        return RetrievalRequest(text, mode=mode, filters=self.filters)


def run(
    *, chunks: int, asked: int = 24, keep: bool = False, report: Report = lambda what, done: None
) -> dict[str, Any]:
    """Load a library of `chunks` leaves into a database of its own (or use the one kept), and measure searches."""
    with own_database(f"archway_bench_{chunks}", keep=keep) as fresh:
        built = loading.load(chunks, report=lambda done: report("load", done)) if fresh else {}
        graph = [row for row in graphs.keep() if row.action in {"build", "rebuild"}]
        if graph:
            built["index vector_graph"] = graph[0].seconds
        measured = _measure(asked, report)
        return {
            "chunks": chunks,
            "machine": _machine(),
            "build_seconds": built,
            "sizes_mb": _sizes(),
            **measured,
            "bars": _bars(chunks, measured),
        }


def _measure(asked: int, report: Report) -> dict[str, Any]:
    typical = questions(asked)
    common = questions(asked // 2, kinds=("common",))
    truth = ExactScan(loading.synthetic_space(), typical)
    read_through()
    cells: list[dict[str, Any]] = []
    for number, view in enumerate(_views()):
        report("ask", number)
        cells += [{**row, "common_words": False} for row in _cells(view, typical, truth)]
        if view.share in {0.05, 0.3, 1.0}:
            cells += [{**row, "common_words": True} for row in _cells(view, common, None)]
    everything = resolve(loading.asker(), RetrievalRequest(""))
    slow = plain.milliseconds(everything, typical[:FEW])
    slow_common = plain.milliseconds(everything, common[:FEW])
    return {
        "cells": cells,
        "words_recall_at_10": _words_recall(everything, typical[:FEW]),
        "plain_sql_ms": slow,
        "plain_sql_common_words_ms": slow_common,
        "times_faster": _times_faster(cells, slow, common=False),
        "times_faster_common_words": _times_faster(cells, slow_common, common=True),
    }


def _times_faster(cells: Sequence[dict[str, Any]], slow: dict[str, float], *, common: bool) -> dict[str, float]:
    """Medians of the plain statements over those of the asker who sees everything."""
    own = {
        row["mode"]: row["p50_ms"]
        for row in cells
        if row["share"] == 1 and row["layout"] == "bases" and row["common_words"] == common
    }
    return {mode: round(slow[mode] / own[mode], 1) for mode in slow}


def _views() -> list[View]:
    owner = loading.asker()
    by_bases = [View("bases", share, loading.asker(share), Filters()) for share in loading.SHARES]
    scattered = [
        View("scattered", share, owner, Filters(tags=(loading.tag_of(share),))) for share in loading.SHARES if share < 1
    ]
    return by_bases + scattered


def _cells(view: View, asked: Sequence[Question], truth: ExactScan | None) -> list[dict[str, Any]]:
    permitted = resolve(view.principal, view.request(""))
    if not permitted.leaves:  # a small library has no base so small
        return []
    rows = []
    for mode in MODES:
        times, busy, plans = _times(view, asked, mode)
        p50, p95 = np.percentile(times, [50, 95])
        rows.append({
            "layout": view.layout, "share": view.share, "leaves": permitted.leaves, "mode": mode,
            "p50_ms": round(float(p50), 1), "p95_ms": round(float(p95), 1),
            "p95_cpu_ms": round(float(np.percentile(busy, 95)), 1), "plans": plans,
        })  # fmt: skip
    if truth is not None:
        mask = truth.permitted(permitted)
        space = loading.synthetic_space()
        recalls = [
            truth.recall(place, mask, vectors.search(permitted, Asked(space, question.vector), POOL, {}))
            for place, question in enumerate(asked)
        ]
        next(row for row in rows if row["mode"] == "embedding")["recall_at_10"] = round(float(np.mean(recalls)), 4)
    return rows


def _times(view: View, asked: Sequence[Question], mode: Mode) -> tuple[list[float], list[float], dict[str, int]]:
    """Milliseconds of whole retrievals, the query's own embedding left out, and how often each plan was taken.

    The second list holds the milliseconds that the processors were at it, in this process and in the
    database's: what would pass on a machine with nothing else to do.
    """
    space = loading.synthetic_space()
    times: list[float] = []
    busy: list[float] = []
    plans: dict[str, int] = {}
    backend = Backend()
    for warm, question in [(True, asked[0]), *((False, question) for question in asked)]:

        def embed(endpoint: ModelEndpoint, query: str, question: Question = question) -> Asked:
            return Asked(space, question.vector)

        cpu, began = backend.milliseconds(), time.perf_counter()
        result = retrieve(view.principal, view.request(question.text, mode), embed)
        if not warm:
            times.append((time.perf_counter() - began) * 1000)
            busy.append(backend.milliseconds() - cpu)
            for step in result.trace["steps"]:
                if plan := step["detail"].get("plan"):
                    known = plan if "exact" not in step["detail"] else f"{plan}, exact: {step['detail']['exact']}"
                    plans[known] = plans.get(known, 0) + 1
    return times, busy, plans


def _words_recall(permitted: Permitted, asked: Sequence[Question]) -> float:
    """Of the ten best leaves by BM25 over all leaves, the share that the search by words finds among its first ten."""
    recalls = []
    for question in asked:
        query = words.prepare(permitted, query_lexemes(question.text))
        best = words.exhaustive(permitted, query, 10)
        found = words.search(permitted, query, POOL, {})[:10]
        if best:
            least = (best[-1].words_share or 0.0) - 1e-9
            recalls.append(min(sum((item.words_share or 0.0) >= least for item in found) / len(best), 1.0))
    return round(float(np.mean(recalls)), 4)


def _bars(chunks: int, measured: dict[str, Any]) -> dict[str, Any]:
    """What was asked for and whether it holds."""
    bar = next((limit for size, limit in BARS if chunks <= size), BARS[-1][1])
    worst = {
        common: max((row["p95_ms"] for row in measured["cells"] if row["common_words"] == common), default=0.0)
        for common in (False, True)
    }
    recall = min(row["recall_at_10"] for row in measured["cells"] if "recall_at_10" in row)
    return {
        "p95_ms": {"bar": bar, "worst": worst[False], "met": worst[False] <= bar},
        "p95_ms_common_words": {"bar": BAR_COMMON, "worst": worst[True], "met": worst[True] <= BAR_COMMON},
        "recall_at_10": {"bar": BAR_RECALL, "worst": recall, "met": recall >= BAR_RECALL},
        "times_faster": {
            "bar": BAR_RATIO,
            "worst": min(measured["times_faster"].values()),
            "met": min(measured["times_faster"].values()) >= BAR_RATIO,
        },
    }


def _sizes() -> dict[str, float]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname, pg_relation_size(c.oid) / 1048576.0 FROM pg_class c WHERE c.relname LIKE 'knowledge_%%' "
            "OR c.relname LIKE 'chunk_%%' OR c.relname LIKE 'vector_%%' OR c.relname LIKE 'document_%%'"
        )
        return {name: round(float(size), 1) for name, size in sorted(cursor.fetchall()) if size >= 1}


def _machine() -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('server_version'), current_setting('shared_buffers'), "
            "(SELECT extversion FROM pg_extension WHERE extname = 'vector')"
        )
        version, buffers, vector = cursor.fetchone()
    return {"cores": os.cpu_count(), "postgresql": version, "pgvector": vector, "shared_buffers": buffers,
            "load": round(os.getloadavg()[0], 1)}  # fmt: skip
