from __future__ import annotations

import pytest
from pytest_django.fixtures import Settings

from portal.gateway.embedding import ensure_local_endpoint
from portal.gateway.models import ModelEndpoint
from tests.knowledge.retrieval.library import Library, make_library


@pytest.fixture
def library(db: None) -> Library:
    return make_library()


@pytest.fixture
def local_model(db: None, settings: Settings) -> ModelEndpoint:
    """The built-in model, run in this process."""
    settings.ARCHWAY = {**settings.ARCHWAY, "EMBEDDING_MODE": "inprocess"}
    return ensure_local_endpoint()
