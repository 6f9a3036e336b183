"""Picture files in a base: read by text recognition, cited on the picture; skipped where the extra is not installed."""

from __future__ import annotations

import pytest

from knowledge import bases
from knowledge.ingestion.ocr.availability import is_installed
from knowledge.models import RecognisedText, Revision
from knowledge.retrieval import retrieve
from knowledge.retrieval.contract import RetrievalRequest
from tests.knowledge.pages.desk import browser, text_of
from tests.support.drawings import words
from tests.support.people import World, indexed, put, work_through

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(not is_installed(), reason="text recognition (the extra `ocr`) is not installed"),
]


def test_a_photo_is_found_by_its_words_and_the_citation_opens_it_with_the_mark(world: World) -> None:
    alice = world.principal(world.alice)
    document = indexed(alice, world.base, "plate.png", words(["Serial number 4711", "Made in Kassel"]))
    hit = retrieve(alice, RetrievalRequest("serial number 4711", mode="keywords")).hits[0]
    assert hit.recognised and hit.page == 1 and [image.mime for image in hit.images] == ["image/png"]
    page = browser(world.bob)
    home = f"/bases/{world.base.uid}/documents/{document.uid}/"
    assert "Read from a picture by text recognition" in text_of(page.get(home))
    plain = page.get(f"{home}pages/1.png?rev=1")
    marked = page.get(f"{home}pages/1.png?rev=1&chunk=c_{hit.chunk}")
    assert plain.status_code == marked.status_code == 200 and plain.content != marked.content
    assert browser(world.mallory).get(f"{home}pages/1.png?rev=1").status_code == 404


def test_the_same_bytes_are_not_recognised_twice_and_a_base_may_switch_it_off(world: World) -> None:
    alice = world.principal(world.alice)
    data = words(["Serial number 4711"])
    indexed(alice, world.base, "plate.png", data)
    assert RecognisedText.objects.count() == 1
    off = bases.create(alice, name="Off")
    bases.save_settings(alice, off, "pictures", {"recognition": "off"}, version=off.config_version)
    off.refresh_from_db()
    revision = work_through(put(alice, off, "plate.png", data).revision)
    assert (revision.status, revision.error_code) == (Revision.Status.NO_TEXT, "no_text")
    assert "switch on text recognition" in revision.error_message
    assert RecognisedText.objects.count() == 1
