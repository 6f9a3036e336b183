"""PostgreSQL answers the searches' statements from the indexes that were made for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection

from knowledge import statistics
from knowledge.models import Chunk
from knowledge.retrieval import RetrievalRequest, vectors, words
from knowledge.retrieval.permitted import resolve
from knowledge.retrieval.vectors import Asked
from knowledge.text import query_lexemes
from tests.knowledge.retrieval.library import Library, make_space
from tests.knowledge.retrieval.test_vectors import WIDTH, clustered


@contextmanager
def explained() -> Iterator[list[str]]:
    """The lines of the plans of all statements in the block."""
    plans: list[str] = []

    def explain(execute, sql, params, many, context):  # type: ignore[no-untyped-def]
        with connection.cursor() as cursor:
            cursor.cursor.execute("EXPLAIN " + sql, params)
            plans.extend(row[0] for row in cursor.cursor.fetchall())
        return execute(sql, params, many, context)

    with connection.execute_wrapper(explain):
        yield plans


def analyse() -> None:
    statistics.fold_all()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE knowledge_document, knowledge_revision, knowledge_chunk, knowledge_chunkvector")


@pytest.fixture
def many(library: Library) -> Library:
    """Two thousand leaves that Bob may not see, and as many in twenty documents that he may."""
    for name, viewers in (("Foreign", ()), ("Own", ("bob",))):
        base = library.base(name, viewers=viewers)
        for number in range(20):
            texts = [f"filler number{number}x{n} {'often' if n % 3 else 'usual'} text" for n in range(100)]
            library.document(base, f"{name} {number}", f"once {texts[0]}", *texts[1:])
    analyse()
    return library


def test_words_come_from_gin_and_what_is_permitted_is_asked_once(
    many: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "SMALL", 0)
    permitted = resolve(many.principal("bob"), RetrievalRequest("once", mode="keywords"))
    prepared = words.prepare(permitted, query_lexemes("once"))
    with explained() as plans:
        found = words.search(permitted, prepared, 100, {})
    assert len(found) == 20
    text = "\n".join(plans)
    assert "Bitmap Index Scan on chunk_lexemes" in text, text
    assert "Seq Scan on knowledge_chunk" not in text, text
    # PostgreSQL 18 names what it looks up in the hash, 16 does not.
    assert re.search(r"revision_id = \(hashed SubPlan \d+\)|\(hashed SubPlan \d+\) IS TRUE", text), text


def test_the_plan_knows_how_many_revisions_are_permitted(many: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "SMALL", 0)
    permitted = resolve(many.principal("bob"), RetrievalRequest("once", mode="keywords"))
    mine = permitted.revisions()
    assert len(mine) == 20
    with explained() as plans:
        words.search(permitted, words.prepare(permitted, query_lexemes("once")), 100, {})
    named = "{" + ",".join(map(str, mine)) + "}"
    assert any(named in line for line in plans), "\n".join(plans)


def test_a_revision_named_in_the_statement_but_no_longer_permitted_gives_nothing(
    many: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "SMALL", 0)
    permitted = resolve(many.principal("bob"), RetrievalRequest("once", mode="keywords"))
    prepared = words.prepare(permitted, query_lexemes("once"))
    stale = resolve(many.principal("alice"), RetrievalRequest("x")).revisions()
    monkeypatch.setattr(type(permitted), "revisions", lambda self: stale)
    found = words.search(permitted, prepared, 100, {})
    assert len(found) == 20
    assert not Chunk.objects.filter(pk__in=[item.leaf for item in found], revision__base__name="Foreign").exists()


def test_signs_come_from_their_index_and_what_they_leave_is_read_in_one_scan(library: Library) -> None:
    space = make_space(dimensions=WIDTH)
    points = clustered(3_000, 2)
    library.document(library.base("Foreign", viewers=()), "f", *["f"] * 2_700, space=space, vectors=points[300:])
    library.document(library.base("Own"), "o", *[f"text {n}" for n in range(300)], space=space, vectors=points[:300])
    analyse()
    permitted = resolve(library.principal("bob"), RetrievalRequest("x"))
    with explained() as plans:
        vectors.search(permitted, Asked(space, points[0]), 5, {}, plan="binary")
    text = "\n".join(plans)
    assert "using vector_revision" in text, text
    assert "chunk_id = ANY" in text and "using vector_once" in text, text
