"""The real embedding model, built once, and the outside world of providers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.gateway import litellm_runtime
from portal.gateway.accounting import Caller
from portal.gateway.local.model import E5
from tests.support.model_server import ModelServer
from tests.support.people import World


@pytest.fixture(scope="session", autouse=True)
def litellm_loaded() -> None:
    """Imported before a test's transaction begins: on a busy machine it takes longer than one may lie idle."""
    litellm_runtime.load()


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("模型 models")


@pytest.fixture(scope="session")
def model(model_folder: Path) -> E5:
    return E5(model_folder, threads=1)


@pytest.fixture
def models() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def caller(world: World) -> Caller:
    """Alice, asking."""
    return Caller(world.principal(world.alice), "ask")
