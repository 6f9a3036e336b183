from __future__ import annotations

import pytest

from tests.knowledge.retrieval.library import Library, make_library


@pytest.fixture
def library(db: None) -> Library:
    return make_library()
