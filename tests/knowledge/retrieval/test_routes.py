"""Proof that no route to a passage is left when it ceases to be findable; the routes stand in `routes`.

The change and every look happen in one and the same transaction: nothing waits for a worker, a commit or a cache.
"""

from __future__ import annotations

import pytest
from django.db import connection, transaction
from django.test import Client
from pytest_django.fixtures import Settings

from knowledge import asking, bases, documents, hit_tests, lifecycle, threads
from knowledge.access import visible_questions
from knowledge.answering import records
from knowledge.answering.contract import Answer, AnswerRequest, State
from knowledge.chunks import verbs as chunks
from knowledge.models import Chunk, Document, Grant, QueryRecord, Role
from knowledge.quality import cases, runs
from knowledge.questions import embedding
from knowledge.questions import verbs as questions
from knowledge.retrieval import RetrievalRequest, retrieve
from portal.kernel import keys
from portal.kernel.models import User
from tests.knowledge.retrieval import routes
from tests.knowledge.retrieval.routes import (
    ASKED,
    BOILER,
    GENERATED,
    HANGS,
    KEPT,
    MARK,
    READERS,
    ROUTES,
    SHOWN,
    STEPS,
    Scene,
)
from tests.support.doors import everything_of_alices
from tests.support.model_server import ModelServer
from tests.support.models import chat_endpoint, endpoint
from tests.support.people import World, indexed, put, work_through

_RULES = " ".join(f"Rule {n} says that this is so and that nothing else is." for n in range(24))
TEXT = (
    f"# Cellar\n\n{_RULES}\n\nThe {MARK} hangs crookedly beside the boiler.\n\n"
    f"# Attic\n\n{_RULES}\n\nThe attic is locked.\n"
)


@pytest.fixture
def scene(world: World, local_model: object, models: ModelServer, settings: Settings) -> Scene:
    # Answers are kept; whether they are used again is a question of their keys alone.
    settings.CACHE_REDIS_URL = "redis://127.0.0.1:9/0"
    alice, bob = world.principal(world.alice), world.principal(world.bob)
    bases.grant(alice, world.base, Role.EDITOR, user=world.bob)
    alices = everything_of_alices(world)
    document = indexed(alice, world.base, "house.md", TEXT)
    chunk = Chunk.objects.defer("lexemes").get(revision=document.active_revision, level="passage", text__contains=HANGS)
    questions.add(alice, chunk, [ASKED])
    questions.add(None, chunk, [GENERATED], source="generated")
    embedding.embed_missing()
    browser = Client(raise_request_exception=False)
    browser.force_login(world.bob)
    _, key = keys.create(bob, name="k", scopes=["kb:read", "chat"])
    request = RetrievalRequest(BOILER, (world.base.uid,), mode="keywords")
    _, record = asking.ask(bob, request, kind=QueryRecord.Kind.ASK, thread="h" * 16)
    run = hit_tests.start(bob, world.base, MARK, {})
    hit_tests.search(bob, request, "blend", run)
    case = cases.add(alice, world.base, "Where is it kept?", [cases.Target(document, chunk.text)])
    chat = chat_endpoint(models)
    assert record is not None and run is not None
    made = Scene(
        world, alices, models, endpoint(models, "demo", provider="cohere", kind="rerank"), chat, document, chunk, case,
        browser, key, record, record, run, runs.create(bob, world.base, [runs.variant("words", "keywords")]),
    )  # fmt: skip
    while runs.work(made.evaluation.pk):
        pass
    prepared = made.prepared()
    asked = AnswerRequest(RetrievalRequest("boiler", (world.base.uid,)))
    waiting = records.keep(bob, asked, prepared, kind=QueryRecord.Kind.ASK, thread="w" * 16, state=State.WAITING)
    answer = Answer("model_opt", State.DONE, f"The {HANGS} there [1].", (1,))
    kept = records.keep(
        bob, asked, prepared, kind=QueryRecord.Kind.ASK, thread=record.thread, state=answer.state, answer=answer
    )
    assert waiting is not None and kept is not None
    made.waiting, made.kept_key = waiting, made.key_now()
    return made


def _disable(scene: Scene) -> None:
    documents.set_enabled(scene.alice, scene.document, False)


def _delete(scene: Scene) -> None:
    documents.delete(scene.alice, scene.document)


def _supersede(scene: Scene) -> None:
    text = TEXT.replace(f"The {MARK} hangs crookedly beside the boiler.", "Nothing hangs there.").replace(
        "# Cellar", "# Basement"
    )
    work_through(put(scene.alice, scene.world.base, "house.md", text).revision)


