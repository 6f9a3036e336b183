"""Searches that are wrong or huge, and rerankers that answer nonsense: an answer or a plain refusal, never an error."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from knowledge import bases, metadata
from knowledge.retrieval import MODES, Filters, Mode, RetrievalRequest, RetrievalResult, retrieve
from knowledge.retrieval.understanding import understand
from portal.kernel.errors import Invalid
from tests.support.models import endpoint
from tests.support.people import World, indexed

QUERY = "travel by train"


@pytest.fixture
def library(world: World, litellm_loaded: None) -> World:
    alice = world.principal(world.alice)
    indexed(alice, world.base, "trains.md", "# Trains\n\nTravel by train is booked in second class.\n")
    indexed(alice, world.base, "hotels.md", "# Hotels\n\nTravel by train may need a hotel for the night.\n")
    return world


@contextmanager
def reranker(results: str) -> Iterator[str]:
    """A rerank server that says this, whatever it is asked."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            body = f'{{"id": "x", "results": {results}}}'.encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def search(world: World, query: str = QUERY, mode: Mode = "keywords", **more: object) -> RetrievalResult:
    request = RetrievalRequest(query, base_uids=(world.base.uid,), mode=mode, **more)  # type: ignore[arg-type]
    return retrieve(world.principal(world.bob), request)


def row(index: object, score: object = 0.5) -> dict[str, object]:
    return {"index": index, "relevance_score": score}


@pytest.mark.parametrize(
    "results",
    [
        "[]",
        "null",
        '"no"',
        "[1, 2]",
        json.dumps([row(0), row(0)]),
        json.dumps([row(0), row(7)]),
        json.dumps([row(-1)]),
        json.dumps([row("first")]),
        json.dumps([row(0, "much")]),
        json.dumps([row(0, float("nan")), row(1)]),
        json.dumps([row(0, float("inf")), row(1)]),
        json.dumps([{"relevance_score": 0.4}]),
    ],
)
def test_a_reranker_that_answers_nonsense_leaves_the_order_of_the_search(library: World, results: str) -> None:
    plain = [hit.chunk for hit in search(library).hits]
    with reranker(results) as url:
        one = endpoint(url, "demo", provider="cohere", kind="rerank")
        result = search(library, rerank="endpoint", rerank_endpoint=one.uid)
    assert [hit.chunk for hit in result.hits] == plain and len(plain) == 2
    assert "rerank_failed" in [warning["code"] for warning in result.warnings]
    assert {hit.scale for hit in result.hits} == {"bm25"}


def test_what_a_reranker_leaves_out_comes_after_what_it_ranked(library: World) -> None:
    plain = [hit.chunk for hit in search(library).hits]
    with reranker(json.dumps([row(1, 0.9)])) as url:
        one = endpoint(url, "demo", provider="cohere", kind="rerank")
        result = search(library, rerank="endpoint", rerank_endpoint=one.uid)
    assert [hit.chunk for hit in result.hits] == plain[::-1]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("query", ["travel " * 1_500, "旅行" * 5_000, "x" * 10_000, "a-" * 5_000])
def test_ten_thousand_characters_are_answered(library: World, mode: Mode, query: str) -> None:
    result = search(library, query, mode)
    assert len(result.query) <= 1_000 and len(result.hits) <= 2


@pytest.mark.parametrize("top_k", [0, -1, 10**9])
@pytest.mark.parametrize("mode", MODES)
def test_any_number_of_passages_may_be_asked_for(library: World, mode: Mode, top_k: int) -> None:
    assert 1 <= len(search(library, mode=mode, top_k=top_k).hits) <= 2


def test_ten_thousand_values_are_refused_and_a_range_compares_only_its_own_kind(library: World) -> None:
    with pytest.raises(Invalid) as refused:
        metadata.condition("year", "in", list(range(10_000)))
    assert refused.value.code == "filter_invalid"
    document = library.base.documents.get(name="trains.md")
    for values, found in (({"year": 2024}, 1), ({"year": "2024"}, 0), ({"year": [2024]}, 0), ({"year": True}, 0)):
        type(document).objects.filter(pk=document.pk).update(metadata=values)
        filters = Filters(metadata=(metadata.condition("year", ">=", 2000),))
        assert len(search(library, filters=filters).hits) == found, values


@pytest.mark.parametrize("mode", MODES)
def test_a_base_that_is_deleted_while_it_is_searched_yields_nothing(
    library: World, mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def after_deleting(*given: object) -> object:
        bases.delete(library.principal(library.alice), library.base)
        return understand(*given)  # type: ignore[arg-type]

    monkeypatch.setattr("knowledge.retrieval.search.understand", after_deleting)
    assert search(library, mode=mode).hits == ()
