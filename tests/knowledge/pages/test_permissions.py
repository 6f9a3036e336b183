"""Every page and every button, asked for by everybody."""

from __future__ import annotations

import pytest
from django.test import Client

from knowledge.models import Chunk, Document, Grant
from tests.knowledge.pages.desk import a_file, browser
from tests.support.people import World, indexed

READ = (
    "documents/", "documents/{d}/", "documents/{d}/row/", "documents/{d}/original/", "documents/{d}/chunks/",
    "documents/{d}/revisions/", "documents/{d}/revisions/1/compare/",
)  # fmt: skip
EDIT_PAGES = ("documents/upload/", "recycle-bin/")
EDIT_VERBS = (
    "documents/upload/", "documents/upload/names/", "documents/bulk/", "documents/restore/", "documents/{d}/retry/",
    "documents/{d}/cancel/", "documents/{d}/reindex/", "documents/{d}/enable/", "documents/{d}/disable/",
    "documents/{d}/delete/", "documents/{d}/chunks/confirm/", "documents/{d}/chunks/send-back/",
    "documents/{d}/describe/", "documents/{d}/revisions/1/activate/", "documents/{d}/revisions/1/retry/",
    "documents/{d}/revisions/1/cancel/", "recycle-bin/{d}/purge/",
)  # fmt: skip
OWN_PAGES = ("members/", "members/candidates/", "settings/")
OWN_VERBS = ("members/add/", "members/{g}/change/", "members/{g}/remove/", "settings/", "settings/delete/")


@pytest.fixture
def document(world: World) -> Document:
    return indexed(world.principal(world.alice), world.base, "rules.md", "# Rules\n\nValves open at 4 bar.")


def addresses(world: World, document: Document, paths: tuple[str, ...]) -> list[str]:
    grant = Grant.objects.filter(base=world.base).order_by("pk").first()
    assert grant is not None
    return [f"/bases/{world.base.uid}/" + path.format(d=document.uid, g=grant.pk) for path in paths]


def test_strangers_and_people_of_other_workspaces_get_404_on_every_page_and_verb(
    world: World, document: Document
) -> None:
    for person in (world.mallory, world.eve):
        client = browser(person)
        for address in addresses(world, document, READ + EDIT_PAGES + OWN_PAGES):
            assert client.get(address).status_code == 404, address
        for address in addresses(world, document, EDIT_VERBS + OWN_VERBS):
            assert client.post(address).status_code == 404, address
    assert Document.objects.get(pk=document.pk).deleted_at is None


def test_a_missing_document_looks_like_a_hidden_one(world: World, document: Document) -> None:
    client = browser(world.mallory)
    hidden = client.get(f"/bases/{world.base.uid}/documents/{document.uid}/")
    missing = client.get(f"/bases/{world.base.uid}/documents/2222222222222222/")
    assert (hidden.status_code, missing.status_code) == (404, 404)
    assert b"rules.md" not in hidden.content
    assert b"Not found, or you don" in hidden.content and b"Not found, or you don" in missing.content


def test_a_document_is_not_found_under_the_address_of_another_base(world: World, document: Document) -> None:
    from knowledge import bases

    other = bases.create(world.principal(world.alice), name="Other")
    client = browser(world.alice)
    for path in READ[1:]:
        assert client.get(f"/bases/{other.uid}/" + path.format(d=document.uid)).status_code == 404, path
    assert client.post(f"/bases/{other.uid}/documents/{document.uid}/delete/").status_code == 404


def test_viewers_read_everything_and_change_nothing(world: World, document: Document) -> None:
    client = browser(world.bob)
    for address in addresses(world, document, READ):
        assert client.get(address).status_code == 200, address
    for address in addresses(world, document, EDIT_PAGES + OWN_PAGES):
        assert client.get(address).status_code == 403, address
    for address in addresses(world, document, tuple(p for p in EDIT_VERBS if "purge" not in p) + OWN_VERBS):
        assert client.post(address).status_code == 403, address
    assert Document.objects.get(pk=document.pk).enabled


def test_viewers_see_states_but_no_buttons(world: World, document: Document) -> None:
    page = browser(world.bob).get(f"/bases/{world.base.uid}/documents/").content.decode()
    assert "Searchable" in page and "rules.md" in page
    for word in ("data-select-row", "hx-post", "Recycle bin", "upload.js"):
        assert word not in page


def test_strangers_to_the_portal_are_sent_to_sign_in(world: World, document: Document) -> None:
    response = Client().get(f"/bases/{world.base.uid}/documents/")
    assert response.status_code == 302
    assert response.headers["Location"].startswith("/sign-in/?next=")


def test_a_revoked_grant_closes_reader_row_and_file_at_the_next_call(world: World, document: Document) -> None:
    client = browser(world.bob)
    address = f"/bases/{world.base.uid}/documents/{document.uid}/"
    assert client.get(address).status_code == 200
    Grant.objects.filter(base=world.base, user=world.bob).delete()
    for path in ("", "row/", "original/", "chunks/", "revisions/"):
        assert client.get(address + path).status_code == 404, path


def test_a_chunk_of_another_base_is_neither_shown_nor_confirmed(world: World, document: Document) -> None:
    eves = indexed(world.principal(world.eve), world.eves_base, "secret.md", "# Plan\n\nBuy the valve maker.")
    chunk = Chunk.objects.filter(revision__document=eves).first()
    assert chunk is not None
    page = browser(world.bob).get(f"/bases/{world.base.uid}/documents/{document.uid}/?chunk=c_{chunk.pk}")
    missing = browser(world.bob).get(f"/bases/{world.base.uid}/documents/{document.uid}/?chunk=c_999999999")
    assert b"Buy the valve maker" not in page.content
    assert b"no longer exists" in page.content and b"no longer exists" in missing.content


def test_changes_need_a_token_against_forgery(world: World, document: Document) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(world.alice)
    assert client.post(f"/bases/{world.base.uid}/documents/{document.uid}/delete/").status_code == 403
    sent = client.post(f"/bases/{world.base.uid}/documents/upload/", {"file": a_file("a.md", "# A")})
    assert sent.status_code == 403
    assert Document.objects.filter(base=world.base, deleted_at__isnull=True).count() == 1
