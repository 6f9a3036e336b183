"""A site to keep, without pauses between its pages, and nothing remembered of hosts of earlier tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.website import Site, website


@pytest.fixture
def site(settings: Any) -> Iterator[Site]:
    settings.ARCHWAY = {**settings.ARCHWAY, "CRAWL_DELAY": 0}
    with website() as running:
        yield running
