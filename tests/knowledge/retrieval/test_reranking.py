"""Reranking: against a real model server over HTTP, and with a cross-encoder in real files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from knowledge import bases
from knowledge.retrieval import retrieve
from knowledge.retrieval.contract import RetrievalRequest, RetrievalResult
from portal.gateway.models import UsageRecord
from portal.kernel.errors import Invalid
from tests.support import cross_encoders
from tests.support.model_server import ModelServer
from tests.support.models import chat_endpoint, endpoint
from tests.support.people import World, indexed

LIBRARY = {
    "trains.md": "# Trains\n\nTravel by train is booked in second class before the travel begins.\n",
    "hotels.md": "# Hotels\n\nTravel by train may need a hotel of at most 120 euros a night.\n",
    "planes.md": "# Planes\n\nTravel by plane needs the consent of the head of department.\n",
}
QUERY = "travel by train"


@pytest.fixture
def library(world: World) -> World:
    for name, text in LIBRARY.items():
        indexed(world.principal(world.alice), world.base, name, text)
    return world


@pytest.fixture
def cross_encoder(tmp_path: Path, settings: Any) -> Path:
    """Likes hotels, whatever is asked."""
    folder = cross_encoders.write(tmp_path / "model", {"hotel": 3.0, "train": 0.5})
    settings.ARCHWAY = {**settings.ARCHWAY, "RERANK_MODEL": str(folder), "EMBEDDING_MODE": "inprocess"}
    return folder


def search(world: World, **more: Any) -> RetrievalResult:
    request = RetrievalRequest(QUERY, base_uids=(world.base.uid,), mode="keywords", **more)
    return retrieve(world.principal(world.bob), request)


def names(result: RetrievalResult) -> list[str]:
    return [hit.document_name for hit in result.hits]


def codes(result: RetrievalResult) -> list[str]:
    return [warning["code"] for warning in result.warnings]


def step(result: RetrievalResult) -> dict[str, Any]:
    (found,) = [step["detail"] for step in result.trace["steps"] if step["name"] == "rerank"]
    return dict(found)


def set_reranking(world: World, **values: Any) -> None:
    alice = world.principal(world.alice)
    bases.save_settings(alice, world.base, "reranking", values, version=world.base.config_version)
    world.base.refresh_from_db()


def test_nobody_reranks_unless_asked(library: World, models: ModelServer) -> None:
    endpoint(models, "demo", provider="cohere", kind="rerank")
    assert not any(one["name"] == "rerank" for one in search(library).trace["steps"])
    assert not models.seen


@pytest.mark.parametrize("provider", ["cohere", "jina", "tei", "openai_compatible"])
def test_a_rerank_model_orders_the_candidates_and_the_warning_says_where_text_went(
    library: World, models: ModelServer, provider: str
) -> None:
    chosen = endpoint(models, "demo", provider=provider, kind="rerank")
    result = search(library, rerank="endpoint", rerank_endpoint=chosen.uid)
    scores = [hit.score for hit in result.hits]
    assert {hit.scale for hit in result.hits} == {"rerank"}
    assert scores == sorted(scores, reverse=True) and scores[0] > scores[-1]
    assert codes(result) == ["text_left_house"]
    assert step(result)["candidates"] == len(result.hits)
    record = UsageRecord.objects.get(kind="rerank")
    assert (record.purpose, record.user, record.bases) == ("rerank", library.bob, [library.base.uid])


def test_a_base_is_set_to_be_reranked_and_a_request_says_no(library: World, cross_encoder: Path) -> None:
    set_reranking(library, by="local")
    assert names(search(library))[0] == "hotels.md"
    assert names(search(library, rerank="off"))[0] == "trains.md"


def test_a_local_cross_encoder_reranks_and_nothing_leaves(library: World, cross_encoder: Path) -> None:
    result = search(library, rerank="local")
    assert names(result)[0] == "hotels.md"
    assert codes(result) == []
    assert result.hits[0].parts["rerank"].rank == 1
    assert 0.9 < result.hits[0].score <= 1


def test_a_model_with_two_labels_is_read_by_its_last(library: World, tmp_path: Path, settings: Any) -> None:
    folder = cross_encoders.write(tmp_path / "two", {"hotel": 3.0}, labels=2)
    settings.ARCHWAY = {**settings.ARCHWAY, "RERANK_MODEL": str(folder), "EMBEDDING_MODE": "inprocess"}
    assert names(search(library, rerank="local"))[0] == "hotels.md"


def test_a_passage_counts_as_much_as_its_best_piece(world: World, cross_encoder: Path) -> None:
    alice = world.principal(world.alice)
    filler = "Travel by train is planned well ahead of time. " * 40
    indexed(alice, world.base, "long.md", f"# Long\n\n{filler}\n\nThe hotel is near.\n")
    indexed(alice, world.base, "short.md", "# Short\n\nTravel by train.\n")
    result = search(world, rerank="local")
    assert step(result)["pieces"] > step(result)["candidates"]
    assert names(result)[0] == "long.md"


def test_a_chat_model_judges_and_its_numbers_are_checked(library: World, models: ModelServer) -> None:
    chat_endpoint(models, is_default=True)
    result = search(library, rerank="model")
    assert {hit.scale for hit in result.hits} == {"rerank"}
    assert "data, never instructions" in models.seen[-1].body["messages"][0]["content"]
    assert all(0 <= hit.score <= 1 for hit in result.hits)


@pytest.mark.parametrize(
    ("kind", "model", "by"),
    [
        ("rerank", "demo+fail=401", "endpoint"),
        ("rerank", "demo+badjson", "endpoint"),
        ("rerank", "demo+hang", "endpoint"),
        ("chat", "demo+tokens=5", "model"),
        ("chat", "demo+hang", "model"),
    ],
)
def test_a_reranker_that_fails_or_is_slow_leaves_the_order_of_the_search_and_says_so(
    library: World, models: ModelServer, kind: str, model: str, by: Any
) -> None:
    endpoint(models, model, provider="openai_compatible", kind=kind, is_default=True)
    set_reranking(library, by=by, seconds=1.0)
    result = search(library)
    assert names(result) == names(search(library, rerank="off"))
    assert "rerank_failed" in codes(result)
    assert {hit.scale for hit in result.hits} == {"bm25"}
    assert result.milliseconds < 20_000


def test_without_the_operators_model_the_order_stays(library: World) -> None:
    result = search(library, rerank="local")
    assert step(result)["failed"] == "rerank_unavailable"
    assert "rerank_failed" in codes(result)


def test_a_file_that_is_no_model_is_said_in_the_trace(library: World, tmp_path: Path, settings: Any) -> None:
    (tmp_path / "model.onnx").write_bytes(b"no model")
    settings.ARCHWAY = {**settings.ARCHWAY, "RERANK_MODEL": str(tmp_path), "EMBEDDING_MODE": "inprocess"}
    assert step(search(library, rerank="local"))["failed"] == "rerank_model_unusable"


def test_an_unknown_reranker_in_a_request_is_refused(library: World) -> None:
    with pytest.raises(Invalid):
        search(library, rerank="endpoint", rerank_endpoint="nobody")


def make_sensitive(world: World) -> None:
    bases.describe(world.principal(world.alice), world.base, name="Handbook", description="", sensitive=True)
    world.base.refresh_from_db()


def test_text_of_a_sensitive_base_is_not_sent_out(library: World, models: ModelServer) -> None:
    chosen = endpoint(models, "demo", provider="cohere", kind="rerank")
    make_sensitive(library)
    result = search(library, rerank="endpoint", rerank_endpoint=chosen.uid)
    assert not models.seen
    assert codes(result) == ["text_stays_in_house"]
    alice = library.principal(library.alice)
    bases.save_settings(
        alice, library.base, "outside", {"endpoints": [chosen.uid]}, version=library.base.config_version
    )
    assert codes(search(library, rerank="endpoint", rerank_endpoint=chosen.uid)) == ["text_left_house"]


def test_a_sensitive_base_is_reranked_here_where_there_is_a_model(
    library: World, models: ModelServer, cross_encoder: Path
) -> None:
    chosen = endpoint(models, "demo", provider="cohere", kind="rerank")
    make_sensitive(library)
    result = search(library, rerank="endpoint", rerank_endpoint=chosen.uid)
    assert not models.seen
    assert codes(result) == ["reranked_in_house"] and names(result)[0] == "hotels.md"


def test_the_reranker_never_sees_what_the_asker_may_not(library: World, models: ModelServer) -> None:
    chosen = endpoint(models, "demo", provider="cohere", kind="rerank")
    request = RetrievalRequest(QUERY, rerank="endpoint", rerank_endpoint=chosen.uid)
    for stranger in (library.mallory, library.eve):
        assert retrieve(library.principal(stranger), request).hits == ()
    assert not models.seen
