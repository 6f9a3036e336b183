"""A base goes over to another embedding model: beside, at once, and whole at every moment."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import Client

from knowledge import background, lifecycle, model_changes
from knowledge.chunks import verbs
from knowledge.ingestion import pipeline
from knowledge.ingestion.embed import BATCH
from knowledge.model_changes import running
from knowledge.models import Chunk, ChunkVector, KnowledgeBase, ModelChange, QuestionVector, Revision
from knowledge.questions import embedding
from knowledge.questions import verbs as questions
from knowledge.retrieval import Hit, Mode, RetrievalRequest, retrieve
from knowledge.terms import verbs as terms
from knowledge.verification import verify
from portal.gateway import verbs as gateway
from portal.gateway.embedding import space_of
from portal.gateway.models import ModelEndpoint
from portal.kernel.errors import Conflict, Invalid
from portal.kernel.models import AuditEntry, Notification, User
from tests.support.people import PASSWORD, World, indexed, put
from tests.support.slow_model import SteppedProvider, rules

# Calls of models are entered into the account book by a thread of its own, so what it names must be committed.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def provider() -> Iterator[SteppedProvider]:
    with SteppedProvider() as running_provider:
        yield running_provider


@pytest.fixture
def other(world: World, provider: SteppedProvider) -> ModelEndpoint:
    """Another model than the built-in one."""
    endpoint = ModelEndpoint.objects.create(
        name="Other",
        kind=ModelEndpoint.Kind.EMBEDDING,
        provider=ModelEndpoint.Provider.OPENAI_COMPATIBLE,
        model_name="other",
        base_url=provider.url,
        timeout_seconds=60,
    )
    space_of(endpoint)
    return endpoint


def filled(world: World, count: int = 12) -> Revision:
    document = indexed(world.principal(world.alice), world.base, "rules.md", rules(count))
    assert document.active_revision is not None
    return document.active_revision


def begin(world: World, other: ModelEndpoint) -> ModelChange:
    return model_changes.start(world.principal(world.alice), world.base, other.uid)


def through(change: ModelChange) -> None:
    """Slices until there is nothing more to do now; on a busy machine one is not enough."""
    while model_changes.work(change.pk):
        pass


def found_by_meaning(world: World) -> list[str]:
    world.base.refresh_from_db()
    request = RetrievalRequest("rule 3", base_uids=(world.base.uid,), mode="embedding")
    result = retrieve(world.principal(world.bob), request)
    assert not result.warnings
    return [hit.text for hit in result.hits]


def spaces(revision: Revision) -> set[int]:
    return set(ChunkVector.objects.filter(revision=revision).values_list("space_id", flat=True))


def test_a_base_goes_over_and_the_old_vectors_are_gone(world: World, other: ModelEndpoint) -> None:
    revision = filled(world)
    before = spaces(revision)
    change = begin(world, other)
    assert change.total == revision.chunk_count
    through(change)
    change.refresh_from_db()
    world.base.refresh_from_db()
    revision.refresh_from_db()
    assert (change.status, world.base.embedding) == (ModelChange.Status.DONE, other)
    assert spaces(revision) == {space_of(other).pk} == {revision.space_id} != before
    assert found_by_meaning(world)
    assert all(finding.ok for finding in verify())
    actions = list(
        AuditEntry.objects.filter(action__startswith="base.model").order_by("id").values_list("action", flat=True)
    )
    assert actions == ["base.model_change", "base.model_switched"]
    assert Notification.objects.get(user=world.alice, kind="model.changed").params["model"] == "Other"


def test_until_the_switch_searches_use_the_old_model_alone(
    world: World, other: ModelEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision = filled(world)
    hits = found_by_meaning(world)
    seen: list[list[str]] = []
    switch = running._switch

    def looked_at(turn, space):  # type: ignore[no-untyped-def]
        seen.append(found_by_meaning(world))
        assert len(spaces(revision)) == 2
        return switch(turn, space)

    monkeypatch.setattr(running, "_switch", looked_at)
    through(begin(world, other))
    assert seen == [hits]


def test_it_goes_on_where_a_slice_ended_and_embeds_nothing_twice(
    world: World, other: ModelEndpoint, provider: SteppedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(world, 150)
    change = begin(world, other)
    monkeypatch.setattr(background.Turn, "over", property(lambda turn: True))
    assert model_changes.work(change.pk) is True
    change.refresh_from_db()
    assert (change.status, change.done) == (ModelChange.Status.RUNNING, BATCH)
    monkeypatch.undo()
    through(change)
    texts = [text for batch in provider.batches for text in batch if "rule" in text]
    assert len(texts) >= 150
    change.refresh_from_db()
    assert change.status == ModelChange.Status.DONE
    assert ChunkVector.objects.filter(space=space_of(other)).count() == change.total


def test_a_passage_edited_and_one_excluded_meanwhile_are_found_with_the_new_model(
    world: World, other: ModelEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision = filled(world, 120)
    alice = world.principal(world.alice)
    switch = running._switch
    edits: list[str] = []

    def meanwhile(turn, space):  # type: ignore[no-untyped-def]
        if not edits:
            rows = Chunk.objects.filter(revision=revision, level="passage").order_by("ordinal")
            first, second = rows.select_related("revision__document__base", "revision__space")[:2]
            verbs.edit(alice, first, "The quagga stands in the yard.", version=1)
            verbs.set_enabled(alice, second, False, version=1)
            edits.extend([first.text, second.text])
        return switch(turn, space)

    monkeypatch.setattr(running, "_switch", meanwhile)
    change = begin(world, other)
    for _ in range(10):
        through(change)
        change.refresh_from_db()
        if not change.is_open:
            break
    assert change.status == ModelChange.Status.DONE
    assert spaces(revision) == {space_of(other).pk}
    found = found_by_meaning(world)
    assert edits[1] not in found and edits[0] not in found and found
    assert all(finding.ok for finding in verify())


def test_a_cancelled_change_leaves_the_base_as_it_was(world: World, other: ModelEndpoint) -> None:
    revision = filled(world)
    kept = spaces(revision)
    change = begin(world, other)
    model_changes.cancel(world.principal(world.alice), change)
    assert model_changes.work(change.pk) is False
    world.base.refresh_from_db()
    assert world.base.embedding != other
    assert model_changes.current(world.base) is None
    assert spaces(revision) == kept


def test_vectors_of_a_cancelled_change_are_cleaned_up_and_those_of_one_under_way_are_not(
    world: World, other: ModelEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision = filled(world, 100)
    kept = spaces(revision)
    change = begin(world, other)
    monkeypatch.setattr(background.Turn, "over", property(lambda turn: True))
    model_changes.work(change.pk)
    assert model_changes.drop_leftovers() == 0
    assert len(spaces(revision)) == 2
    model_changes.cancel(world.principal(world.alice), change)
    assert model_changes.drop_leftovers() == BATCH
    assert spaces(revision) == kept


def test_a_worker_that_lost_its_claim_neither_writes_nor_switches(
    world: World, other: ModelEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision = filled(world)
    change = begin(world, other)
    embed = running._embed

    def overtaken(turn, space):  # type: ignore[no-untyped-def]
        whole = embed(turn, space)
        ModelChange.objects.filter(pk=change.pk).update(claim_no=99)
        return whole

    monkeypatch.setattr(running, "_embed", overtaken)
    through(change)
    world.base.refresh_from_db()
    assert world.base.embedding != other
    revision.refresh_from_db()
    assert revision.space_id != space_of(other).pk


def test_what_was_being_embedded_with_the_old_model_is_embedded_with_the_new_before_it_is_published(
    world: World, other: ModelEndpoint
) -> None:
    filled(world)
    late = put(world.principal(world.alice), world.base, "late.md", rules(4, "late")).revision
    assert late is not None
    claim = lifecycle.claim("slow", late.pk)
    assert claim is not None
    publish = lifecycle.publish

    def after_the_switch(held: lifecycle.Claim) -> None:
        through(begin(world, other))
        publish(held)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lifecycle, "publish", after_the_switch)
        pipeline.work(claim)
    late.refresh_from_db()
    assert (late.status, late.claimed_by) == (Revision.Status.VECTORIZING, "")
    claim = lifecycle.claim("next", late.pk)
    assert claim is not None
    pipeline.work(claim)
    late.refresh_from_db()
    assert (late.status, late.space_id) == (Revision.Status.INDEXED, space_of(other).pk)
    model_changes.drop_leftovers()
    assert all(finding.ok for finding in verify())


def test_a_model_that_is_away_is_waited_for(world: World, other: ModelEndpoint, provider: SteppedProvider) -> None:
    filled(world)
    change = begin(world, other)
    provider.fault = "503"
    through(change)
    change.refresh_from_db()
    assert (change.status, change.heartbeat_at) == (ModelChange.Status.RUNNING, None)
    assert change.waiting
    provider.fault = ""
    through(change)
    change.refresh_from_db()
    assert (change.status, change.waiting) == (ModelChange.Status.DONE, "")


def test_there_is_one_change_at_a_time_and_none_to_the_same_model(world: World, other: ModelEndpoint) -> None:
    begin(world, other)
    with pytest.raises(Conflict) as refused:
        begin(world, other)
    assert refused.value.code == "model_change_open"
    with pytest.raises(Invalid) as same:
        model_changes.start(world.principal(world.alice), world.base, world.base.embedding.uid)
    assert same.value.code == "model_same"


def test_texts_of_a_sensitive_base_leave_the_house_only_when_somebody_says_so(
    world: World, other: ModelEndpoint
) -> None:
    KnowledgeBase.objects.filter(pk=world.base.pk).update(sensitive=True)
    with pytest.raises(Conflict) as refused:
        begin(world, other)
    assert refused.value.code == "text_leaves_house"
    model_changes.start(world.principal(world.alice), world.base, other.uid, confirmed=True)


def test_an_earlier_revision_has_no_vectors_of_the_new_model_and_says_so(world: World, other: ModelEndpoint) -> None:
    first = filled(world)
    put(world.principal(world.alice), world.base, "rules.md", rules(5))
    newest = Revision.objects.latest("pk")
    claim = lifecycle.claim("one", newest.pk)
    assert claim is not None
    pipeline.work(claim)
    through(begin(world, other))
    first.refresh_from_db()
    with pytest.raises(Conflict) as refused:
        lifecycle.activate(world.principal(world.alice), first.document, first)
    assert refused.value.code == "vectors_gone"
    assert not ChunkVector.objects.filter(revision=first).exists()


def test_questions_and_terms_go_over_with_their_base(world: World, other: ModelEndpoint) -> None:
    alice = world.principal(world.alice)
    revision = filled(world)
    passage = Chunk.objects.defer("lexemes").filter(revision=revision, level="passage").first()
    assert passage is not None
    questions.add(alice, passage, ["May I bring my dog along?"])
    terms.take_over(alice, world.base, [terms.Wanted("rule 3", synonyms=("the third law",))])
    embedding.embed_missing()

    def found(query: str, mode: Mode) -> Hit:
        world.base.refresh_from_db()
        return retrieve(alice, RetrievalRequest(query, (world.base.uid,), mode=mode)).hits[0]

    def follow() -> None:
        assert found("May I bring my dog along?", "embedding").question
        assert found("May I bring my dog along?", "keywords").question
        assert "rule 3" in found("the third law", "keywords").text

    follow()
    through(begin(world, other))
    follow()
    assert set(QuestionVector.objects.values_list("space_id", flat=True)) == {space_of(other).pk}


def test_an_endpoint_that_holds_vectors_gets_no_other_model_behind_the_back_of_its_bases(
    world: World, other: ModelEndpoint, provider: SteppedProvider
) -> None:
    filled(world)
    through(begin(world, other))
    hits = found_by_meaning(world)
    client = Client()
    client.force_login(User.objects.create_superuser("olga", password=PASSWORD))
    page = f"/admin/gateway/modelendpoint/{other.pk}/change/"
    for changes in ({"model_name": "another"}, {"base_url": f"{provider.url}/elsewhere"}):
        other.refresh_from_db()
        for name, value in changes.items():
            setattr(other, name, value)
        with pytest.raises(Conflict) as refused:
            gateway.save_endpoint(None, other)
        assert (refused.value.code, refused.value.params["n"]) == ("model_in_use", 1)
        form = client.get(page).context["adminform"].form
        kept = {name: "" if form[name].value() is None else form[name].value() for name in form.fields}
        said = client.post(page, {**kept, "parameters": "{}", **changes}, follow=True).content.decode()
        assert "hold vectors of this model" in said
    other.refresh_from_db()
    assert (other.model_name, other.base_url) == ("other", provider.url)
    other.timeout_seconds = 30
    gateway.save_endpoint(None, other)  # what is not the model may be changed
    assert found_by_meaning(world) == hits
    free = ModelEndpoint.objects.create(name="Free", kind="embedding", provider=other.provider, base_url=provider.url)
    free.model_name = "whatever"
    gateway.save_endpoint(None, free)


def test_vectors_of_another_model_are_said_and_not_silently_found_empty(world: World, other: ModelEndpoint) -> None:
    filled(world)
    KnowledgeBase.objects.filter(pk=world.base.pk).update(embedding=other)
    result = retrieve(world.principal(world.bob), RetrievalRequest("rule 3", (world.base.uid,)))
    assert [warning["code"] for warning in result.warnings] == ["vectors_missing"]
    assert "rule 3" in result.hits[0].text


# -- doors -----------------------------------------------------------------------------------------


def signed_in(world: World, name: str) -> Client:
    client = Client()
    assert client.login(username=name, password=PASSWORD)
    return client


def test_the_page_starts_shows_and_stops_a_change(world: World, other: ModelEndpoint) -> None:
    filled(world)
    client = signed_in(world, "alice")
    page = f"/bases/{world.base.uid}/settings/?section=models"
    assert b"New embedding model" in client.get(page).content
    assert client.post(f"/bases/{world.base.uid}/settings/model/", {"embedding": other.uid}).status_code == 302
    shown = client.get(page).content.decode()
    assert "Changing to Other" in shown and "data-works" in shown
    assert client.post(f"/bases/{world.base.uid}/settings/model/stop/").status_code == 302
    assert "was cancelled" in client.get(page).content.decode()


def test_only_owners_change_a_model(world: World, other: ModelEndpoint) -> None:
    address = f"/bases/{world.base.uid}/settings/model/"
    assert signed_in(world, "bob").post(address, {"embedding": other.uid}).status_code == 403
    assert signed_in(world, "mallory").post(address, {"embedding": other.uid}).status_code == 404
    assert signed_in(world, "eve").post(address, {"embedding": other.uid}).status_code == 404
    assert not ModelChange.objects.exists()


def test_the_api_starts_shows_and_stops_a_change(world: World, other: ModelEndpoint) -> None:
    filled(world)
    client = signed_in(world, "alice")
    address = f"/api/v1/bases/{world.base.uid}/model-change"
    assert client.get(address).status_code == 404
    started = client.post(address, {"embedding": other.uid}, content_type="application/json")
    assert (started.status_code, started.json()["status"]) == (202, "queued")
    assert client.post(address, {"embedding": other.uid}, content_type="application/json").status_code == 409
    assert client.get(address).json()["after"] == other.uid
    assert client.delete(address).json()["status"] == "cancelled"
    assert signed_in(world, "mallory").get(address).status_code == 404
