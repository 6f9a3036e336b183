from __future__ import annotations

from dataclasses import replace

import pytest

from knowledge.retrieval import blend
from knowledge.retrieval.candidates import Candidate


def candidate(leaf: int, words: float, near: float | None, passage: int | None = None) -> Candidate:
    return Candidate(leaf, passage or leaf, 1, words=words * 10, words_share=words, cosine=near)


def test_the_weight_is_the_share_of_meaning() -> None:
    both = [candidate(1, 0.9, 0.1), candidate(2, 0.1, 0.9)]
    assert blend.convex(both, 0.0) == pytest.approx([0.9, 0.1])
    assert blend.convex(both, 1.0) == pytest.approx([0.1, 0.9])
    assert blend.convex(both, 0.5) == pytest.approx([0.5, 0.5])


def test_a_list_in_which_nothing_matches_well_has_no_say() -> None:
    scores = blend.convex([candidate(1, 0.05, 0.2), candidate(2, 0.0, 0.7)], 0.5)
    assert scores[1] > scores[0]


def test_a_leaf_in_another_language_has_at_least_the_share_expected_of_it() -> None:
    expected = replace(candidate(1, 0.1, 0.5), words_expected=0.4)
    assert blend.convex([expected], 0.5) == pytest.approx([0.45])
    assert blend.convex([replace(expected, words_expected=0.05)], 0.5) == pytest.approx([0.3])


def test_words_alone_count_where_the_model_is_away() -> None:
    assert blend.convex([candidate(1, 0.4, None)], 0.5) == [0.4]


def test_reciprocal_ranks_reward_standing_in_both_lists() -> None:
    scores = blend.reciprocal([candidate(1, 0.5, 0.5), candidate(2, 0.6, None), candidate(3, 0.0, 0.6)], 0.5)
    assert scores[0] == max(scores)
    assert scores[2] == pytest.approx(0.5 / 61)


def test_a_passage_counts_by_its_best_leaf_and_ties_go_to_the_earlier() -> None:
    ranked = blend.best_leaves(
        [candidate(1, 0.2, 0.2, 7), candidate(2, 0.9, 0.9, 7), candidate(3, 0.9, 0.9, 8)], [0.2, 0.9, 0.9]
    )
    assert [(item.candidate.leaf, item.score) for item in ranked] == [(2, 0.9), (3, 0.9)]
    assert blend.ranks([(7, 0.2), (8, 0.5), (7, 0.9)]) == {7: 1, 8: 2}


def test_identifiers_lean_on_words_unless_the_request_says_otherwise() -> None:
    assert blend.weight_for(None, 0.5, "identifier") < blend.weight_for(None, 0.5, "sentence")
    assert blend.weight_for(0.9, 0.5, "identifier") == 0.9
    assert blend.weight_for(None, 0.1, "identifier") == 0.0
