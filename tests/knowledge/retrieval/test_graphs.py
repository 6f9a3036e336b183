"""The graph of a space comes, stays and goes with the number of its vectors, and writers never wait for it."""

from __future__ import annotations

import threading

import pytest
from django.db import connection, connections

from knowledge.models import ChunkVector
from knowledge.retrieval import RetrievalRequest, graphs, vectors
from knowledge.retrieval.permitted import resolve
from knowledge.retrieval.vectors import Asked
from portal.gateway.models import EmbeddingSpace
from tests.knowledge.retrieval.library import Library, make_library, make_space
from tests.knowledge.retrieval.test_vectors import WIDTH, clustered


@pytest.mark.parametrize(
    ("count", "found", "action"),
    [
        (graphs.BUILD_AT - 1, None, "none"),
        (graphs.BUILD_AT, None, "build"),
        (graphs.DROP_BELOW - 1, graphs.Graph(True, 60_000, 1), "drop"),
        (graphs.DROP_BELOW, graphs.Graph(True, 60_000, 1), "keep"),
        (60_000, graphs.Graph(False, 0, 1), "rebuild"),
        (60_000, graphs.Graph(True, 60_000, 10**9), "rebuild"),
    ],
)
def test_a_graph_is_kept_as_its_space_has_grown(count: int, found: graphs.Graph | None, action: str) -> None:
    assert graphs.wanted(EmbeddingSpace(key="x", dimensions=384), count, found) == action


@pytest.fixture
def filled(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> tuple[Library, EmbeddingSpace]:
    monkeypatch.setattr(graphs, "BUILD_AT", 200)
    monkeypatch.setattr(graphs, "DROP_BELOW", 100)
    library = make_library()
    space = make_space(dimensions=WIDTH)
    base = library.base("Manual")
    library.document(base, "a", *[f"text {n}" for n in range(300)], space=space, vectors=clustered(300, 11))
    return library, space


def kept() -> list[tuple[str, str]]:
    """What was done about the space of the test."""
    return [(row.space, row.action) for row in graphs.keep() if row.space == "test-space"]


def test_it_is_built_used_dropped_and_its_state_is_seen(
    filled: tuple[Library, EmbeddingSpace], monkeypatch: pytest.MonkeyPatch
) -> None:
    library, space = filled
    assert kept() == [(space.key, "build")]
    assert kept() == [(space.key, "keep")]
    found = graphs.graph(space)
    assert found is not None and found.valid and found.vectors == 300
    monkeypatch.setattr(vectors, "EXACT_LEAVES", 10)
    monkeypatch.setattr(vectors, "GRAPH_LEAVES", 50)
    permitted = resolve(library.principal("alice"), RetrievalRequest("x"))
    detail: dict[str, object] = {}
    assert len(vectors.search(permitted, Asked(space, clustered(1, 3)[0]), 10, detail)) == 10
    assert detail["plan"] == "hnsw" and "300 of 300" in str(detail["why"])
    ChunkVector.objects.filter(pk__in=ChunkVector.objects.values("pk")[:250]).delete()
    assert kept() == [(space.key, "drop")]
    assert graphs.graph(space) is None


def test_a_build_that_was_broken_off_is_not_used_and_made_anew(filled: tuple[Library, EmbeddingSpace]) -> None:
    _, space = filled
    graphs.build(space)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass", [graphs.graph_name(space)]
        )
    found = graphs.graph(space)
    assert found is not None and not found.valid
    assert kept() == [(space.key, "rebuild")]
    assert (found := graphs.graph(space)) is not None and found.valid


def test_every_statement_on_the_index_lets_writers_go_on(filled: tuple[Library, EmbeddingSpace]) -> None:
    _, space = filled
    said: list[str] = []

    def listen(execute, sql, params, many, context):  # type: ignore[no-untyped-def]
        said.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(listen):
        graphs.build(space)
        graphs.drop(space)
    assert all("CONCURRENTLY" in sql for sql in said if "INDEX" in sql)


def test_a_second_upkeep_does_nothing_while_one_is_at_work(filled: tuple[Library, EmbeddingSpace]) -> None:
    second: list[list[graphs.Upkeep]] = []

    def other() -> None:
        try:
            second.append(graphs.keep())
        finally:
            connections.close_all()

    with graphs._alone() as mine:
        assert mine
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(30)
    assert second == [[]]


def test_the_graph_serves_the_search_and_the_signs_step_in_when_it_gives_too_few(
    filled: tuple[Library, EmbeddingSpace], monkeypatch: pytest.MonkeyPatch
) -> None:
    library, space = filled
    graphs.build(space)
    asked = Asked(space, clustered(1, 3)[0])
    permitted = resolve(library.principal("alice"), RetrievalRequest("x"))
    plans: list[str] = []

    def explain(execute, sql, params, many, context):  # type: ignore[no-untyped-def]
        if not sql.lstrip().startswith("SET"):
            with connection.cursor() as cursor:
                cursor.cursor.execute("EXPLAIN " + sql, params)
                plans.extend(row[0] for row in cursor.cursor.fetchall())
        return execute(sql, params, many, context)

    with connection.execute_wrapper(explain):
        vectors.search(permitted, asked, 10, {}, plan="hnsw")
    assert any(f"using {graphs.graph_name(space)}" in line for line in plans), "\n".join(plans)
    monkeypatch.setattr(vectors, "_by_graph", lambda *_: [])
    detail: dict[str, object] = {}
    assert len(vectors.search(permitted, asked, 10, detail, plan="hnsw")) == 10
    assert detail["plan"] == "binary"
