"""The operator's cross-encoder behind the embedding process's door."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from portal.gateway.local.model import E5
from portal.gateway.local.server import EmbeddingService
from portal.gateway.local_rerank import LocalReranker
from portal.kernel.errors import Unavailable
from tests.support import cross_encoders
from tests.support.embedding_process import TOKEN, serving


@pytest.fixture
def url(model: E5, tmp_path: Path) -> Iterator[str]:
    folder = cross_encoders.write(tmp_path / "model", {"hotel": 2.0})
    with serving(EmbeddingService(model, TOKEN, threads=1), str(folder)) as address:
        yield address


def test_texts_are_ranked_over_http(url: str, settings: Any) -> None:
    settings.ARCHWAY = {
        **settings.ARCHWAY, "RERANK_MODEL": "set", "EMBEDDING_MODE": "server", "EMBEDDING_URL": url,
        "EMBEDDING_TOKEN": TOKEN,
    }  # fmt: skip
    ranked = LocalReranker(20).rerank("where to sleep", ["a train", "a hotel", ""])
    assert [row.index for row in ranked] == [1, 0, 2]
    assert ranked[0].score > 0.8 and ranked[1].score == 0.5


def test_a_stranger_and_a_body_that_is_none_are_refused(url: str) -> None:
    with httpx.Client(base_url=url, trust_env=False) as client:
        assert client.post("/v1/rerank", json={"query": "q", "documents": []}).status_code == 401
        own = {"Authorization": f"Bearer {TOKEN}"}
        for body in (b"{", b"[]", b'{"query": 1, "documents": []}', b'{"query": "q", "documents": [1]}'):
            assert client.post("/v1/rerank", content=body, headers=own).status_code == 400


def test_a_server_that_is_away_is_said(settings: Any) -> None:
    settings.ARCHWAY = {
        **settings.ARCHWAY, "RERANK_MODEL": "set", "EMBEDDING_MODE": "server", "EMBEDDING_URL": "http://127.0.0.1:9",
    }  # fmt: skip
    with pytest.raises(Unavailable):
        LocalReranker(1).rerank("q", ["text"])
