"""Pictures inside documents: kept once, shown with their passage to who may see the document, gone with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

from knowledge import bases, documents
from knowledge.models import PicturePlace, StoredImage
from knowledge.retrieval import retrieve
from knowledge.retrieval.contract import RetrievalRequest
from portal.kernel import keys
from tests.knowledge.pages.desk import browser, text_of
from tests.support.drawings import gradient, in_markdown
from tests.support.office_files import png
from tests.support.people import World, indexed

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def noise() -> bytes:
    return gradient()


def a_text(picture: bytes) -> str:
    return (
        f"# Pumps\n\nThe pump stands in the cellar.\n\n{in_markdown('A cutaway of the impeller', picture)}\n\n"
        "# Valves\n\nValves are painted red.\n"
    )


def stored_files(base_uid: str) -> set[Path]:
    folder = settings.ARCHWAY["DATA_DIR"] / "files" / "images" / base_uid
    return {path for path in folder.rglob("*") if path.is_file()} if folder.exists() else set()


def test_a_picture_is_found_by_its_description_and_shown_with_its_passage(world: World, noise: bytes) -> None:
    alice = world.principal(world.alice)
    document = indexed(alice, world.base, "pumps.md", a_text(noise))
    revision = document.active_revision
    assert revision is not None
    hit = retrieve(alice, RetrievalRequest("cutaway of the impeller", mode="keywords")).hits[0]
    (image,) = hit.images
    assert (image.alt, image.mime, image.width, image.height) == (
        "A cutaway of the impeller", "image/png", 800, 600,
    )  # fmt: skip
    assert not hit.recognised
    valves = retrieve(alice, RetrievalRequest("painted red", mode="keywords")).hits[0]
    assert "A cutaway" in valves.text or valves.images == ()
    told = hit.as_json()["images"][0]
    page = browser(world.bob)
    full, small = page.get(told["url"]), page.get(told["thumbnail"])
    assert b"".join(full) == noise
    assert full["Content-Type"] == "image/png" and small["Content-Type"] == "image/jpeg"
    assert len(b"".join(small)) < len(noise) / 4
    assert full["X-Content-Type-Options"] == "nosniff" and "sandbox" in full["Content-Security-Policy"]
    _, secret = keys.create(alice, name="reader", scopes=["kb:read"])
    assert Client().get(told["api"], headers={"x-api-key": secret}).status_code == 200


def test_strangers_get_the_same_answer_as_for_a_picture_that_is_not_there(world: World, noise: bytes) -> None:
    alice = world.principal(world.alice)
    document = indexed(alice, world.base, "pumps.md", a_text(noise))
    (row,) = StoredImage.objects.all()
    home = f"/bases/{world.base.uid}/documents/{document.uid}/images"
    missing = browser(world.bob).get(f"{home}/{'0' * 64}/")
    assert missing.status_code == 404
    for stranger in (world.mallory, world.eve):
        for address in (f"{home}/{row.key}/", f"{home}/{row.key}/?size=small"):
            answer = browser(stranger).get(address)
            assert answer.status_code == 404
    assert Client().get(f"{home}/{row.key}/").status_code in (302, 401)


def test_reader_chunks_and_preview_show_the_thumbnail(world: World, noise: bytes) -> None:
    document = indexed(world.principal(world.alice), world.base, "pumps.md", a_text(noise))
    (row,) = StoredImage.objects.all()
    home = f"/bases/{world.base.uid}/documents/{document.uid}/"
    page = browser(world.alice)
    for address in (home, f"{home}chunks/", f"{home}chunks/preview/"):
        shown = text_of(page.get(address))
        assert f"{home}images/{row.key}/?rev=1&amp;size=small" in shown, address
        assert "data:image" not in shown


def test_bytes_are_stored_once_in_a_base_and_never_shared_between_bases(world: World, noise: bytes) -> None:
    alice = world.principal(world.alice)
    other = bases.create(alice, name="Other")
    indexed(alice, world.base, "one.md", a_text(noise))
    indexed(alice, world.base, "two.md", a_text(noise) + "\nMore.\n")
    indexed(alice, other, "three.md", a_text(noise))
    assert len(StoredImage.objects.values_list("file", flat=True).distinct()) == 2
    assert len(stored_files(world.base.uid)) == len(stored_files(other.uid)) == 2  # the picture and its thumbnail


def test_a_purge_takes_the_pictures_and_the_read_text_that_nobody_else_has(world: World, noise: bytes) -> None:
    alice = world.principal(world.alice)
    first = indexed(alice, world.base, "one.md", a_text(noise))
    second = indexed(alice, world.base, "two.md", a_text(noise) + "\nMore.\n")
    outputs = settings.ARCHWAY["DATA_DIR"] / "files" / "outputs"
    kept = len(list(outputs.rglob("*.gz")))
    documents.delete(alice, first)
    documents.purge(alice, first)
    assert len(stored_files(world.base.uid)) == 2
    assert len(list(outputs.rglob("*.gz"))) == kept - 1
    documents.delete(alice, second)
    documents.purge(alice, second)
    assert stored_files(world.base.uid) == set()
    assert not StoredImage.objects.exists() and not PicturePlace.objects.exists()


def test_decorations_remote_and_damaged_pictures_are_left_out_and_named(world: World, noise: bytes) -> None:
    dot, broken = png(4, 4), noise[: len(noise) // 2]
    text = "\n\n".join(
        ["Words.", in_markdown("dot", dot), in_markdown("broken", broken), "![far](https://tracker.example/p.png)"]
    )
    document = indexed(world.principal(world.alice), world.base, "mixed.md", text)
    revision = document.active_revision
    assert revision is not None and not StoredImage.objects.exists()
    codes = {warning.partition(":")[0] for warning in revision.warnings}
    assert {"pictures_decorative", "pictures_damaged"} <= codes
    shown = text_of(browser(world.alice).get(f"/bases/{world.base.uid}/documents/{document.uid}/"))
    assert 'src="https://tracker' not in shown and "<figure" not in shown
    chunks = text_of(browser(world.alice).get(f"/bases/{world.base.uid}/documents/{document.uid}/chunks/"))
    assert "1 pictures are damaged and were left out." in chunks