def _exclude(scene: Scene) -> None:
    chunk = Chunk.objects.select_related("revision__document__base").defer("lexemes").get(pk=scene.chunk.pk)
    chunks.set_enabled(scene.alice, chunk, False, version=chunk.version)


def _remove(scene: Scene) -> None:
    chunk = Chunk.objects.select_related("revision__document__base").defer("lexemes").get(pk=scene.chunk.pk)
    chunks.remove(scene.alice, chunk, version=chunk.version)


def _roll_back(scene: Scene) -> None:
    _supersede(scene)
    document = Document.objects.get(pk=scene.document.pk)
    lifecycle.activate(scene.alice, document, document.revisions.get(number=1))
    lifecycle.activate(scene.alice, Document.objects.get(pk=document.pk), document.revisions.get(number=2))


def _revoke(scene: Scene) -> None:
    bases.revoke(scene.alice, scene.world.base, Grant.objects.get(base=scene.world.base, user=scene.world.bob))


def _delete_base(scene: Scene) -> None:
    bases.delete(scene.alice, scene.world.base)


def _deactivate(scene: Scene) -> None:
    User.objects.filter(pk=scene.world.bob.pk).update(is_active=False)


OUT_OF_SEARCHES = {
    "disabled": _disable,
    "superseded": _supersede,
    "rolled back and forward": _roll_back,
    "passage excluded": _exclude,
    "passage removed": _remove,
}
OUT_OF_SIGHT = {"deleted": _delete, "revoked": _revoke, "base deleted": _delete_base}


def test_every_step_of_a_search_has_its_routes() -> None:
    assert routes.steps_in_source() == set(STEPS), "tell STEPS by which routes the new step is looked at"
    assert {name for names in STEPS.values() for name in names} <= set(ROUTES)


def test_every_module_that_reads_passages_has_its_routes() -> None:
    assert routes.readers_in_source() == set(READERS), "tell READERS by which routes the new module is looked at"
    assert {name for names in READERS.values() for name in names} <= {*ROUTES, *KEPT}
    measured = {"knowledge/bench/retrieval.py"}
    assert routes.searchers_in_source() - measured <= set(READERS)


def test_every_route_leads_to_the_passage_before(scene: Scene) -> None:
    for name, route in {**ROUTES, **KEPT}.items():
        shown = route(scene)
        assert any(text in shown for text in (MARK, *SHOWN)), name


@pytest.mark.parametrize("change", [*OUT_OF_SEARCHES, *OUT_OF_SIGHT])
def test_no_route_is_left_in_the_same_transaction(scene: Scene, change: str) -> None:
    assert connection.in_atomic_block
    {**OUT_OF_SEARCHES, **OUT_OF_SIGHT}[change](scene)
    for name, route in ({**ROUTES, **KEPT} if change in OUT_OF_SIGHT else ROUTES).items():
        shown = route(scene)
        assert not any(text in shown for text in SHOWN), f"{change}: still there by {name}"


def test_no_address_shows_the_passage_any_more(scene: Scene) -> None:
    before = routes.every_address(scene)
    assert len(before) > 12, before
    for name, change in OUT_OF_SIGHT.items():
        with transaction.atomic():
            change(scene)
            assert routes.every_address(scene, before) == [], name
            transaction.set_rollback(True)
    assert routes.every_address(scene, before) == before


def test_a_model_is_not_told_an_earlier_answer_whose_sources_are_gone(scene: Scene) -> None:
    _disable(scene)
    told = records.earlier(scene.bob, threads.turns(scene.bob, scene.record.thread))
    assert [item.exchange.answer for item in told] == ["(The sources of this answer are no longer available.)"] * 2
    assert told[0].exchange.question == BOILER


def test_a_person_who_has_left_reaches_nothing(scene: Scene) -> None:
    bob = scene.bob
    _deactivate(scene)
    for query in (MARK, ASKED):
        assert retrieve(bob, RetrievalRequest(query)).hits == ()
    assert not visible_questions(bob).exists()


def test_what_comes_back_is_found_again_with_its_questions(scene: Scene) -> None:
    documents.delete(scene.alice, scene.document)
    documents.restore(scene.alice, Document.objects.get(pk=scene.document.pk))
    for name, route in ROUTES.items():
        # What was kept for an earlier state of the base is never used again.
        if name != "cache":
            assert any(text in route(scene) for text in (MARK, *SHOWN)), name
