from __future__ import annotations

import logging
import traceback

import numpy as np
import pytest
from pytest_django import Settings

from portal.gateway.models import ModelEndpoint
from portal.gateway.provider_embedding import ProviderEmbedder
from portal.kernel.errors import ArchwayError, Invalid, Unavailable
from tests.support.embedding_server import DIMENSIONS, SECRET, EmbeddingProvider


@pytest.fixture(autouse=True)
def key(db: None, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.ARCHWAY = {**settings.ARCHWAY, "ENV_CREDENTIALS": ["EMBEDDING_KEY"]}
    monkeypatch.setenv("EMBEDDING_KEY", SECRET)


def embedder(provider: EmbeddingProvider, *, model: str = "bge-m3", timeout: int = 5) -> ProviderEmbedder:
    endpoint = ModelEndpoint(
        name=model,
        kind="embedding",
        provider="openai_compatible",
        model_name=model,
        base_url=provider.url,
        credential="env://EMBEDDING_KEY",
        timeout_seconds=timeout,
    )
    return ProviderEmbedder(endpoint, space="s", dimensions=DIMENSIONS)


def test_vectors_come_back_in_order_and_of_length_one() -> None:
    texts = ["年假", "备份", "发票"]
    with EmbeddingProvider("shuffled") as provider:
        vectors = embedder(provider).embed_passages(texts)
        expected = np.array([provider.vector(text) for text in texts], np.float32)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)
    assert provider.tokens == [f"Bearer {SECRET}"]
    assert provider.requests[0]["model"] == "bge-m3"


def test_empty_lists_and_empty_texts_are_never_sent() -> None:
    with EmbeddingProvider() as provider:
        assert embedder(provider).embed_passages([]).shape == (0, DIMENSIONS)
        assert provider.requests == []
        assert embedder(provider).embed_passages(["", " \n", "\ud800"]).shape == (3, DIMENSIONS)
    assert all(text.strip() for text in provider.requests[0]["input"])


def test_a_batch_too_large_for_the_provider_is_halved_and_the_size_remembered() -> None:
    texts = [f"第 {number} 条" for number in range(40)]
    with EmbeddingProvider(most_texts=10) as provider:
        model = embedder(provider)
        assert model.embed_passages(texts).shape == (40, DIMENSIONS)
        assert [len(body["input"]) for body in provider.requests] == [40, 20, 10, 10, 10, 10]
        model.embed_passages(texts[:20])
    assert [len(body["input"]) for body in provider.requests[6:]] == [10, 10]


@pytest.mark.parametrize(
    ("model", "query", "passage"),
    [
        ("intfloat/multilingual-e5-large", "query: 年假", "passage: 年假"),
        ("BAAI/bge-large-zh-v1.5", "为这个句子生成表示以用于检索相关文章：年假", "年假"),
        ("bge-m3", "年假", "年假"),
    ],
)
def test_models_trained_with_words_before_the_text_get_them(model: str, query: str, passage: str) -> None:
    with EmbeddingProvider() as provider:
        embedder(provider, model=model).embed_queries(["年假"])
        embedder(provider, model=model).embed_passages(["年假"])
    assert [body["input"] for body in provider.requests] == [[query], [passage]]


@pytest.mark.parametrize(
    ("fault", "kind", "code"),
    [
        ("401", Invalid, "model_auth_failed"),
        ("403", Invalid, "model_auth_failed"),
        ("404", Invalid, "model_not_found"),
        ("400", Invalid, "model_refused"),
        ("429", Unavailable, "model_rate_limited"),
        ("500", Unavailable, "model_failed"),
        ("503", Unavailable, "model_failed"),
        ("not json", Invalid, "model_bad_answer"),
        ("no rows", Invalid, "model_bad_answer"),
        ("words", Invalid, "model_bad_answer"),
        ("zero", Invalid, "model_bad_answer"),
    ],
)
def test_each_failure_has_its_code_asks_once_and_keeps_the_secret(
    fault: str, kind: type[ArchwayError], code: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), EmbeddingProvider(fault) as provider, pytest.raises(kind) as caught:
        embedder(provider).embed_queries(["a"])
    assert caught.value.code == code
    assert len(provider.requests) == 1
    assert SECRET not in "".join(traceback.format_exception(caught.value)) + caplog.text


def test_a_provider_that_hangs_is_left_after_the_timeout() -> None:
    with EmbeddingProvider("hang") as provider, pytest.raises(Unavailable) as caught:
        embedder(provider, timeout=1).embed_queries(["a"])
    assert caught.value.code == "model_timeout"
    assert len(provider.requests) == 1


def test_a_provider_that_is_gone_is_unreachable() -> None:
    with EmbeddingProvider() as provider:
        model = embedder(provider)
    with pytest.raises(Unavailable) as caught:
        model.embed_queries(["a"])
    assert caught.value.code == "model_unreachable"


def test_vectors_of_another_width_are_refused() -> None:
    with EmbeddingProvider(dimensions=8) as provider, pytest.raises(Invalid) as caught:
        embedder(provider).embed_queries(["a"])
    assert caught.value.code == "model_bad_answer"
    assert "8" in str(caught.value)


def test_an_embedder_does_not_show_its_secret() -> None:
    with EmbeddingProvider() as provider:
        assert SECRET not in repr(embedder(provider))
