"""Which leaves are scored: those that hold enough of the query, and those in which a word is strong."""

from __future__ import annotations

import random
from itertools import combinations

import numpy as np
import pytest
from django.db import connection

from knowledge.retrieval import RetrievalRequest, word_plans, words
from knowledge.retrieval.permitted import resolve
from knowledge.text import query_lexemes
from tests.knowledge.retrieval.library import Library
from tests.knowledge.retrieval.test_words import VOCABULARY, corpus

LEXEMES = ("rare", "seldom", "often", "always")
IDFS = (6.0, 4.0, 2.0, 0.5)


def family(budget: int, frequencies: tuple[int, ...] = (100, 5_000, 40_000, 300_000)) -> word_plans.Family:
    return word_plans.conjunctions(LEXEMES, frequencies, IDFS, 1_000_000, budget)


def members(found: word_plans.Family) -> set[frozenset[str]]:
    every = [frozenset(one) for size in range(1, 5) for one in combinations(LEXEMES, size)]
    return {one for one in every if any(set(smallest) <= one for smallest in found.sets)}


def worth(one: frozenset[str]) -> float:
    return sum(dict(zip(LEXEMES, IDFS, strict=True))[lexeme] for lexeme in one)


@pytest.mark.parametrize("budget", [10, 150, 1_000, 6_000, 60_000, 2_000_000])
def test_no_set_outside_is_worth_more_than_one_inside(budget: int) -> None:
    found = family(budget)
    inside = members(found)
    every = {frozenset(one) for size in range(1, 5) for one in combinations(LEXEMES, size)}
    assert all(worth(one) >= worth(other) for one in inside for other in every - inside)
    largest = {frozenset(np.array(LEXEMES)[row > 0].tolist()) for row in found.missing}
    for one in every - inside:
        assert any(one <= other for other in largest)


def test_a_rare_word_is_worth_it_alone_and_common_ones_only_together() -> None:
    assert family(1_500).sets[0] == ("rare",)
    sets = family(60_000, (100_000, 150_000, 200_000, 250_000)).sets
    assert sets and all(len(one) >= 2 for one in sets)


def test_with_time_enough_every_leaf_that_matches_is_in() -> None:
    found = family(10_000_000)
    assert set(found.sets) == {(lexeme,) for lexeme in LEXEMES}
    assert not found.missing.any()


def test_strong_leaves_are_asked_for_where_a_word_is_too_common_to_score_all() -> None:
    found = word_plans.strong(LEXEMES, (100, 5_000, 40_000, 300_000), (0.0, 0.005, 0.04, 0.3), 75.0, 500, family(1_500))
    asked = {element.split(word_plans.TIER_MARK)[0] for element in found.elements}
    assert asked == {"seldom", "often"}
    # The rare one is scored whole; of the commonest even the highest tier holds too many.
    assert found.below[1] < found.below[2] < found.below[0] == found.below[3] == 1.0


def test_the_bound_of_longer_leaves_is_higher_and_of_shorter_ones_no_lower() -> None:
    below = np.array([0.55, 1.0])
    assert (word_plans.saturation_bound(below, 40.0) == below).all()
    longer = word_plans.saturation_bound(below, 150.0)
    assert longer[0] > 0.55 and longer[1] == 1.0


@pytest.mark.parametrize("seed", range(6))
def test_what_is_called_exact_is_what_scoring_everything_gives(
    library: Library, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    dice = random.Random(seed)
    texts = [f"{text} code{dice.randint(1, 25)}" for text in corpus(150, seed)]
    library.document(library.base("Manual"), "-", *texts)
    library.document(library.base("Other"), "-", *corpus(60, seed + 100))
    request = RetrievalRequest("x", mode="keywords")
    permitted = resolve(library.principal("alice"), request)
    monkeypatch.setattr(words, "SMALL", 0)
    monkeypatch.setattr(words, "LARGE", 0 if seed % 2 else 10_000)
    monkeypatch.setattr(words, "STRONG", 30)
    certain = 0
    for _ in range(12):
        chosen = [*dice.sample(VOCABULARY, dice.randint(1, 3)), f"code{dice.randint(1, 25)}"]
        query = words.prepare(permitted, query_lexemes(" ".join(chosen)))
        monkeypatch.setattr(words, "ROUNDS", (dice.randint(2, 30), dice.randint(30, 400)))
        detail: dict[str, object] = {}
        found = words.search(permitted, query, 5, detail)
        if detail["exact"]:
            certain += 1
            best = words.exhaustive(permitted, query, 5)
            assert [item.words_share for item in found] == pytest.approx([item.words_share for item in best])
    assert certain


def test_strong_leaves_come_from_their_index_and_are_never_computed(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    filler = " ".join(f"word{place} and more of it" for place in range(12))
    texts = [f"{'common ' if place % 20 == 0 else ''}{filler} {place}" for place in range(3_000)]
    library.document(library.base("Large"), "-", *texts, "common common common", "common")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE knowledge_chunk")
    monkeypatch.setattr(words, "SMALL", 0)
    monkeypatch.setattr(words, "ROUNDS", (10, 100))
    monkeypatch.setattr(words, "LARGE", 0)
    plans: list[str] = []

    def explain(execute, sql, params, many, context):  # type: ignore[no-untyped-def]
        with connection.cursor() as cursor:
            cursor.cursor.execute("EXPLAIN " + sql, params)
            plans.extend(row[0] for row in cursor.cursor.fetchall())
        return execute(sql, params, many, context)

    permitted = resolve(library.principal("alice"), RetrievalRequest("common", mode="keywords"))
    query = words.prepare(permitted, query_lexemes("common"))
    detail: dict[str, object] = {}
    with connection.execute_wrapper(explain):
        found = words.search(permitted, query, 2, detail)
    assert [item.words for item in found] == [item.words for item in words.exhaustive(permitted, query, 2)]
    assert detail["strong"] == ["common"]
    assert any("Bitmap Index Scan on chunk_strong" in line for line in plans), "\n".join(plans)
    assert not any("Filter" in line and "knowledge_strong" in line for line in plans)


def test_a_word_that_stands_everywhere_still_finds_leaves(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    filler = "text that goes on and on for a while, number after number"
    library.document(library.base("Large"), "-", *[f"common plain {filler} {place}" for place in range(200)])
    monkeypatch.setattr(words, "SMALL", 0)
    monkeypatch.setattr(words, "ROUNDS", (10, 20))
    permitted = resolve(library.principal("alice"), RetrievalRequest("x", mode="keywords"))
    for text in ("common", "common plain"):
        query = words.prepare(permitted, query_lexemes(text))
        detail: dict[str, object] = {}
        assert len(words.search(permitted, query, 10, detail)) == 10
        assert detail["exact"] is False
