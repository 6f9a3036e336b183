from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from django.db import connection

from knowledge.models import Chunk, ChunkVector, KnowledgeBase
from knowledge.retrieval import RetrievalRequest, graphs, vectors
from knowledge.retrieval.candidates import Candidate
from knowledge.retrieval.permitted import Permitted, SearchedBase, resolve
from knowledge.retrieval.vectors import Asked, Vector
from portal.gateway.models import EmbeddingSpace
from tests.knowledge.retrieval.library import Library, make_space, unit

WIDTH = 64


def clustered(count: int, seed: int) -> Vector:
    """Unit vectors around a few centres, which stand around the origin as those of a centred model do."""
    dice = np.random.default_rng(seed)
    centres = dice.normal(size=(8, WIDTH))
    return unit(centres[dice.integers(0, 8, count)] + 0.6 * dice.normal(size=(count, WIDTH)))


@pytest.fixture
def space(db: None) -> EmbeddingSpace:
    return make_space(dimensions=WIDTH)


@pytest.fixture
def filled(library: Library, space: EmbeddingSpace) -> tuple[KnowledgeBase, Vector]:
    base = library.base("Manual")
    points = clustered(600, 11)
    library.document(base, "a", *[f"text {place}" for place in range(600)], space=space, vectors=points)
    return base, points


def permitted_for(library: Library, who: str = "alice") -> Permitted:
    return resolve(library.principal(who), RetrievalRequest("x"))


def nearest(points: Vector, query: Vector, k: int) -> list[str]:
    return [f"text {place}" for place in np.argsort(-(points @ query), kind="stable")[:k]]


def texts(found: list[Candidate]) -> list[str]:
    by_id = dict(Chunk.objects.filter(pk__in=[item.leaf for item in found]).values_list("pk", "text"))
    return [by_id[item.leaf] for item in found]


@pytest.mark.parametrize("plan", ["exact", "binary", "hnsw"])
def test_each_plan_finds_the_nearest(
    library: Library, space: EmbeddingSpace, filled: tuple[KnowledgeBase, Vector], plan: vectors.Plan
) -> None:
    _, points = filled
    if plan == "hnsw":
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute(
                f"CREATE INDEX {graphs.graph_name(space)} ON knowledge_chunkvector USING hnsw "
                f"((halfvec::halfvec({WIDTH})) halfvec_ip_ops) WHERE space_id = {space.pk}"
            )
        built = graphs.graph(space)
        assert built is not None and built.valid
    hits = total = 0
    for query in clustered(10, 23):
        found = vectors.search(permitted_for(library), Asked(space, query), 10, {}, plan=plan)
        assert len(found) == 10
        cosines = [item.cosine or 0.0 for item in found]
        assert cosines == sorted(cosines, reverse=True)
        hits += len(set(texts(found)) & set(nearest(points, query, 10)))
        total += 10
    assert hits / total >= 0.97


def test_cosines_are_what_numpy_says(
    library: Library, space: EmbeddingSpace, filled: tuple[KnowledgeBase, Vector]
) -> None:
    _, points = filled
    query = clustered(1, 5)[0]
    for item in vectors.search(permitted_for(library), Asked(space, query), 5, {}):
        point = points[int(texts([item])[0].split()[1])]
        assert item.cosine == pytest.approx(float(point @ query), abs=2e-3)


def test_completed_cosines_equal_searched_ones(
    library: Library, space: EmbeddingSpace, filled: tuple[KnowledgeBase, Vector]
) -> None:
    base, _ = filled
    asked = Asked(space, clustered(1, 5)[0])
    found = vectors.search(permitted_for(library), asked, 5, {})
    bare = [replace(item, cosine=None) for item in found]
    for before, after in zip(found, vectors.complete(asked, bare, {base.pk}), strict=True):
        assert after.cosine == pytest.approx(before.cosine, abs=1e-6)


def test_the_planner_chooses_by_share(library: Library, space: EmbeddingSpace) -> None:
    base = library.base("Manual")

    def plan(leaves: int, total: int, *, valid: bool = True) -> str:
        searched = Permitted("", (), (SearchedBase(base, leaves),))
        return vectors.plan_for(searched, space, graphs.Graph(valid, total, 1))[0]

    assert plan(3_000, 1_000_000) == "exact"
    assert plan(50_000, 1_000_000) == "binary"
    assert plan(800_000, 1_000_000) == "hnsw"
    assert plan(800_000, 1_000_000, valid=False) == "binary"
    assert vectors.plan_for(Permitted("", (), (SearchedBase(base, 800_000),)), space, None)[0] == "binary"


def test_a_permitted_share_is_found_whole_among_many_foreign_vectors(library: Library, space: EmbeddingSpace) -> None:
    points = clustered(200, 3)
    library.document(library.base("Foreign", viewers=()), "f", *["foreign"] * 200, space=space, vectors=points)
    own = clustered(20, 4)
    library.document(
        library.base("Own", owner="alice"), "o", *[f"text {n}" for n in range(20)], space=space, vectors=own
    )
    permitted = permitted_for(library, "bob")
    for plan in ("exact", "binary"):
        found = vectors.search(permitted, Asked(space, points[0]), 10, {}, plan=plan)
        assert texts(found) == nearest(own, points[0], 10)


def test_vectors_of_another_space_are_never_compared(library: Library, space: EmbeddingSpace) -> None:
    other = make_space("other", dimensions=WIDTH)
    library.document(library.base("Manual"), "a", "text 0", space=other, vectors=clustered(1, 1))
    assert ChunkVector.objects.count() == 1
    assert vectors.search(permitted_for(library), Asked(space, clustered(1, 1)[0]), 5, {}) == []


def test_the_binary_pass_reads_its_own_index(library: Library, space: EmbeddingSpace) -> None:
    points = clustered(3000, 2)
    foreign, own = library.base("Foreign", viewers=()), library.base("Own")
    library.document(foreign, "f", *["foreign"] * 2700, space=space, vectors=points[300:])
    library.document(own, "o", *[f"text {n}" for n in range(300)], space=space, vectors=points[:300])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE knowledge_chunkvector, knowledge_chunk")
    plans: list[str] = []

    def explain(execute, sql, params, many, context):  # type: ignore[no-untyped-def]
        with connection.cursor() as cursor:
            cursor.cursor.execute("EXPLAIN " + sql, params)
            plans.extend(row[0] for row in cursor.cursor.fetchall())
        return execute(sql, params, many, context)

    permitted = permitted_for(library, "bob")
    with connection.execute_wrapper(explain):
        vectors.search(permitted, Asked(space, points[0]), 5, {}, plan="binary")
    assert any("using vector_revision" in line for line in plans), "\n".join(plans)
