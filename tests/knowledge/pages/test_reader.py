"""The reader: the cited passage in the cited revision, exactly or not at all."""

from __future__ import annotations

import re

import pytest

from knowledge.models import Chunk, Document, Revision
from tests.knowledge.pages.desk import browser, text_of
from tests.support.people import World, indexed

RULES = "# Rules\n\n## Valves\n\nValves open at 4 bar.\n\n## Pumps\n\nPumps stop at 9 bar."


@pytest.fixture
def document(world: World) -> Document:
    return indexed(world.principal(world.alice), world.base, "rules.md", RULES)


def passage(document: Document, number: int = 1) -> Chunk:
    chunk = Chunk.objects.filter(revision__document=document, revision__number=number, level="passage").first()
    assert chunk is not None
    return chunk


def read(world: World, document: Document, query: str = "") -> str:
    response = browser(world.bob).get(f"/bases/{world.base.uid}/documents/{document.uid}/{query}")
    assert response.status_code == 200
    return text_of(response)


def marked(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", "", inner) for inner in re.findall(r"<mark[^>]*>(.*?)</mark>", page, re.S))


def test_a_leaf_is_marked_exactly(world: World, document: Document) -> None:
    leaf = Chunk.objects.filter(revision__document=document, level="leaf", text__contains="Pumps stop").get()
    page = read(world, document, f"?rev=1&chunk=c_{leaf.pk}")
    assert marked(page).split() == leaf.text.split()
    assert f'id="c_{leaf.pk}"' in page


def test_the_cited_revision_is_shown_with_a_warning_when_there_is_a_newer_one(world: World, document: Document) -> None:
    old = passage(document)
    indexed(world.principal(world.alice), world.base, "rules.md", RULES.replace("4 bar", "5 bar"))
    page = read(world, document, f"?rev=2&chunk=c_{old.pk}")
    assert "4 bar" in marked(page) and "5 bar" not in marked(page)
    assert "Newer version v2" in page


def test_a_passage_that_is_not_in_the_text_is_shown_as_cited_and_never_marked(world: World, document: Document) -> None:
    chunk = passage(document)
    Chunk.objects.filter(pk=chunk.pk).update(text="Valves open at 40 bar, somebody wrote.")
    page = read(world, document, f"?rev=1&chunk=c_{chunk.pk}")
    assert "<mark" not in page
    assert "locate this passage; showing text as cited" in page and "40 bar, somebody wrote" in page


def test_offsets_that_point_elsewhere_mark_nothing(world: World, document: Document) -> None:
    chunk = passage(document)
    Chunk.objects.filter(pk=chunk.pk).update(start=3, end=9)
    assert "<mark" not in read(world, document, f"?chunk=c_{chunk.pk}")


def test_rows_of_a_split_table_are_marked_without_the_repeated_head(world: World) -> None:
    rows = "\n".join(f"P-{number:03},{'valve housing made of brass ' * 6}" for number in range(60))
    document = indexed(world.principal(world.alice), world.base, "parts.csv", f"part,description\n{rows}\n")
    chunk = Chunk.objects.filter(revision__document=document, level="passage").exclude(prefix="").last()
    assert chunk is not None
    page = read(world, document, f"?chunk=c_{chunk.pk}")
    own = re.findall(r"P-\d{3}", chunk.text)
    assert re.findall(r"P-\d{3}", marked(page)) == own and len(own) > 1
    assert "description" not in marked(page)


def test_questions_and_answers_are_found_in_their_row(world: World) -> None:
    from knowledge import bases

    alice = world.principal(world.alice)
    world.base.refresh_from_db()
    bases.save_settings(alice, world.base, "splitting", {**world.base.config["splitting"], "mode": "qa"})
    world.base.refresh_from_db()
    data = "question,answer\nWhen do valves open?,At 4 bar.\nWhen do pumps stop?,At 9 bar.\n"
    document = indexed(alice, world.base, "faq.csv", data)
    chunk = Chunk.objects.filter(revision__document=document, level="passage", text__contains="pumps").get()
    assert marked(read(world, document, f"?chunk=c_{chunk.pk}")) == "When do pumps stop? At 9 bar."


def test_markup_in_the_file_never_acts(world: World) -> None:
    hostile = (
        "# Title\n\n<script>alert(1)</script>\n\n<img src=x onerror=alert(1)>\n\n"
        "![pixel](https://tracker.example/pixel.png)\n\n[go](javascript:alert(1))\n\nWords that stay."
    )
    document = indexed(world.principal(world.alice), world.base, "hostile.md", hostile)
    response = browser(world.bob).get(f"/bases/{world.base.uid}/documents/{document.uid}/")
    text = text_of(response).split('<article class="parsed', 1)[1].split("</article>")[0]
    assert "Words that stay." in text
    # What the file says of such things is text; no element and no address of it comes through.
    assert not re.search(r"<(script|img|a|iframe|style)\b", text)
    assert "img-src 'self'" in response.headers["Content-Security-Policy"]


def test_citations_of_one_answer_are_stepped_through(world: World) -> None:
    text = "\n\n".join(f"## Part {number}\n\n{'Words of this part. ' * 90}{number}" for number in range(6))
    document = indexed(world.principal(world.alice), world.base, "long.md", text)
    chunks = [f"c_{pk}" for pk in Chunk.objects.filter(
        revision__document=document, level="passage").order_by("ordinal").values_list("pk", flat=True)][:3]  # fmt: skip
    assert len(chunks) == 3
    of = ".".join([chunks[0], chunks[1], "c_999999999", chunks[2]])
    page = read(world, document, f"?rev=1&chunk={chunks[1]}&of={of}&back=/ask/")
    assert "Citation 2/3" in page
    assert f"chunk={chunks[0]}" in page and f"#{chunks[2]}" in page
    assert 'href="/ask/"' in page


def test_the_way_back_never_leaves_the_portal(world: World, document: Document) -> None:
    for away in ("https://evil.example/", "//evil.example/", "javascript:alert(1)"):
        assert "evil.example" not in read(world, document, f"?back={away}").split("<main", 1)[1].split("</h1>")[0]


def test_a_long_document_shows_the_part_with_the_passage(world: World) -> None:
    text = "\n\n".join(f"## Section {number}\n\n{'Filler words here. ' * 60}" for number in range(120))
    text += "\n\n## The end\n\nThe treasure lies under the pump."
    document = indexed(world.principal(world.alice), world.base, "long.md", text)
    chunk = Chunk.objects.filter(revision__document=document, level="leaf", text__contains="treasure").first()
    assert chunk is not None
    page = read(world, document, f"?chunk=c_{chunk.pk}")
    assert "treasure" in marked(page) and "Filler" not in read(world, document, "?part=99").split("treasure")[1]
    assert len(page) < 200_000 and "Part 1 of" not in page
    assert "Part 1 of" in read(world, document)


def test_nonsense_in_the_address_is_no_error(world: World, document: Document) -> None:
    for query in ("?part=0", "?part=x", "?page=9999999999", "?chunk=c_", "?chunk=zzz", "?view=page", "?of=a.b.c"):
        assert "Valves open" in read(world, document, query), query
    address = f"/bases/{world.base.uid}/documents/{document.uid}/"
    for query in ("?rev=99", "?rev=-1", "?rev=x", "?rev=99999999999999999999"):
        assert browser(world.bob).get(address + query).status_code == 404, query


def test_the_original_comes_as_an_attachment_that_runs_nothing(world: World) -> None:
    document = indexed(
        world.principal(world.alice), world.base, "手册.html", "<h1>Hi</h1><script>1</script><p>Text</p>"
    )
    response = browser(world.bob).get(f"/bases/{world.base.uid}/documents/{document.uid}/original/")
    assert response.headers["Content-Disposition"].startswith("attachment")
    assert response.headers["Content-Type"] == "application/octet-stream"
    assert "sandbox" in response.headers["Content-Security-Policy"]
    assert b"".join(response).startswith(b"<h1>")


def test_what_failed_says_why_instead_of_an_empty_page(world: World, document: Document) -> None:
    Revision.objects.filter(document=document).update(
        status="failed", parsed_key="", error_code="damaged_file", error_message="This file is damaged."
    )
    assert "This file is damaged." in read(world, document)


def test_what_the_page_says_of_the_state_is_read_again_together_with_the_badge(
    world: World, document: Document
) -> None:
    Revision.objects.filter(document=document).update(status=Revision.Status.VECTORIZING)
    told = re.compile(r'<div id="reader-state" data-live-region>(.*?)</div>', re.S)
    assert "Still processing" in told.findall(read(world, document))[0]
    Revision.objects.filter(document=document).update(status=Revision.Status.INDEXED)
    assert told.findall(read(world, document)) == [""]
