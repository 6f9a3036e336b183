"""Changing passages in their list, trying another split with what it loses, and deciding about what waits."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from knowledge import bases
from knowledge.models import Chunk, Document, Revision
from knowledge.pages.comparing import word_changes
from tests.knowledge.pages.desk import a_file, browser, text_of
from tests.support.people import World, indexed, work_through

TEXT = """# Pumps

Pump P-100 runs at 40 bar and is checked every month by the night shift. The foreman signs the sheet and hangs it up.

# Valves

Valve V-7 opens at 4 bar. See https://example.org/v7 or ask the keeper. It hangs beside the red ladder in hall three.

# Staff

Everybody has twelve days off in a year, counted from the first of March. Whoever is ill brings a note on the third day.
"""


@pytest.fixture
def alice(world: World) -> Client:
    principal = world.principal(world.alice)
    bases.save_settings(principal, world.base, "splitting", {"passage_tokens": 60, "leaf_tokens": 30})
    world.base.refresh_from_db()
    return browser(world.alice)


@pytest.fixture
def document(world: World, alice: Client) -> Document:
    return indexed(world.principal(world.alice), world.base, "plant.md", TEXT)


def home(document: Document) -> str:
    return f"/bases/{document.base.uid}/documents/{document.uid}/"


def passages(document: Document) -> list[Chunk]:
    document.refresh_from_db()
    return list(Chunk.objects.filter(revision=document.active_revision, level="passage").order_by("ordinal"))


def act(client: Client, document: Document, row: Chunk, verb: str, **data: Any) -> Any:
    return client.post(f"{home(document)}chunks/{row.pk}/{verb}/", {"version": row.version, **data})


def undo(client: Client, document: Document) -> Any:
    page = text_of(client.get(home(document) + "chunks/"))
    change = re.search(r'name="change" value="(\w+)"', page)
    assert change is not None, "no undo is offered"
    return client.post(home(document) + "revisions/1/undo/", {"change": change[1]})


def test_a_passage_is_edited_in_place_and_the_change_can_be_undone(alice: Client, document: Document) -> None:
    row = passages(document)[1]
    form = text_of(alice.get(home(document) + f"chunks/?open={row.pk}&panel=edit"))
    assert f'action="{home(document)}chunks/{row.pk}/edit/"' in form and "autofocus" in form
    assert "data-live-region" not in form.split('id="chunk-region"')[1].split(">")[0]
    saved = act(alice, document, row, "edit", text="Valve V-7 is titanium.\r\nTwo lines.")
    assert saved.status_code == 302 and saved["Location"].endswith(f"&open={row.pk}#k{row.pk}")
    assert passages(document)[1].text == "Valve V-7 is titanium.\nTwo lines."
    assert undo(alice, document).status_code == 302
    assert passages(document)[1].text == row.text
    page = text_of(alice.get(home(document) + "chunks/"))
    assert 'name="change"' in page, "an undo can be undone"
    assert 'name="change"' not in text_of(alice.get(home(document) + "chunks/"))


def test_who_was_slower_keeps_what_they_typed(alice: Client, document: Document) -> None:
    row = passages(document)[1]
    act(alice, document, row, "edit", text="Valve V-7: first.")
    late = act(alice, document, row, "edit", text="Valve V-7: my long work.")
    page = text_of(late)
    assert late.status_code == 409 and "Somebody has changed this passage meanwhile" in page
    assert "Valve V-7: my long work.</textarea>" in page
    # The form is about the version of today: sending it again is a decision.
    assert f'name="version" value="{row.version + 1}"' in page
    empty = act(alice, document, passages(document)[1], "edit", text="  ")
    assert empty.status_code == 422 and "Write some text" in text_of(empty)


def test_buttons_exclude_merge_cut_add_and_remove(alice: Client, document: Document) -> None:
    first, second, third = passages(document)
    act(alice, document, first, "exclude")
    assert "Excluded" in text_of(alice.get(home(document) + "chunks/?show=excluded"))
    act(alice, document, passages(document)[0], "include")
    places = text_of(alice.get(home(document) + f"chunks/?open={second.pk}&panel=split"))
    position = re.search(r'name="position" value="(\d+)"[^<]*<span[^>]*>See https', places)
    assert position is not None
    act(alice, document, second, "split", position=position[1])
    assert [row.text[:9] for row in passages(document)] == ["Pumps\n\nPu", "Valves\n\nV", "See https", "Staff\n\nEv"]
    act(alice, document, passages(document)[1], "merge")
    assert passages(document)[1].text == second.text
    act(alice, document, third, "add", text="By hand.")
    assert passages(document)[-1].text == "By hand."
    gone = act(alice, document, passages(document)[-1], "remove")
    assert f"#k{third.pk}" in gone["Location"]
    removed = text_of(alice.get(home(document) + "chunks/?show=removed"))
    assert "By hand." in removed and "Bring back" in removed
    hand = Chunk.objects.get(text="By hand.", level="gone")
    act(alice, document, hand, "restore", to=hand.version)
    assert passages(document)[-1].text == "By hand."
    alice.post(home(document) + "revisions/1/add-first/", {"text": "Before all."})
    assert passages(document)[0].text == "Before all."
    nothing = act(alice, document, passages(document)[1], "split")
    assert nothing.status_code == 422 and "Choose one first" in text_of(nothing)


def test_parts_of_a_passage_are_shown_as_searched_and_edited(alice: Client, document: Document) -> None:
    row = passages(document)[1]
    leaf = row.leaves.order_by("ordinal")[0]
    shown = text_of(alice.get(home(document) + f"chunks/?open={row.pk}&panel=leaves"))
    assert "plant &gt; Valves" in shown or "plant\nValves" in shown
    form = text_of(alice.get(home(document) + f"chunks/?open={row.pk}&panel=leaf&leaf={leaf.pk}"))
    assert f"chunks/{leaf.pk}/edit/" in form
    alice.post(f"{home(document)}chunks/{leaf.pk}/edit/", {"version": 1, "text": "Valve V-7 opens at 11 bar."})
    assert "11 bar" in passages(document)[1].text
    again = passages(document)[1].leaves.order_by("ordinal")[0]
    alice.post(f"{home(document)}chunks/{again.pk}/exclude/", {"version": 2})
    assert passages(document)[1].leaves.order_by("ordinal")[0].enabled is False


def test_history_tells_who_when_and_what_and_restores(alice: Client, document: Document, world: World) -> None:
    row = passages(document)[1]
    act(alice, document, row, "edit", text=row.text.replace("4 bar", "9 bar"))
    page = text_of(browser(world.bob).get(home(document) + f"chunks/?open={row.pk}&panel=history"))
    assert "Made by splitting" in page and "Text edited" in page and "Alice" in page
    assert "<del>4</del><ins>9</ins>" in page
    assert "Restore version 1" not in page
    assert "Restore version 1" in text_of(alice.get(home(document) + f"chunks/?open={row.pk}&panel=history"))
    act(alice, document, passages(document)[1], "restore", to=1)
    assert passages(document)[1].text == row.text


def test_a_citation_made_before_an_edit_shows_the_old_text_and_says_so(alice: Client, document: Document) -> None:
    row = passages(document)[1]
    act(alice, document, row, "edit", text="Valve V-7 is titanium.")
    old = text_of(alice.get(home(document) + f"?rev=1&chunk=c_{row.pk}"))
    assert "changed since it was cited" in old and "titanium" not in old
    assert f'<mark class="passage-mark" id="c_{row.pk}"' in old
    new = text_of(alice.get(home(document) + f"?rev=1&chunk=c_{row.pk}&v=2"))
    assert "Valve V-7 is titanium." in new and "written or changed by hand" in new
    assert "changed since it was cited" not in new
    act(alice, document, passages(document)[1], "remove")
    for version in ("", "&v=2", "&v=3"):
        assert "removed since it was cited" in text_of(alice.get(home(document) + f"?rev=1&chunk=c_{row.pk}{version}"))


def test_readers_look_and_change_nothing(alice: Client, document: Document, world: World) -> None:
    bob, row = browser(world.bob), passages(document)[0]
    page = text_of(bob.get(home(document) + f"chunks/?open={row.pk}&panel=edit"))
    assert "<textarea" not in page and "/exclude/" not in page and "What searches match" in page
    assert act(bob, document, row, "edit", text="x").status_code == 403
    assert bob.get(home(document) + "chunks/preview/").status_code == 200
    assert bob.post(home(document) + "chunks/preview/", {"do": "split"}).status_code == 403
    mallory = browser(world.mallory)
    assert act(mallory, document, row, "edit", text="x").status_code == 404
    elsewhere = indexed(world.principal(world.alice), world.base, "b.md", "# B\n\nOther words.")
    stray = alice.post(f"{home(elsewhere)}chunks/{row.pk}/exclude/", {"version": 1})
    assert stray.status_code == 404


FIELDS: dict[str, Any] = {"mode": "smart", "passage_tokens": 60, "leaf_tokens": 30, "overlap_tokens": 0}


def test_the_preview_splits_as_indexing_does(alice: Client, document: Document) -> None:
    stored = passages(document)
    page = text_of(alice.get(home(document) + "chunks/preview/"))
    assert re.search(rf"<dt>Passages</dt><dd>{len(stored)}</dd>", page)
    assert all(row.text.split("\n\n")[1][:40] in page for row in stored)
    sent = alice.post(home(document) + "chunks/preview/", {**FIELDS, "remove_urls": "on", "do": "preview"})
    assert sent.status_code == 302 and "csrf" not in sent["Location"]
    tried = text_of(alice.get(home(document) + "chunks/preview/" + sent["Location"].split("#")[0]))
    assert "Web addresses: 1×" in " ".join(tried.split())
    assert [row.pk for row in passages(document)] == [row.pk for row in stored]
    wrong = alice.get(home(document) + "chunks/preview/?mode=smart&passage_tokens=1&leaf_tokens=30&overlap_tokens=0")
    assert wrong.status_code == 422 and "1 thing to fix" in text_of(wrong)
    broken = alice.get(home(document) + "chunks/preview/", {**FIELDS, "patterns": "("})
    assert broken.status_code == 422 and "is not a valid regular expression" in text_of(broken)


def test_a_new_split_lists_what_it_loses_before_it_is_done(alice: Client, document: Document) -> None:
    row = passages(document)[1]
    act(alice, document, row, "edit", text="Valve V-7 is titanium.")
    page = text_of(alice.get(home(document) + "chunks/preview/"))
    assert "1 change made by hand is carried over" in page and "Valve V-7 is titanium." in page
    fields = {**FIELDS, "mode": "separators", "separators": "Never", "passage_tokens": "400", "leaf_tokens": "200"}
    refused = alice.post(home(document) + "chunks/preview/?rev=1", {**fields, "do": "split"})
    assert refused.status_code == 409 and "1 change made by hand is not kept" in text_of(refused)
    done = alice.post(home(document) + "chunks/preview/?rev=1", {**fields, "do": "split", "discard": "yes"})
    assert done.status_code == 302
    revision = work_through(Revision.objects.get(document=document, number=2))
    assert revision.own_splitting and revision.status == Revision.Status.INDEXED
    assert "Split as the base says" in text_of(alice.get(home(document) + "chunks/preview/"))


def waiting(alice: Client, world: World, name: str) -> Revision:
    sent = alice.post(
        f"/bases/{world.base.uid}/documents/upload/", {"file": a_file(name, TEXT + name), "review": "true"}
    )
    assert sent.status_code == 302
    return work_through(Revision.objects.get(document__name=name))


def test_an_upload_can_wait_for_a_look_and_be_split_again_there(alice: Client, world: World) -> None:
    assert "Look at the chunks first" in text_of(alice.get(f"/bases/{world.base.uid}/documents/upload/"))
    revision = waiting(alice, world, "a.md")
    assert revision.status == Revision.Status.REVIEW
    page = text_of(alice.get(home(revision.document) + "chunks/"))
    assert "Approve and index" in page and "Change the splitting" in page
    alice.post(
        home(revision.document) + "chunks/preview/?rev=1",
        {**FIELDS, "passage_tokens": 400, "leaf_tokens": 110, "do": "split"},
    )
    assert work_through(revision).status == Revision.Status.REVIEW
    assert Chunk.objects.filter(revision=revision, level="passage").count() == 1


def test_several_waiting_documents_are_decided_together(alice: Client, world: World) -> None:
    rows = [waiting(alice, world, name) for name in ("a.md", "b.md", "c.md")]
    address = f"/bases/{world.base.uid}/review/"
    page = text_of(alice.get(address))
    assert all(row.document.name in page for row in rows)
    again = {**FIELDS, "passage_tokens": 400, "action": "resplit", "ids": [row.uid for row in rows]}
    assert alice.post(address, again).status_code == 302
    assert {work_through(row).status for row in rows} == {Revision.Status.REVIEW}
    alice.post(address, {"action": "confirm", "ids": [rows[0].uid, rows[1].uid]})
    assert {work_through(row).status for row in rows[:2]} == {Revision.Status.INDEXED}
    late = alice.post(address, {"action": "confirm", "ids": [rows[0].uid]})
    assert late.status_code == 422 and "does not wait for a review" in text_of(late)
    none = alice.post(address, {"action": "discard"})
    assert none.status_code == 422 and "No document was chosen" in text_of(none)
    alice.post(address, {"action": "discard", "ids": [rows[2].uid]})
    assert "Nothing waits for review" in text_of(alice.get(address))
    assert browser(world.bob).get(address).status_code == 403
    assert browser(world.mallory).get(address).status_code == 404


def test_changes_of_words_are_told_word_by_word_and_chinese_by_character() -> None:
    told = [(change.kind, change.text) for change in word_changes("阀门在4巴打开 now", "阀门在9巴打开 now")]
    assert told == [("same", "阀门在"), ("gone", "4"), ("new", "9"), ("same", "巴打开 now")]
    long = word_changes("same " * 2_000 + "\nold", "same " * 2_000 + "\nnew")
    assert [change.kind for change in long] == ["same", "gone", "new"] and len(long[0].text) < 200
