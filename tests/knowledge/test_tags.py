"""The vocabulary: one spelling a tag, renaming, merging and deleting on all documents."""

from __future__ import annotations

import pytest

from knowledge import documents, tags
from knowledge.models import Document, KnowledgeBase, Tag
from knowledge.retrieval import retrieve
from knowledge.retrieval.contract import Filters, RetrievalRequest
from portal.kernel.errors import Conflict, Invalid, NotFound
from portal.kernel.models import AuditEntry
from portal.kernel.principal import Principal
from tests.support.people import World, indexed, put


@pytest.fixture
def alice(world: World) -> Principal:
    return world.principal(world.alice)


def tagged(alice: Principal, base: KnowledgeBase, name: str, *words: str) -> Document:
    row = put(alice, base, name, f"# {name}\n\nwords").document
    return documents.describe(alice, row, tags=list(words))


def of(row: Document) -> list[str]:
    return Document.objects.get(pk=row.pk).tags


def test_the_first_spelling_wins(world: World, alice: Principal) -> None:
    tagged(alice, world.base, "a.md", "Policy")
    second = tagged(alice, world.base, "b.md", " ＰＯＬＩＣＹ ", "policy", "new")
    assert of(second) == ["Policy", "new"]
    assert tags.vocabulary(world.base) == [tags.Used("new", 1), tags.Used("Policy", 2)]


def test_renaming_changes_every_document_and_the_vocabulary(world: World, alice: Principal) -> None:
    rows = [tagged(alice, world.base, f"{n}.md", "hr", "x") for n in range(3)]
    documents.delete(alice, rows[2])
    stamp = KnowledgeBase.objects.get(pk=world.base.pk).stamp
    assert tags.rename(alice, world.base, tags.find(world.base, "HR"), "People") == 2
    assert [of(row) for row in rows] == [["People", "x"]] * 3
    assert tags.names_of(world.base) == ["People", "x"]
    assert KnowledgeBase.objects.get(pk=world.base.pk).stamp > stamp
    assert AuditEntry.objects.get(action="tag.rename").detail == {"before": "hr", "after": "People", "documents": 2}
    assert tags.rename(alice, world.base, tags.find(world.base, "people"), "PEOPLE") == 2
    with pytest.raises(Conflict):
        tags.rename(alice, world.base, tags.find(world.base, "PEOPLE"), "X")


def test_merging_never_gives_a_document_a_tag_twice(world: World, alice: Principal) -> None:
    both = tagged(alice, world.base, "a.md", "old", "new")
    one = tagged(alice, world.base, "b.md", "old")
    tags.merge(alice, world.base, tags.find(world.base, "old"), tags.find(world.base, "new"))
    assert (of(both), of(one)) == (["new"], ["new"])
    assert tags.names_of(world.base) == ["new"]
    with pytest.raises(Invalid):
        tags.merge(alice, world.base, tags.find(world.base, "new"), tags.find(world.base, "new"))


def test_deleting_takes_it_off_all_documents(world: World, alice: Principal) -> None:
    row = tagged(alice, world.base, "a.md", "x", "y")
    assert tags.delete(alice, world.base, tags.find(world.base, "x")) == 1
    assert of(row) == ["y"]
    assert tags.unused(world.base) == []


def test_bases_have_vocabularies_of_their_own(world: World, alice: Principal) -> None:
    tagged(alice, world.base, "a.md", "x")
    eves = tagged(world.principal(world.eve), world.eves_base, "b.md", "x")
    tags.rename(alice, world.base, tags.find(world.base, "x"), "y")
    assert of(eves) == ["x"]


@pytest.mark.parametrize("name", ["", "  ", "\u200b", "x" * 61])
def test_names_that_say_nothing_are_refused(world: World, alice: Principal, name: str) -> None:
    with pytest.raises(Invalid):
        tags.create(alice, world.base, name)


def test_unknown_and_taken_tags(world: World, alice: Principal) -> None:
    tags.create(alice, world.base, "x")
    with pytest.raises(Conflict):
        tags.create(alice, world.base, "X ")
    with pytest.raises(NotFound):
        tags.find(world.base, "nowhere")


def test_searches_are_narrowed_to_tags(world: World, alice: Principal) -> None:
    first = indexed(alice, world.base, "a.md", "# A\n\nThe xylograph of spring.")
    indexed(alice, world.base, "b.md", "# B\n\nThe xylograph of autumn.")
    documents.describe(alice, first, tags=["Season"])
    narrowed = RetrievalRequest("xylograph", filters=Filters(tags=("Season",)))
    assert [hit.document_name for hit in retrieve(alice, narrowed).hits] == ["a.md"]
    assert Tag.objects.count() == 1
