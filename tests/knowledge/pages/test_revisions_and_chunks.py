"""Going back to an earlier revision, the history of the work, chunks before and after vectorizing, page pictures."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.test import Client

from knowledge import bases
from knowledge.ingestion.blocks import Block, ParseContext, Source, assemble
from knowledge.models import Chunk, Document, Revision
from knowledge.pages import page_drawing
from knowledge.pages.comparing import compare
from knowledge.pages.parse_warnings import sentence
from portal.kernel.errors import ParseError
from tests.knowledge.pages.desk import browser, text_of
from tests.support.pdf_files import pdf, text
from tests.support.people import World, indexed, put, work_through


@pytest.fixture
def alice(world: World) -> Client:
    return browser(world.alice)


def home(document: Document) -> str:
    return f"/bases/{document.base.uid}/documents/{document.uid}/"


def two_revisions(world: World) -> Document:
    principal = world.principal(world.alice)
    indexed(principal, world.base, "a.md", "# A\n\nValves open at 4 bar.\n\nSame words.")
    return indexed(principal, world.base, "a.md", "# A\n\nValves open at 5 bar.\n\nSame words.")


def test_rolling_back_shows_what_changes_and_makes_the_earlier_revision_current(world: World, alice: Client) -> None:
    document = two_revisions(world)
    page = text_of(alice.get(home(document) + "revisions/1/compare/", headers={"HX-Request": "true"}))
    assert "Valves open at 5 bar." in page.split("<del")[1] and "Valves open at 4 bar." in page.split("<ins")[1]
    assert "<html" not in page and "1 paragraph goes, 1 comes" in " ".join(page.split())
    assert alice.post(home(document) + "revisions/1/activate/").status_code == 302
    document.refresh_from_db()
    assert document.active_revision is not None and document.active_revision.number == 1
    assert "Version 1 is current" in text_of(alice.get(f"/bases/{world.base.uid}/documents/"))


def test_the_comparison_is_a_page_without_scripts_too(world: World, alice: Client) -> None:
    page = text_of(alice.get(home(two_revisions(world)) + "revisions/1/compare/"))
    assert "<html" in page and 'action="' in page and "csrfmiddlewaretoken" in page


def test_a_revision_that_is_not_ready_can_not_become_current(world: World, alice: Client) -> None:
    document = two_revisions(world)
    Revision.objects.filter(document=document, number=1).update(status="failed")
    refused = alice.post(home(document) + "revisions/1/activate/")
    assert refused.status_code == 422 and "Only a searchable revision" in text_of(refused)


def test_history_tells_attempts_outcomes_and_reasons(world: World, alice: Client) -> None:
    document = two_revisions(world)
    attempt = Revision.objects.get(document=document, number=2).history.get()
    attempt.outcome, attempt.code, attempt.message = "failed", "too_slow", "Reading took too long."
    attempt.save()
    page = text_of(alice.get(home(document) + "revisions/"))
    assert "attempt 1" in page and "Reading took too long." in page and "too_slow" in page
    assert "Vectorizing" in page and "Alice" in page


def test_a_review_is_approved_or_sent_back(world: World, alice: Client) -> None:
    principal = world.principal(world.alice)
    bases.save_settings(principal, world.base, "splitting", {"review": "always"})
    world.base.refresh_from_db()
    first = work_through(put(principal, world.base, "a.md", "# A\n\nWords to review.").revision)
    second = work_through(put(principal, world.base, "b.md", "# B\n\nOther words.").revision)
    assert first.status == second.status == Revision.Status.REVIEW
    page = text_of(alice.get(home(first.document) + "chunks/"))
    assert "Approve and index" in page and "Words to review." in page
    assert "Approve and index" not in text_of(browser(world.bob).get(home(first.document) + "chunks/"))
    alice.post(home(first.document) + "chunks/confirm/")
    assert work_through(first).status == Revision.Status.INDEXED
    alice.post(home(second.document) + "chunks/send-back/")
    second.refresh_from_db()
    assert second.status == Revision.Status.CANCELLED


def test_what_was_left_out_is_told(world: World, alice: Client) -> None:
    document = two_revisions(world)
    Revision.objects.filter(document=document).update(
        warnings=["repeated_lines_dropped: 11 repeated headers were left out."]
    )
    assert "11 repeated headers, footers or page numbers were left out." in text_of(
        alice.get(home(document) + "chunks/")
    )
    assert sentence("unheard_of: Something new.") == "Something new."


def test_documents_are_renamed_moved_and_tagged(world: World, alice: Client) -> None:
    document = two_revisions(world)
    alice.post(home(document) + "describe/", {"name": "b.md", "folder": "x/y", "tags": "one, two"})
    document.refresh_from_db()
    assert (document.name, document.folder, document.tags) == ("b.md", "x/y", ["one", "two"])
    put(world.principal(world.alice), world.base, "c.md", "# C\n\nthree")
    taken = alice.post(home(document) + "describe/", {"name": "c.md", "folder": "", "tags": ""})
    assert taken.status_code == 422 and "is there already" in text_of(taken)


def test_comparing_hides_what_stays_and_is_capped() -> None:
    def of(*texts: str) -> Any:
        return assemble("text/plain", [Block("paragraph", text) for text in texts])

    same = [f"same {number}" for number in range(50)]
    result = compare(of(*same, "old"), of(*same, "new"))
    assert [line.kind for line in result.lines] == ["gap", "same", "gone", "new"]
    assert result.lines[0].count == 49 and (result.gone, result.new) == (1, 1)
    long = compare(of(*[f"a{n}" for n in range(900)]), of(*[f"b{n}" for n in range(900)]))
    assert long.cut and len(long.lines) <= 400


def test_a_page_of_a_pdf_is_drawn_for_whoever_may_read_it(world: World, alice: Client) -> None:
    document = indexed(world.principal(world.alice), world.base, "a.pdf", pdf([text(72, 700, "Valves open at 4 bar.")]))
    response = browser(world.bob).get(home(document) + "pages/1.png?rev=1")
    assert response.status_code == 200 and response.headers["Content-Type"] == "image/png"
    assert response.content.startswith(b"\x89PNG\r\n\x1a\n")
    assert browser(world.mallory).get(home(document) + "pages/1.png?rev=1").status_code == 404
    assert alice.get(home(document) + "pages/2.png?rev=1").status_code == 404
    assert alice.get(home(two_revisions(world)) + "pages/1.png?rev=1").status_code == 404
    chunk = Chunk.objects.filter(revision__document=document, level="passage").first()
    assert chunk is not None
    with_mark = alice.get(home(document) + f"pages/1.png?rev=1&chunk=c_{chunk.pk}")
    assert with_mark.content != response.content


def test_a_page_without_its_chinese_fonts_is_refused_rather_than_shown_empty(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(page_drawing, "FONT_FOLDERS", ())
    file = tmp_path / "a.pdf"
    for words, refused in (("Valves open", False), ("阀门打开", True)):
        file.write_bytes(pdf([text(72, 700, words)]))
        source = Source(file, '{"page": 1, "boxes": []}', "application/pdf")
        if refused:
            with pytest.raises(ParseError) as caught:
                page_drawing.draw(source, ParseContext())
            assert caught.value.code == "fonts_not_embedded"
        else:
            assert page_drawing.draw(source, ParseContext()).images[0].mime == "image/png"


def test_pictures_are_written_as_png() -> None:
    pixels = np.array([[[1, 2, 3], [4, 5, 6]]], dtype=np.uint8)
    data = page_drawing.png(pixels)
    assert data[16:24] == (2).to_bytes(4, "big") + (1).to_bytes(4, "big")
    length = int.from_bytes(data[33:37], "big")
    assert zlib.decompress(data[41 : 41 + length]) == bytes([0, 1, 2, 3, 4, 5, 6])
