"""A handbook with a chat model of the outside world."""

from __future__ import annotations

import pytest
from django.test import Client

from knowledge import bases
from portal.kernel import keys
from portal.kernel.models import User
from tests.support.people import World, indexed

HANDBOOK = """# Leave

Employees have ten days of annual leave in a year. Unused leave expires in March.

# Travel

Trains are booked in second class. A hotel may cost 120 euros a night.
"""


@pytest.fixture
def library(world: World) -> World:
    indexed(world.principal(world.alice), world.base, "handbook.md", HANDBOOK)
    return world


@pytest.fixture
def written_by_model(library: World) -> World:
    """The base answers by model unless told otherwise."""
    answering = {"processing": "model_opt"}
    alice = library.principal(library.alice)
    bases.save_settings(alice, library.base, "answering", answering, version=library.base.config_version)
    library.base.refresh_from_db()
    return library


def with_key(world: World, user: User) -> Client:
    """A program with a key of this person's."""
    _, secret = keys.create(world.principal(user), name="k", scopes=["kb:read", "chat"])
    return Client(headers={"Authorization": f"Bearer {secret}"})
