from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import numpy as np
import pytest

from portal.gateway.local.client import RemoteE5
from portal.gateway.local.model import E5
from portal.gateway.local.server import EmbeddingService
from portal.kernel.errors import Unavailable
from tests.support.embedding_process import TOKEN, serving
from tests.support.embedding_server import EmbeddingProvider

TEXTS = [f"第 {number} 条" for number in range(70)]


@pytest.fixture
def url(model: E5) -> Iterator[str]:
    with serving(EmbeddingService(model, TOKEN, threads=1)) as url:
        yield url


def test_vectors_are_those_of_the_model(url: str, model: E5) -> None:
    remote = RemoteE5(lambda: url, TOKEN)
    np.testing.assert_array_equal(remote.embed_passages(TEXTS), model.embed_passages(TEXTS))
    np.testing.assert_array_equal(remote.embed_queries(TEXTS[:2]), model.embed_queries(TEXTS[:2]))
    assert (remote.space, remote.dimensions) == (model.space, model.dimensions)
    remote.close()


def test_blank_and_odd_texts_have_vectors_too(url: str) -> None:
    remote = RemoteE5(lambda: url, TOKEN)
    vectors = remote.embed_passages(["", " ", "\ud800", "\x00"])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    assert remote.embed_passages([]).shape == remote.embed_queries([]).shape == (0, 384)
    remote.close()


def test_a_server_that_came_back_elsewhere_is_found_again(model: E5) -> None:
    addresses: list[str] = []
    remote = RemoteE5(lambda: addresses[-1], TOKEN)
    for _ in range(2):
        with serving(EmbeddingService(model, TOKEN, threads=1)) as url:
            addresses.append(url)
            assert remote.embed_queries(["a"]).shape == (1, 384)
    with pytest.raises(Unavailable):
        remote.embed_queries(["a"])
    remote.close()


def test_a_fork_talks_over_a_connection_of_its_own(url: str) -> None:
    remote = RemoteE5(lambda: url, TOKEN)
    expected = remote.embed_queries(["子"])
    child = os.fork()
    if child == 0:
        same = np.array_equal(remote.embed_queries(["子"]), expected)
        os._exit(0 if same else 1)
    remote.embed_passages(TEXTS)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    remote.close()


def away() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


@pytest.mark.parametrize("address", ["", "http://[bad", "not a url", "nobody listens"])
def test_a_server_that_is_away_is_unavailable(address: str) -> None:
    # The free port is looked for when the test runs: workers must collect the same names.
    tried = away() if address == "nobody listens" else address
    with pytest.raises(Unavailable) as caught:
        RemoteE5(lambda: tried, TOKEN).embed_queries(["a"])
    assert caught.value.code == "embedding_unavailable"
    assert caught.value.retryable


def test_a_wrong_token_is_unavailable_and_not_repeated(url: str) -> None:
    with pytest.raises(Unavailable) as caught:
        RemoteE5(lambda: url, "wrong-token").embed_queries(["a"])
    assert "wrong-token" not in str(caught.value)


@pytest.mark.parametrize("fault", ["429", "500", "503", "not json", "no rows", ""])
def test_an_answer_of_trouble_or_of_another_server_is_unavailable(fault: str) -> None:
    with EmbeddingProvider(fault) as provider, pytest.raises(Unavailable):
        RemoteE5(lambda: provider.url.removesuffix("/v1"), TOKEN).embed_passages(["a"])
