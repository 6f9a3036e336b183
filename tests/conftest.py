"""Fixtures that every test may use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.model_server import ModelServer
    from tests.support.people import World


@pytest.fixture
def world(db: None) -> World:
    """Two workspaces with Alice, Bob, Mallory, Eve and an admin."""
    from tests.support.people import make_world

    return make_world()


@pytest.fixture(scope="session")
def litellm_loaded() -> None:
    """Imported before a test's transaction begins: on a busy machine it takes longer than one may lie idle."""
    from portal.gateway import litellm_runtime

    litellm_runtime.load()


@pytest.fixture
def models(litellm_loaded: None) -> Iterator[ModelServer]:
    """The outside world of model providers."""
    from tests.support.model_server import ModelServer

    with ModelServer() as server:
        yield server
