from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from knowledge.retrieval import RetrievalRequest, retrieve
from knowledge.retrieval.contract import RetrievalResult
from tests.knowledge.retrieval.library import Library, make_space, unit

LEAVE = ["annual leave is 25 days", "annual leave is 25 days a year", "annual leave is 25 days every year"]
CARRY = "annual leave: unused days lapse in March, says the works council"


def _texts(result: RetrievalResult) -> list[str]:
    return [hit.text for hit in result.hits]


def _step(result: RetrievalResult) -> dict[str, Any] | None:
    found = [step["detail"] for step in result.trace["steps"] if step["name"] == "diversify"]
    return found[0] if found else None


def test_without_diversity_nothing_is_reordered_and_no_step_is_taken(library: Library) -> None:
    base = library.base("Leave")
    library.document(base, "-", *LEAVE, CARRY)
    result = retrieve(library.principal("bob"), RetrievalRequest("annual leave 25 days", mode="keywords"))
    assert _texts(result)[-1] == CARRY and _step(result) is None


def test_a_passage_that_says_something_else_comes_before_what_repeats_the_first(library: Library) -> None:
    base = library.base("Leave")
    library.document(base, "-", *LEAVE, CARRY)
    asked = RetrievalRequest("annual leave 25 days", mode="keywords", diversity=0.7, top_k=2)
    result = retrieve(library.principal("bob"), asked)
    assert _texts(result) == [LEAVE[0], CARRY]
    step = _step(result)
    assert step is not None and step["compared_by"] == "text" and step["candidates"] == 4
    assert {"passage": result.hits[1].chunk, "from": 4, "to": 2} in step["moved"]


def test_vectors_tell_likeness_where_they_stand_in_one_space(library: Library) -> None:
    space = make_space()
    base = library.base("Vectors")
    rows = unit(np.eye(8)[[0, 0, 0, 5]] + 0.01 * np.eye(8)[[1, 2, 3, 4]])
    texts = ["pump one hot", "pump two cold", "pump three wet", "pump one hot dry old"]
    library.document(base, "-", *texts, space=space, vectors=rows)
    result = retrieve(library.principal("bob"), RetrievalRequest("pump", mode="keywords", diversity=0.9))
    assert _texts(result)[1] == texts[3]
    step = _step(result)
    assert step is not None and step["compared_by"] == "vectors"


def test_passages_of_different_spaces_are_compared_by_their_text(library: Library) -> None:
    base = library.base("Mixed")
    for name, texts in (("a", LEAVE[:2]), ("b", [LEAVE[2], CARRY])):
        space = make_space(name)
        library.document(base, name, *texts, space=space, vectors=unit(np.eye(8)[[0, 1]] + 0.1))
    asked = RetrievalRequest("annual leave 25 days", mode="keywords", diversity=0.7)
    step = _step(retrieve(library.principal("bob"), asked))
    assert step is not None and step["compared_by"] == "vectors and text"


def test_the_base_says_how_different_and_the_request_may_say_otherwise(library: Library) -> None:
    base = library.base("Leave", config={"searching": {"mode": "keywords", "diversity": 0.7, "top_k": 2}})
    library.document(base, "-", *LEAVE, CARRY)
    bob = library.principal("bob")
    assert CARRY in _texts(retrieve(bob, RetrievalRequest("annual leave 25 days")))
    assert CARRY not in _texts(retrieve(bob, RetrievalRequest("annual leave 25 days", diversity=0.0)))


@pytest.mark.parametrize("diversity", [0.01, 0.5, 1.0])
def test_the_first_stays_first_and_the_same_passages_come_back(library: Library, diversity: float) -> None:
    base = library.base("Leave")
    library.document(base, "-", *LEAVE, CARRY, "leave", "😀 annual", "an")
    bob = library.principal("bob")
    plain = _texts(retrieve(bob, RetrievalRequest("annual leave 25 days", mode="keywords", diversity=0.0)))
    other = _texts(retrieve(bob, RetrievalRequest("annual leave 25 days", mode="keywords", diversity=diversity)))
    assert other[0] == plain[0]
    if len(plain) < 5:
        assert sorted(other) == sorted(plain)


def test_what_is_below_the_threshold_is_not_brought_back_by_being_different(library: Library) -> None:
    base = library.base("Leave")
    library.document(base, "-", *LEAVE, "leave the keys at the gate, please, when you go home in the evening")
    asked = RetrievalRequest("annual leave 25 days", mode="keywords", diversity=1.0, threshold=0.5)
    assert all("annual" in text for text in _texts(retrieve(library.principal("bob"), asked)))


def test_only_the_best_of_a_long_ranking_are_looked_at_and_the_rest_follows(library: Library) -> None:
    base = library.base("Long")
    library.document(base, "-", *[f"pump {place} " + f"word{place % 7} of the manual, " * 3 for place in range(60)])
    asked = RetrievalRequest("pump", mode="keywords", diversity=0.5, top_k=10)
    result = retrieve(library.principal("bob"), asked)
    step = _step(result)
    assert step is not None and step["candidates"] == 50 and len(result.hits) == 10
    assert len({hit.text.split()[2] for hit in result.hits}) == 7
