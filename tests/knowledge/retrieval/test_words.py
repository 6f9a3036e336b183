from __future__ import annotations

import math
import random

import pytest
from django.db import connection

from knowledge import statistics
from knowledge.models import Chunk
from knowledge.retrieval import RetrievalRequest, retrieve, words
from knowledge.retrieval.permitted import resolve
from knowledge.text import query_lexemes, tokenise
from tests.knowledge.retrieval.library import Library

VOCABULARY = ["报销", "流程", "年假", "审批", "system", "error", "E-1024", "模块", "password", "reset", "的", "手册"]


def corpus(count: int, seed: int = 1) -> list[str]:
    dice = random.Random(seed)
    return [" ".join(dice.choices(VOCABULARY, k=dice.randint(3, 40))) for _ in range(count)]


def reference(texts: list[str], query: str) -> list[float]:
    """Plain BM25 over the same tokens, written out."""
    tokens = [[token.lexeme for token in tokenise(text)] for text in texts]
    average = sum(map(len, tokens)) / len(tokens)
    scores = [0.0] * len(texts)
    for lexeme in query_lexemes(query):
        holders = sum(lexeme in row for row in tokens)
        idf = math.log(1 + (len(texts) - holders + 0.5) / (holders + 0.5))
        for place, row in enumerate(tokens):
            count = row.count(lexeme)
            scores[place] += idf * count / (count + 1.2 * (0.25 + 0.75 * len(row) / average))
    return scores


def searched(library: Library, query: str, k: int = 100) -> tuple[list[tuple[str, float]], dict[str, object]]:
    request = RetrievalRequest(query, mode="keywords")
    permitted = resolve(library.principal("alice"), request)
    detail: dict[str, object] = {}
    found = words.search(permitted, words.prepare(permitted, query_lexemes(query)), k, detail)
    texts = dict(Chunk.objects.filter(pk__in=[item.leaf for item in found]).values_list("pk", "text"))
    return [(texts[item.leaf], item.words or 0.0) for item in found], detail


@pytest.mark.parametrize("query", ["E-1024 报销流程", "password reset error", "的 system", "年假"])
@pytest.mark.parametrize("plan", ["all", "index"])
def test_scores_equal_plain_bm25(library: Library, query: str, plan: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if plan == "index":
        monkeypatch.setattr(words, "SMALL", 0)
    texts = corpus(60)
    # The name has no lexeme of its own, so that a leaf is its text alone.
    library.document(library.base("Manual"), "-", *texts)
    wanted = sorted((score for score in reference(texts, query) if score > 0), reverse=True)
    found, detail = searched(library, query)
    assert [score for _, score in found] == pytest.approx(wanted, rel=1e-6)
    expected = dict(zip(texts, reference(texts, query), strict=True))
    for text, score in found:
        assert score == pytest.approx(expected[text], rel=1e-6)
    assert detail["exact"] is True


def test_rarest_lexemes_choose_the_candidates_and_the_best_are_the_same(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [*corpus(80), "password reset E-1024 手册", "zebra 报销"]
    library.document(library.base("Manual"), "-", *texts)
    every, _ = searched(library, "zebra 报销 流程", k=1)
    monkeypatch.setattr(words, "SMALL", 0)
    monkeypatch.setattr(words, "ROUNDS", (4, 60))
    few, detail = searched(library, "zebra 报销 流程", k=1)
    assert few == every
    assert detail["candidates_from"] == ["zebra"] and detail["exact"] is True


def test_an_unsettled_first_round_is_widened(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = corpus(80)
    library.document(library.base("Manual"), "-", *texts)
    every, _ = searched(library, "E-1024 年假 报销", k=20)
    monkeypatch.setattr(words, "SMALL", 0)
    monkeypatch.setattr(words, "ROUNDS", (1, 100_000))
    widened, detail = searched(library, "E-1024 年假 报销", k=20)
    assert [score for _, score in widened] == pytest.approx([score for _, score in every])
    assert detail["exact"] is True


def test_each_base_weighs_words_by_its_own_statistics(library: Library) -> None:
    library.document(library.base("Zoo"), "-", *(["zebra stripes"] * 5 + ["lion"] * 5))
    library.document(library.base("Office"), "-", *(["stapler"] * 9 + ["zebra printer"]))
    request = RetrievalRequest("zebra", mode="keywords")
    permitted = resolve(library.principal("alice"), request)
    query = words.prepare(permitted, ["zebra"])
    zoo, office = permitted.base_ids
    assert query.idf(zoo, "zebra") == pytest.approx(math.log(1 + 5.5 / 5.5))
    assert query.idf(office, "zebra") == pytest.approx(math.log(1 + 9.5 / 1.5))


def test_a_completed_score_is_the_searched_one(library: Library) -> None:
    texts = corpus(30)
    library.document(library.base("Manual"), "-", *texts)
    request = RetrievalRequest("E-1024 报销", mode="keywords")
    permitted = resolve(library.principal("alice"), request)
    query = words.prepare(permitted, query_lexemes("E-1024 报销"))
    found = words.search(permitted, query, 100, {})
    from dataclasses import replace

    bare = [replace(item, words=None, words_share=None) for item in found]
    assert [item.words for item in words.complete(query, bare)] == pytest.approx([item.words for item in found])


def test_large_bases_are_searched_through_the_gin_index(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "SMALL", 0)
    base = library.base("Large")
    library.document(base, "-", *[f"filler number{place} text" for place in range(3000)], "needle in the stack")
    statistics.fold_all()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE knowledge_chunk")
    permitted = resolve(library.principal("alice"), RetrievalRequest("needle", mode="keywords"))
    query = words.prepare(permitted, query_lexemes("needle"))
    plans: list[str] = []

    def explain(execute, sql, params, many, context):  # type: ignore[no-untyped-def]
        with connection.cursor() as cursor:
            cursor.cursor.execute("EXPLAIN " + sql, params)
            plans.extend(row[0] for row in cursor.cursor.fetchall())
        return execute(sql, params, many, context)

    with connection.execute_wrapper(explain):
        found = words.search(permitted, query, 5, {})
    assert len(found) == 1
    assert any("chunk_lexemes" in line for line in plans)


def test_chatty_questions_find_what_one_of_their_words_names(library: Library) -> None:
    library.document(library.base("Help"), "a", "重置密码步骤：打开设置", "安全策略", "部署指南")
    hits = retrieve(library.principal("bob"), RetrievalRequest("请问怎么重置密码", mode="keywords")).hits
    assert hits[0].text.startswith("重置密码步骤")
    assert hits[0].highlights
