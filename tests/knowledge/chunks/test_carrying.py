"""Changes by hand when a document is split anew: what goes along, what is listed as lost, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from knowledge import base_settings, bases, lifecycle
from knowledge.chunks import history, verbs
from knowledge.chunks.losses import changes
from knowledge.chunks.preview import preview
from knowledge.models import Chunk, ChunkVersion, Revision
from portal.kernel.errors import Conflict
from tests.knowledge.chunks.test_editing import TEXT, Desk, desk, promises_hold
from tests.support.people import World, indexed, put, work_through

__all__ = ["desk"]


def texts(desk: Desk) -> list[str]:
    return [row.text for row in desk.passages()]


def kinds(found: Any) -> list[tuple[str, str]]:
    return [(one.kind, one.text[:9]) for one in found]


def change_everything(desk: Desk) -> None:
    """An edit, a removal and an addition in a document of three passages."""
    verbs.edit(desk.alice, desk.passage("V-7"), "Valve V-7 is made of titanium.", version=1)
    verbs.add(desk.alice, desk.revision, "The ombudsman is Mrs Quill.", after=desk.passage("twelve days"))
    verbs.remove(desk.alice, desk.passage("P-100"), version=1)


def test_everything_goes_along_to_a_split_that_comes_out_the_same(desk: Desk, world: World) -> None:
    change_everything(desk)
    verbs.set_enabled(desk.alice, desk.passage("twelve days"), False, version=1)
    before, old = texts(desk), desk.revision
    found = preview(desk.revision, {})
    assert [one.kind for one in found.kept] == ["edited", "excluded", "added", "removed"] and not found.lost
    work_through(lifecycle.reindex(desk.alice, desk.document))
    assert desk.revision.pk != old.pk and texts(desk) == before
    assert [row.enabled for row in desk.passages()] == [True, False, True]
    assert any("titanium" in text for text in desk.found("titanium", "embedding"))
    promises_hold(desk)
    made, carried = history.versions_of(desk.passage("V-7"))
    assert (made.verb, carried.verb, carried.edited_by) == ("made", "carry", world.alice)
    assert "brass" in made.text
    # And once more: what was carried is still known as made by hand.
    work_through(lifecycle.reindex(desk.alice, desk.document))
    assert texts(desk) == before
    promises_hold(desk)


def test_what_was_carried_over_can_be_undone_and_restored(desk: Desk) -> None:
    change_everything(desk)
    work_through(lifecycle.reindex(desk.alice, desk.document))
    version = desk.passage("V-7").versions.get(number=2)
    verbs.undo(desk.alice, desk.revision, version.change)
    assert "brass" in desk.passage("V-7").text
    gone = Chunk.objects.get(revision=desk.revision, level="gone")
    verbs.restore(desk.alice, gone, 1, version=gone.version)
    assert "P-100" in texts(desk)[0]
    promises_hold(desk)


def test_merges_and_cuts_go_along_whole(desk: Desk) -> None:
    verbs.merge(desk.alice, desk.passages()[0], version=1)
    staff = desk.passage("twelve days")
    verbs.cut(desk.alice, staff, staff.text.index("Whoever"), version=1)
    before = [(row.text, row.start, row.end, row.heading_path) for row in desk.passages()]
    assert [kind for kind, _ in kinds(preview(desk.revision, {}).kept)] == ["merged", "cut", "cut"]
    work_through(lifecycle.reindex(desk.alice, desk.document))
    assert [(row.text, row.start, row.end, row.heading_path) for row in desk.passages()] == before
    assert [kind for kind, _ in kinds(changes(desk.revision))] == ["merged", "cut", "cut"]
    promises_hold(desk)


def test_a_new_split_lists_what_it_loses_and_is_refused_until_that_is_accepted(desk: Desk) -> None:
    assert changes(desk.revision) == []
    change_everything(desk)
    assert [kind for kind, _ in kinds(changes(desk.revision))] == ["edited", "added", "removed"]
    whole = {"passage_tokens": 400, "leaf_tokens": 110, "mode": "separators", "separators": ["Never"]}
    found = preview(desk.revision, whole)
    assert [kind for kind, _ in kinds(found.lost)] == ["edited", "removed"]
    # What a person wrote stands at a place of the text, whatever the text is split into.
    assert [kind for kind, _ in kinds(found.kept)] == ["added"]
    with pytest.raises(Conflict) as caught:
        lifecycle.reindex(desk.alice, desk.document, splitting=whole)
    assert caught.value.code == "edits_lost" and caught.value.params["n"] == 2
    edited = desk.revision
    fresh = work_through(lifecycle.reindex(desk.alice, desk.document, splitting=whole, discard_edits=True))
    assert "brass" in texts(desk)[0] and texts(desk)[-1] == "The ombudsman is Mrs Quill."
    assert fresh.warnings[-1].startswith("edits_not_carried: 2 ")
    promises_hold(desk)
    lifecycle.activate(desk.alice, desk.document, edited)
    assert any("titanium" in text for text in desk.found("titanium", "blend"))
    promises_hold(desk)


def test_new_bytes_keep_the_changes_whose_passages_are_the_same(desk: Desk, world: World) -> None:
    change_everything(desk)
    safety = "Helmets are worn in every hall, by visitors as well, and so are boots with caps of steel. " * 2
    fresh = TEXT.replace("# Valves", f"# Safety\n\n{safety}\n\n# Valves").replace("twelve", "thirteen")
    indexed(desk.alice, world.base, "plant.md", fresh)
    found = texts(desk)
    # The passage that the addition stood behind reads otherwise now: nobody knows where it belongs.
    assert [any(word in text for text in found) for word in ("titanium", "P-100", "brass", "Quill", "thirteen")] == [
        True, False, False, False, True,
    ]  # fmt: skip
    valve = desk.passage("titanium")
    made = history.state_at(history.versions_of(valve)[0])
    assert valve.heading_path == ["Valves"] and (valve.start, valve.end) == (made.start, made.end)
    promises_hold(desk)


def test_of_equal_passages_the_changed_one_is_told_apart_by_its_rank(world: World) -> None:
    alice = world.principal(world.alice)
    part = "The same words stand here again, in every part of this long and tiring notice about halls. " * 4
    settings = {"mode": "separators", "separators": ["§§"], "passage_tokens": 400, "leaf_tokens": 110}
    bases.save_settings(alice, world.base, "splitting", settings)
    world.base.refresh_from_db()
    desk = Desk(alice, indexed(alice, world.base, "same.md", (part + "§§") * 3))
    same = desk.passages()
    assert len({row.text for row in same}) == 1 and len(same) == 3
    verbs.edit(alice, same[1], "Only the second was changed.", version=1)
    work_through(lifecycle.reindex(alice, desk.document))
    assert [row.text == "Only the second was changed." for row in desk.passages()] == [False, True, False]
    # One more of them, and which is which is no longer certain.
    indexed(alice, world.base, "same.md", (part + "§§") * 4)
    assert "Only the second was changed." not in texts(desk)
    promises_hold(desk)


def test_undone_changes_and_exclusions_of_unchanged_text_are_no_losses(desk: Desk) -> None:
    change = verbs.edit(desk.alice, desk.passage("V-7"), "Valve V-7 is made of titanium.", version=1)
    assert change is not None
    verbs.undo(desk.alice, desk.revision, change.uid)
    merged = verbs.merge(desk.alice, desk.passages()[0], version=1)
    verbs.undo(desk.alice, desk.revision, merged.uid)
    verbs.set_enabled(desk.alice, desk.passage("twelve days"), False, version=1)
    assert changes(desk.revision) == []
    assert kinds(preview(desk.revision, {}).lost) == []
    other = preview(desk.revision, {"mode": "separators", "separators": ["Never"], "passage_tokens": 400})
    assert [one.kind for one in other.lost] == ["excluded"]


def test_changes_in_a_review_go_along_when_it_is_split_again(desk: Desk, world: World) -> None:
    received = put(desk.alice, world.base, "new.md", TEXT.replace("P-100", "P-200"))
    assert received.revision is not None
    config = base_settings.with_splitting(received.revision.config, {"review": "always"})
    Revision.objects.filter(pk=received.revision.pk).update(config=config)
    waiting = work_through(received.revision)
    assert waiting.status == Revision.Status.REVIEW
    rows = Chunk.objects.filter(revision=waiting, level="passage").select_related(
        "revision__document__base", "revision__space"
    )
    pump = next(row for row in rows if "P-200" in row.text)
    verbs.edit(desk.alice, pump, "Pump P-200 is at rest.", version=1)
    verbs.set_enabled(desk.alice, next(row for row in rows if "V-7" in row.text), False, version=1)
    lifecycle.resplit(desk.alice, waiting, {"leaf_tokens": 40})
    assert work_through(waiting).status == Revision.Status.REVIEW
    again = list(rows.all().order_by("ordinal"))
    assert again[0].text == "Pump P-200 is at rest." and [row.enabled for row in again] == [True, False, True]
    lifecycle.confirm(desk.alice, waiting)
    done = work_through(waiting)
    assert (done.status, done.handwork) == (Revision.Status.INDEXED, {})
    promises_hold(desk)


def test_a_try_that_ended_after_carrying_begins_anew_without_traces(desk: Desk) -> None:
    verbs.remove(desk.alice, desk.passage("twelve days"), version=1)
    revision = lifecycle.reindex(desk.alice, desk.document)
    work_through(revision)
    # As after a worker that was lost between carrying over and saying so.
    Revision.objects.filter(pk=revision.pk).update(status="pending", stage="parse", claimed_by="")
    desk.document.refresh_from_db()
    desk.document.active_revision = desk.document.revisions.get(number=1)
    desk.document.save()
    work_through(revision)
    levels = Chunk.objects.filter(revision=revision).exclude(level="leaf").values_list("level", flat=True)
    assert sorted(levels) == ["gone", "passage", "passage"]
    assert ChunkVersion.objects.filter(chunk__revision=revision).count() == 2
