"""What pages of chunks show: tables as tables, changes by hand that a new split keeps or loses, where reviews wait."""

from __future__ import annotations

import pytest
from django.test import Client

from knowledge import bases
from knowledge.chunks import verbs
from knowledge.models import Chunk, Document, KnowledgeBase
from tests.support.people import World, indexed, put, work_through

TABLE = "# Parts\n\n| Part | Price |\n| --- | --- |\n| `<script>alert(1)</script>` | 3 \\| 4 |\n| Valve | 5 |\n"


@pytest.fixture
def client(world: World) -> Client:
    client = Client()
    client.force_login(world.alice)
    return client


@pytest.fixture
def document(world: World) -> Document:
    return indexed(world.principal(world.alice), world.base, "parts.md", TABLE)


def home(document: Document) -> str:
    return f"/bases/{document.base.uid}/documents/{document.uid}/chunks/"


@pytest.mark.parametrize("place", ["", "preview/"])
def test_a_table_is_a_table_and_nothing_in_it_acts(client: Client, document: Document, place: str) -> None:
    page = client.get(home(document) + place).content.decode()
    assert '<div class="passage__table" tabindex="0"><table>' in page and '<th scope="col">Price</th>' in page
    assert "<td>3 | 4</td>" in page and "| --- |" not in page
    assert "&lt;script&gt;alert(1)" in page and "<script>alert" not in page


def test_the_preview_tells_what_of_the_changes_by_hand_is_kept_and_what_is_lost(
    client: Client, world: World, document: Document
) -> None:
    alice = world.principal(world.alice)
    bases.save_settings(alice, world.base, "splitting", {"passage_tokens": 100, "leaf_tokens": 50})
    passage = Chunk.objects.select_related("revision__document__base", "revision__space").get(
        revision=document.active_revision, level="passage"
    )
    verbs.edit(alice, passage, "Changed by hand.", version=1)
    kept = client.get(home(document) + "preview/").content.decode()
    assert 'id="kept"' in kept and 'id="losses"' not in kept and "Changed by hand." in kept
    rows = "?mode=rows&passage_tokens=100&leaf_tokens=50&overlap_tokens=0"
    lost = client.get(home(document) + "preview/" + rows).content.decode()
    assert 'id="losses"' in lost and 'name="discard"' in lost and 'id="kept"' not in lost
    refused = client.post(home(document) + "preview/", {**_fields(rows), "do": "split"})
    assert refused.status_code == 409
    assert (
        client.post(home(document) + "preview/", {**_fields(rows), "do": "split", "discard": "yes"}).status_code == 302
    )


def _fields(address: str) -> dict[str, str]:
    return dict(pair.split("=") for pair in address.removeprefix("?").split("&"))


def test_reviews_are_found_from_the_documents_and_from_the_bases(client: Client, world: World) -> None:
    alice = world.principal(world.alice)
    bases.save_settings(alice, world.base, "splitting", {**world.base.config["splitting"], "review": "always"})
    base = KnowledgeBase.objects.get(pk=world.base.pk)
    work_through(put(alice, base, "new.md", "# New\n\nWords.").revision)
    review = f'href="/bases/{base.uid}/review/"'
    assert review in client.get(f"/bases/{base.uid}/documents/").content.decode()
    assert f"/bases/{base.uid}/documents/?state=review" in client.get("/bases/").content.decode()
    reader = Client()
    reader.force_login(world.bob)
    shown = reader.get(f"/bases/{base.uid}/documents/").content.decode()
    assert review not in shown and f"/bases/{base.uid}/documents/?state=review" in shown
