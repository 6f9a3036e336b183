"""The real embedding model, built once, and the outside world of providers."""

from __future__ import annotations

from pathlib import Path

import pytest

from portal.gateway.accounting import Caller
from portal.gateway.local.model import E5
from tests.support.people import World


@pytest.fixture(scope="session", autouse=True)
def litellm_from_the_start(litellm_loaded: None) -> None:
    """Most tests here ask a provider, not all of them the one of `models`."""


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("模型 models")


@pytest.fixture(scope="session")
def model(model_folder: Path) -> E5:
    return E5(model_folder, threads=1)


@pytest.fixture
def caller(world: World) -> Caller:
    """Alice, asking."""
    return Caller(world.principal(world.alice), "ask")
