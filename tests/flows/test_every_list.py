"""Every page, and every list of the API, takes as many statements for many rows as for few.

Addresses are read from the URL table, so a new list is walked without anybody adding it here.
"""

from __future__ import annotations

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from knowledge import bases, batches, documents
from knowledge.models import Chunk, Role, Source
from knowledge.quality import cases
from knowledge.questions import verbs as questions
from knowledge.terms import verbs as terms
from portal.kernel import keys, notify, people
from portal.kernel.models import Membership
from portal.kernel.secrets import verbs as secrets
from tests.flows.test_every_door import ADDRESSES
from tests.support.doors import Alices, signed_in, values_for
from tests.support.people import PASSWORD, indexed

MORE = 4
# Looks into documents one by one until it has enough examples: three at most.
BOUNDED = {"/ask/": 3}


def add_more(alices: Alices) -> None:
    """More rows for every list."""
    world = alices.world
    alice = world.principal(world.alice)
    passage = Chunk.objects.filter(pk=int(alices.values["chunk"])).get()
    for number in range(MORE):
        name = f"more-{number}"
        document = indexed(
            alice, world.base, f"{name}.md", f"# Title {number}\n\nThe {name} is upstairs.\n", folder=name
        )
        add_to_bin(alices, name)
        person = people.create_person(name, PASSWORD, language="en")
        people.set_membership(None, world.workspace, person, department=world.sales)
        people.create_department(None, world.workspace, name, world.company)
        bases.grant(alice, world.base, Role.VIEWER, user=person)
        bases.grant(alice, bases.create(alice, name=name), Role.EDITOR, user=person)
        keys.create(alice, name=name, scopes=["kb:read"])
        notify.tell([world.alice], "grant.added", workspace_id=world.workspace.pk, base_ids=[world.base.pk], base=name)
        secrets.create(None, name=name, value=name, host="api.example.com", workspace_id=world.workspace.pk)
        cases.add(alice, world.base, f"Where is the {name}?", [cases.Target(document, name)])
        chosen = batches.Selection(ids=(document.uid,))
        batches.begin(batches.start(alice, world.base, "tag", chosen, {"tags": [name]}))
        terms.add(alice, world.base, terms.wanted(name, [f"{name}s"]))
        questions.add(alice, passage, [f"Is the {name} here?"])
        Source.objects.create(base=world.base, name=name, kind=Source.Kind.PAGE, url=f"http://{name}.example/")


def add_to_bin(alices: Alices, name: str) -> None:
    world = alices.world
    alice = world.principal(world.alice)
    documents.delete(alice, indexed(alice, world.base, f"bin-{name}.md", f"# Title\n\nNobody wants the {name}.\n"))


def statements(client: Client, url: str) -> int:
    with CaptureQueriesContext(connection) as found:
        response = client.get(url)
        assert response.status_code < 500, url
        if response.streaming:
            b"".join(response)
    return len(found)


def counted(alices: Alices, client: Client) -> dict[str, int]:
    return {
        address: statements(client, alices.url(address, values_for(address, alices.values))) for address in ADDRESSES
    }


def test_no_page_or_list_asks_once_a_row(alices: Alices, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("RATE_PER_PERSON", "RATE_PER_ADDRESS"):
        monkeypatch.setitem(settings.ARCHWAY, limit, 10**6)
    # An admin who owns all there is sees every list.
    people.set_membership(None, alices.world.workspace, alices.world.alice, role=Membership.Role.ADMIN)
    alice = signed_in(alices.world.alice)
    add_to_bin(alices, "first")
    counted(alices, alice)  # what is looked up once and kept
    few = counted(alices, alice)
    add_more(alices)
    many = counted(alices, alice)
    grown = {name: (few[name], now) for name, now in many.items() if now > few[name] + BOUNDED.get(name, 0)}
    assert grown == {}
