from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pytest_django import Settings

from portal.gateway.centring import VERSION
from portal.gateway.embedding import (
    available,
    counter_for,
    embedder_for,
    ensure_local_endpoint,
    plain_embedder_for,
    space_of,
)
from portal.gateway.local.centring import language_axis, mean_vector
from portal.gateway.local.client import RemoteE5
from portal.gateway.local.model import E5
from portal.gateway.local.server import EmbeddingService
from portal.gateway.local.tokens import E5TokenCounter
from portal.gateway.local.weights import SPACE
from portal.gateway.models import EmbeddingSpace, ModelEndpoint
from portal.kernel.errors import Invalid, Unavailable
from tests.support.embedding_process import TOKEN, serving
from tests.support.embedding_server import DIMENSIONS, EmbeddingProvider

pytestmark = pytest.mark.django_db


@pytest.fixture
def data_dir(settings: Settings, tmp_path: Path) -> Path:
    settings.ARCHWAY = {
        **settings.ARCHWAY,
        "DATA_DIR": tmp_path,
        "EMBEDDING_URL": "",
        "EMBEDDING_TOKEN": TOKEN,
        "EMBEDDING_MODE": "server",
    }
    return tmp_path


@pytest.fixture
def provider() -> Iterator[EmbeddingProvider]:
    with EmbeddingProvider() as provider:
        yield provider


def remote_endpoint(provider: EmbeddingProvider, **changes: object) -> ModelEndpoint:
    given = {
        "name": "BGE",
        "kind": ModelEndpoint.Kind.EMBEDDING,
        "provider": ModelEndpoint.Provider.OPENAI_COMPATIBLE,
        "model_name": "bge-m3",
        "base_url": provider.url,
        "context_size": 8192,
        **changes,
    }
    return ModelEndpoint.objects.create(**given)


def test_the_local_endpoint_is_made_once_with_its_space() -> None:
    first, second = ensure_local_endpoint(), ensure_local_endpoint()
    assert first == second
    assert first.is_default
    assert first.space is not None
    assert (first.space.key, first.space.dimensions) == (f"{SPACE}+{VERSION}", 384)
    np.testing.assert_allclose(np.array(first.space.offset), mean_vector())
    np.testing.assert_allclose(np.array(first.space.axis), language_axis())
    assert space_of(first) == first.space


def test_the_local_endpoint_does_not_push_out_a_default_that_somebody_chose(provider: EmbeddingProvider) -> None:
    chosen = remote_endpoint(provider, is_default=True)
    assert not ensure_local_endpoint().is_default
    chosen.refresh_from_db()
    assert chosen.is_default


def test_the_local_endpoint_asks_the_process_whose_address_the_supervisor_wrote_down(data_dir: Path, model: E5) -> None:
    endpoint = ensure_local_endpoint()
    with pytest.raises(Unavailable) as caught:
        embedder_for(endpoint).embed_queries(["年假"])
    assert caught.value.code == "embedding_unavailable"
    with serving(EmbeddingService(model, TOKEN, threads=1)) as url:
        (data_dir / "run").mkdir()
        (data_dir / "run" / "embedding.url").write_text(f"{url}\n", "utf-8")
        embedder = plain_embedder_for(endpoint)
        np.testing.assert_array_equal(embedder.embed_queries(["年假"]), model.embed_queries(["年假"]))
    assert isinstance(embedder, RemoteE5)
    assert embedder is plain_embedder_for(endpoint)
    embedder.close()


def test_a_fork_has_a_client_of_its_own(data_dir: Path) -> None:
    endpoint = ensure_local_endpoint()
    before = plain_embedder_for(endpoint)
    child = os.fork()
    if child == 0:
        os._exit(0 if plain_embedder_for(endpoint) is not before else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert plain_embedder_for(endpoint) is before


def test_a_one_shot_command_may_hold_the_model_itself(data_dir: Path, settings: Settings) -> None:
    settings.ARCHWAY = {**settings.ARCHWAY, "EMBEDDING_MODE": "inprocess"}
    embedder = plain_embedder_for(ensure_local_endpoint())
    assert isinstance(embedder, E5)
    assert embedder.embed_queries(["年假"]).shape == (1, 384)
    assert embedder is plain_embedder_for(ensure_local_endpoint())


def test_the_space_of_a_provider_is_measured_once_and_remembered(provider: EmbeddingProvider) -> None:
    endpoint = remote_endpoint(provider)
    space = space_of(endpoint)
    assert space.dimensions == DIMENSIONS
    assert len(space.offset or []) == len(space.axis or []) == DIMENSIONS
    asked = len(provider.requests)
    endpoint.refresh_from_db()
    assert space_of(endpoint) == endpoint.space == space
    assert len(provider.requests) == asked
    embedder = embedder_for(endpoint)
    assert (embedder.space, embedder.dimensions) == (space.key, DIMENSIONS)
    assert embedder.embed_queries(["年假"]).shape == (1, DIMENSIONS)


def test_an_embedder_remembers_what_its_provider_takes(provider: EmbeddingProvider) -> None:
    endpoint = remote_endpoint(provider)
    space_of(endpoint)
    provider.most_texts = 10
    embedder_for(endpoint).embed_passages(["a"] * 20)
    asked = len(provider.requests)
    embedder_for(endpoint).embed_passages(["a"] * 20)
    assert len(provider.requests) == asked + 2


def test_another_model_or_host_is_another_space(provider: EmbeddingProvider) -> None:
    endpoint = remote_endpoint(provider)
    first = space_of(endpoint)
    endpoint.model_name = "bge-large"
    endpoint.save()
    second = space_of(endpoint)
    with EmbeddingProvider() as other:
        endpoint.base_url = other.url
        third = space_of(endpoint)
    assert len({first.pk, second.pk, third.pk}) == 3


def test_a_provider_that_fails_leaves_no_space_behind() -> None:
    with EmbeddingProvider("401") as provider, pytest.raises(Invalid) as caught:
        space_of(remote_endpoint(provider))
    assert caught.value.code == "model_auth_failed"
    assert not EmbeddingSpace.objects.exists()


def test_a_very_long_address_still_makes_a_key(provider: EmbeddingProvider) -> None:
    endpoint = remote_endpoint(provider, model_name="m" * 200)
    assert len(space_of(endpoint).key) <= 200


def test_counters_are_exact_for_the_local_model_and_estimates_for_others(provider: EmbeddingProvider) -> None:
    exact, estimate = counter_for(ensure_local_endpoint()), counter_for(remote_endpoint(provider))
    assert isinstance(exact, E5TokenCounter)
    assert (exact.max_tokens, estimate.max_tokens) == (512, 8192)
    assert estimate.count(["年假"]) == [5]


def test_the_installed_local_model_is_named() -> None:
    assert available()[0].supported
