from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from knowledge.models import Chunk, KnowledgeBase
from knowledge.retrieval import RetrievalRequest, retrieve
from knowledge.retrieval.candidates import Candidate
from knowledge.retrieval.relevance import relevance
from knowledge.retrieval.search import search
from knowledge.retrieval.trace import Trace
from knowledge.retrieval.vectors import Asked
from portal.gateway.models import EmbeddingSpace, ModelEndpoint
from tests.knowledge.retrieval.library import Library, make_endpoint, make_space, unit

# Each text with its vector; the question's vector is (1, 0).
ENGLISH_ANSWER = ("How long the batteries of the drill last", (0.7, 0.7))
CHINESE_ANSWER = ("电钻的电池可以用多久", (0.68, 0.72))
ENGLISH_NEAR = ("How long do the shelves last", (0.5, 0.87))
CHINESE_NEAR = ("货架可以用多久", (0.5, 0.87))
CHINESE_FAR = ("仓库里的货架在哪里", (0.05, 1.0))
QUESTION = "how long do the batteries last"


@pytest.fixture
def space() -> EmbeddingSpace:
    return make_space("languages", 2)


def base_of(library: Library, space: EmbeddingSpace, *rows: tuple[str, tuple[float, float]]) -> KnowledgeBase:
    base = library.base("Tools", embedding=make_endpoint(space))
    for place, (text, vector) in enumerate(rows):
        library.document(base, f"{place}.txt", text, space=space, vectors=unit(np.array([vector])))
    return base


def asked(library: Library, base: KnowledgeBase, space: EmbeddingSpace, query: str) -> list[str]:
    def embed(endpoint: ModelEndpoint, text: str) -> Asked:
        return Asked(space, np.array([1.0, 0.0], dtype=np.float32))

    request = RetrievalRequest(query, base_uids=(base.uid,), mode="blend")
    return [hit.text for hit in retrieve(library.principal("alice"), request, embed).hits]


def expected_of(library: Library, base: KnowledgeBase, space: EmbeddingSpace, query: str) -> dict[str, float]:
    """What is expected of each leaf's words, by its text."""
    request = RetrievalRequest(query, base_uids=(base.uid,), mode="blend")
    found = search(
        library.principal("alice"),
        request,
        Trace(),
        lambda endpoint, text: Asked(space, np.array([1.0, 0.0], dtype=np.float32)),
    )
    texts = dict(Chunk.objects.values_list("pk", "text"))
    return {texts[item.leaf]: item.words_expected for item in found.candidates}


@pytest.mark.parametrize("query", [QUESTION, "电池可以用多久"])
def test_an_answer_in_the_other_language_stands_before_what_merely_shares_words(
    library: Library, space: EmbeddingSpace, query: str
) -> None:
    base = base_of(library, space, ENGLISH_ANSWER, CHINESE_ANSWER, ENGLISH_NEAR, CHINESE_NEAR)

    assert set(asked(library, base, space, query)[:2]) == {ENGLISH_ANSWER[0], CHINESE_ANSWER[0]}


def test_what_is_expected_follows_the_nearest_leaf_in_the_language_of_the_question(
    library: Library, space: EmbeddingSpace
) -> None:
    base = base_of(library, space, ENGLISH_ANSWER, CHINESE_ANSWER, ENGLISH_NEAR, CHINESE_FAR)

    expected = expected_of(library, base, space, QUESTION)

    assert expected[CHINESE_ANSWER[0]] > expected[CHINESE_FAR[0]] > 0
    assert expected[ENGLISH_ANSWER[0]] == expected[ENGLISH_NEAR[0]] == 0


def test_nothing_is_expected_in_a_base_of_one_language(library: Library, space: EmbeddingSpace) -> None:
    base = base_of(library, space, CHINESE_ANSWER, CHINESE_FAR)

    assert set(expected_of(library, base, space, QUESTION).values()) == {0.0}


def test_a_code_stands_in_every_language_so_nothing_is_expected(library: Library, space: EmbeddingSpace) -> None:
    base = base_of(library, space, ENGLISH_ANSWER, CHINESE_ANSWER, ("Parts of the DR-1204", (0.1, 1.0)))

    assert set(expected_of(library, base, space, "DR-1204").values()) == {0.0}
    assert asked(library, base, space, "DR-1204")[0] == "Parts of the DR-1204"


def test_what_is_expected_orders_and_makes_nothing_more_relevant() -> None:
    found = Candidate(1, 1, 1, words=0.0, words_share=0.0, cosine=0.4, words_expected=0.9)

    assert relevance(found, "blend", None) == relevance(replace(found, words_expected=0.0), "blend", None)
