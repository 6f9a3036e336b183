"""Models of thousands of dimensions: more than a graph holds, and more than a page of the database."""

from __future__ import annotations

import numpy as np
import pytest

from knowledge.retrieval import RetrievalRequest, graphs, vectors
from knowledge.retrieval.permitted import resolve
from knowledge.retrieval.vectors import Asked
from portal.gateway.models import EmbeddingSpace
from tests.knowledge.retrieval.library import Library, make_space, unit


@pytest.mark.parametrize("width", [3_072, 4_096, 8_192])
@pytest.mark.parametrize("plan", ["exact", "binary"])
def test_vectors_of_a_wide_model_are_kept_and_found(library: Library, width: int, plan: vectors.Plan) -> None:
    points = unit(np.random.default_rng(3).normal(size=(20, width)))
    space = make_space(dimensions=width)
    library.document(library.base("Manual"), "a", *[f"text {n}" for n in range(20)], space=space, vectors=points)
    permitted = resolve(library.principal("alice"), RetrievalRequest("x"))
    best, *_ = vectors.search(permitted, Asked(space, points[7]), 5, {}, plan=plan)
    assert best.cosine == pytest.approx(1.0, abs=2e-3)


def test_no_graph_is_asked_of_the_database_that_it_can_not_build() -> None:
    many = 10 * graphs.BUILD_AT
    assert graphs.wanted(of_width(graphs.WIDEST), many, None) == "build"
    assert graphs.wanted(of_width(graphs.WIDEST + 1), many, None) == "none"


def of_width(width: int) -> EmbeddingSpace:
    return EmbeddingSpace(key="x", dimensions=width)
