from __future__ import annotations

import numpy as np
import pytest

from knowledge.ingestion import store
from knowledge.models import Chunk, ChunkVector, Document, Revision
from portal.kernel.errors import Conflict
from tests.knowledge.retrieval.library import (
    APassage,
    Library,
    claimed_revision,
    make_library,
    make_space,
    passages_of,
    unit,
)

pytestmark = pytest.mark.django_db
NASTY = "tab\there \\ 'quote' \"x\" \x00 \ud83d 😀 a:3 & | ! C++\nnew line"


@pytest.fixture
def library(db: None) -> Library:
    return make_library()


@pytest.fixture
def revision(library: Library) -> Revision:
    base = library.base("Handbook")
    return claimed_revision(Document.objects.create(base=base, source_key="a", name="a"))


def write(revision: Revision, passages: list[APassage], claim_no: int = 1) -> int:
    return store.write_chunks(revision, claim_no, passages)  # type: ignore[arg-type]


def test_passages_and_leaves_are_stored_as_they_were_split(revision: Revision) -> None:
    passages = passages_of(["年假有多少天", "病假规定"], "travel policy", heading=("Rules", "Leave"))
    assert write(revision, passages) == 3
    rows = list(Chunk.objects.filter(revision=revision).order_by("level", "ordinal"))
    leaves = [row for row in rows if row.level == "leaf"]
    assert [row.text for row in leaves] == ["年假有多少天", "病假规定", "travel policy"]
    assert [row.parent.text for row in leaves if row.parent] == ["年假有多少天\n病假规定"] * 2 + ["travel policy"]
    assert rows[-1].heading_path == ["Rules", "Leave"]
    assert all(row.words > 0 and row.lexemes for row in leaves)


def test_any_text_can_be_stored(revision: Revision) -> None:
    write(revision, passages_of(NASTY, heading=(NASTY,)))
    stored = Chunk.objects.get(revision=revision, level="leaf").text
    assert "'quote'" in stored and "\x00" not in stored and "\\" in stored and "\t" in stored


def test_running_the_same_slice_again_changes_nothing(revision: Revision) -> None:
    passages = passages_of("one", "two")
    write(revision, passages)
    before = list(Chunk.objects.order_by("id").values_list("id", flat=True))
    write(revision, passages)
    assert list(Chunk.objects.order_by("id").values_list("id", flat=True)) == before


def test_a_run_broken_off_goes_on_and_another_split_starts_anew(revision: Revision) -> None:
    write(revision, passages_of("one"))
    write(revision, passages_of("one", "two"))
    assert Chunk.objects.filter(level="leaf").count() == 2
    write(revision, passages_of("one and a half", "two", "three"))
    assert list(Chunk.objects.filter(level="leaf").order_by("ordinal").values_list("text", flat=True)) == [
        "one and a half",
        "two",
        "three",
    ]


def test_a_worker_that_lost_its_claim_writes_nothing(revision: Revision) -> None:
    with pytest.raises(Conflict) as lost:
        write(revision, passages_of("one"), claim_no=7)
    assert lost.value.code == "claim_lost"
    Revision.objects.filter(pk=revision.pk).update(status="failed")
    with pytest.raises(Conflict):
        write(revision, passages_of("one"))
    assert not Chunk.objects.exists()


def test_vectors_come_back_as_they_were_with_their_signs(revision: Revision) -> None:
    space = make_space(dimensions=16)
    write(revision, passages_of("one", "two", "three"))
    waiting = store.leaves_without_vectors(revision.pk, space.pk, 2)
    assert [text for _, text in waiting] == ["a\none", "a\ntwo"]
    vectors = unit(np.random.default_rng(1).normal(size=(2, 16)))
    store.write_vectors(revision, 1, space, [pk for pk, _ in waiting], vectors)
    store.write_vectors(revision, 1, space, [pk for pk, _ in waiting], vectors)
    rows = {row.chunk_id: row for row in ChunkVector.objects.all()}
    for (pk, _), vector in zip(waiting, vectors, strict=True):
        assert np.allclose(np.asarray(rows[pk].halfvec), vector, atol=1e-3)
        assert str(rows[pk].bits) == "".join("1" if value > 0 else "0" for value in vector)
    assert [text for _, text in store.leaves_without_vectors(revision.pk, space.pk, 9)] == ["a\nthree"]
    with pytest.raises(Conflict):
        store.write_vectors(revision, 2, space, [waiting[0][0]], vectors[:1])


def test_a_second_revision_takes_over_the_vectors_of_equal_leaves(revision: Revision) -> None:
    space = make_space()
    write(revision, passages_of("kept", "changed"))
    ids = [pk for pk, _ in store.leaves_without_vectors(revision.pk, space.pk, 9)]
    vectors = unit(np.random.default_rng(2).normal(size=(2, 8)))
    store.write_vectors(revision, 1, space, ids, vectors)
    Revision.objects.filter(pk=revision.pk).update(status="indexed")
    second = claimed_revision(revision.document)
    write(second, passages_of("new", "kept"))
    assert store.reuse_vectors(second, 1, space) == 1
    assert [text for _, text in store.leaves_without_vectors(second.pk, space.pk, 9)] == ["a\nnew"]


def test_dropping_chunks_takes_their_vectors_along(revision: Revision) -> None:
    space = make_space()
    write(revision, passages_of("one"))
    ids = [pk for pk, _ in store.leaves_without_vectors(revision.pk, space.pk, 9)]
    store.write_vectors(revision, 1, space, ids, unit(np.ones((1, 8), dtype=np.float32)))
    store.drop_chunks(revision.pk)
    assert not Chunk.objects.exists() and not ChunkVector.objects.exists()


def test_a_batch_takes_few_statements(revision: Revision, django_assert_max_num_queries: object) -> None:
    space = make_space()
    write(revision, passages_of(*[f"text {number}" for number in range(64)]))
    waiting = store.leaves_without_vectors(revision.pk, space.pk, 64)
    vectors = unit(np.random.default_rng(3).normal(size=(64, 8)))
    with django_assert_max_num_queries(6):  # type: ignore[operator]
        store.write_vectors(revision, 1, space, [pk for pk, _ in waiting], vectors)


def test_the_llama_index_store_writes_the_same_rows_and_refuses_to_be_searched(revision: Revision) -> None:
    from llama_index.core.schema import TextNode
    from llama_index.core.vector_stores.types import VectorStoreQuery

    from knowledge.ingestion.chunk_store import ChunkStore
    from portal.kernel.errors import Denied

    space = make_space()
    write(revision, passages_of("one"))
    (pk, text) = store.leaves_without_vectors(revision.pk, space.pk, 1)[0]
    sink = ChunkStore(revision, 1, space)
    assert sink.add([TextNode(id_=str(pk), text=text, embedding=[1.0] + [0.0] * 7)]) == [str(pk)]
    assert store.count_without_vectors(revision.pk, space.pk) == 0
    with pytest.raises(Denied):
        sink.query(VectorStoreQuery(query_embedding=[1.0] * 8))
