"""Fixtures that every test may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.people import World


@pytest.fixture
def world(db: None) -> World:
    """Two workspaces with Alice, Bob, Mallory, Eve and an admin."""
    from tests.support.people import make_world

    return make_world()
