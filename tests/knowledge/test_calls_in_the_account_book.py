"""Whatever a base needs of an embedding model stands in the account book, with who pays for it and what for."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import pytest

from knowledge import model_changes
from knowledge.chunks import verbs
from knowledge.models import Chunk, Document, QuestionVector
from knowledge.questions import embedding
from knowledge.questions import verbs as questions
from portal.gateway import quotas
from portal.gateway.models import ModelEndpoint, Purpose, Quota, UsageRecord
from portal.kernel.errors import TooMany
from portal.kernel.models import Membership
from tests.support.people import World, indexed
from tests.support.slow_model import SteppedProvider, rules

# Calls of models are entered into the account book by a thread of its own, so what it names must be committed.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def provider() -> Iterator[SteppedProvider]:
    with SteppedProvider() as running_provider:
        yield running_provider


@pytest.fixture
def unmeasured(provider: SteppedProvider) -> ModelEndpoint:
    """A model whose vectors nobody has asked for yet."""
    return ModelEndpoint.objects.create(
        name="Remote",
        kind=ModelEndpoint.Kind.EMBEDDING,
        provider=ModelEndpoint.Provider.OPENAI_COMPATIBLE,
        model_name="stepped",
        base_url=provider.url,
        timeout_seconds=60,
    )


@pytest.fixture
def document(world: World, unmeasured: ModelEndpoint) -> Document:
    world.base.embedding = unmeasured
    world.base.save(update_fields=["embedding"])
    return indexed(world.principal(world.alice), world.base, "rules.md", rules(3))


def passage(document: Document) -> Chunk:
    document.refresh_from_db()
    rows = Chunk.objects.defer("lexemes").filter(revision=document.active_revision, level="passage")
    found = rows.select_related("revision__document__base").first()
    assert found is not None
    return found


def written(purpose: Purpose) -> list[tuple[str, str]]:
    """Who paid for the calls of a purpose, and in which bases' name."""
    rows = UsageRecord.objects.filter(purpose=purpose).order_by("id").select_related("user")
    return [(row.user.username if row.user else "", ",".join(row.bases)) for row in rows]


def used_up(world: World, **whose: object) -> None:
    Quota.objects.create(
        workspace=world.workspace, unit="tokens", period="day", limit=Decimal(1), **{"subject": "person", **whose}
    )
    quotas.forget_accounts()


def test_indexing_and_the_first_measuring_of_its_model_are_the_uploaders(world: World, document: Document) -> None:
    assert written(Purpose.INGEST) == [("alice", world.base.uid)]
    assert set(written(Purpose.MEASURE)) == {("alice", "")}
    assert UsageRecord.objects.filter(tokens_in=0).count() == 0


def test_an_edited_passage_is_paid_for_by_who_edits_and_refused_when_their_quota_is_used_up(
    world: World, document: Document
) -> None:
    row = passage(document)
    verbs.edit(world.principal(world.admin), row, "Nobody feeds the pigeons.", version=row.version)
    assert written(Purpose.EDIT) == [(world.admin.username, world.base.uid)]
    used_up(world, user=world.alice)
    row = passage(document)
    with pytest.raises(TooMany) as refused:
        verbs.edit(world.principal(world.alice), row, "Everybody feeds the pigeons.", version=row.version)
    assert refused.value.code == "quota_exceeded"
    assert passage(document).text == "Nobody feeds the pigeons."


def test_questions_are_paid_for_by_their_authors_and_one_empty_purse_stops_nobody_else(
    world: World, document: Document
) -> None:
    questions.add(world.principal(world.alice), passage(document), ["May I bring my dog along?"])
    questions.add(world.principal(world.admin), passage(document), ["Is a cat a dog?"])
    used_up(world, user=world.alice)
    assert embedding.embed_missing() == 1
    assert QuestionVector.objects.get().question.text == "Is a cat a dog?"
    records = UsageRecord.objects.filter(purpose=Purpose.QUESTION_VECTORS)
    assert {(row.user_id, row.outcome) for row in records} == {(world.alice.pk, "refused"), (world.admin.pk, "ok")}


def test_the_workspace_pays_for_what_somebody_began_who_has_left(world: World, document: Document) -> None:
    questions.add(world.principal(world.alice), passage(document), ["May I bring my dog along?"])
    Membership.objects.filter(user=world.alice).delete()
    assert embedding.embed_missing() == 1
    assert written(Purpose.QUESTION_VECTORS) == [("", world.base.uid)]
    used_up(world, subject="workspace")
    ModelEndpoint.objects.update(space=None)
    assert embedding.embed_missing() == 0


def test_a_change_of_model_is_paid_for_by_who_started_it_questions_included(world: World, document: Document) -> None:
    questions.add(world.principal(world.alice), passage(document), ["May I bring my dog along?"])
    other = ModelEndpoint.objects.get(name="Remote")
    other.pk, other.uid, other.space, other.name, other.model_name = None, "n" * 16, None, "New", "other"
    other._state.adding = True
    other.save()
    change = model_changes.start(world.principal(world.admin), world.base, other.uid)
    before = UsageRecord.objects.count()
    while model_changes.work(change.pk):
        pass
    new = UsageRecord.objects.order_by("id")[before:]
    assert {row.user_id for row in new} == {world.admin.pk}
    assert {row.purpose for row in new} == {"measure", "embed"}
    assert [row.tokens_in > 0 for row in new] == [True] * len(new)
