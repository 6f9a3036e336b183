"""Every route by which the text of a passage can be reached, and proof that none is left when it ceases to be findable.

The change and every look happen in one and the same transaction: nothing waits for a worker, a commit or a cache.
A new route is one more function in `ROUTES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from knowledge import asking, bases, documents, hit_tests, lifecycle
from knowledge.access import visible_questions
from knowledge.chunks import verbs as chunks
from knowledge.models import Chunk, Document, Grant, QueryRecord
from knowledge.pages import passages
from knowledge.questions import embedding
from knowledge.questions import verbs as questions
from knowledge.retrieval import RetrievalRequest, RetrievalResult, retrieve
from portal.kernel import keys
from portal.kernel.models import User
from portal.kernel.principal import Principal
from tests.support.people import World, indexed, put, work_through

MARK = "xylograph"
ASKED = "Where does the woodcut hang?"
_RULES = " ".join(f"Rule {n} says that this is so and that nothing else is." for n in range(24))
TEXT = f"# Cellar\n\n{_RULES}\n\nThe {MARK} hangs beside the boiler.\n\n# Attic\n\n{_RULES}\n\nThe attic is locked.\n"


@dataclass
class Scene:
    """Bob, who may view, and what was kept for him while he could see the passage."""

    world: World
    document: Document
    chunk: Chunk
    browser: Client
    key: str
    record: QueryRecord | None = None
    run: QueryRecord | None = None

    @property
    def bob(self) -> Principal:
        return self.world.principal(self.world.bob)

    @property
    def alice(self) -> Principal:
        return self.world.principal(self.world.alice)

    def search(self, query: str, **how: Any) -> RetrievalResult:
        return retrieve(self.bob, RetrievalRequest(query, (self.world.base.uid,), **how))


@pytest.fixture
def scene(world: World, local_model: object) -> Scene:
    alice, bob = world.principal(world.alice), world.principal(world.bob)
    document = indexed(alice, world.base, "house.md", TEXT)
    chunk = Chunk.objects.defer("lexemes").get(revision=document.active_revision, level="passage", text__contains=MARK)
    questions.add(alice, chunk, [ASKED])
    embedding.embed_missing()
    browser = Client()
    browser.force_login(world.bob)
    _, key = keys.create(bob, name="k", scopes=["kb:read", "chat"])
    made = Scene(world, document, chunk, browser, key)
    request = RetrievalRequest(MARK, (world.base.uid,))
    _, made.record = asking.ask(bob, request, kind=QueryRecord.Kind.ASK)
    made.run = hit_tests.start(bob, world.base, MARK, {})
    hit_tests.search(bob, request, "blend", made.run)
    return made


def _words(scene: Scene) -> str:
    return "".join(hit.text for hit in scene.search(MARK, mode="keywords").hits)


def _vectors(scene: Scene) -> str:
    return "".join(hit.text for hit in scene.search("picture printed from wood", mode="embedding", top_k=50).hits)


def _blend(scene: Scene) -> str:
    return "".join(hit.text for hit in scene.search(f"the {MARK} beside the boiler", top_k=50).hits)


def _question_by_words(scene: Scene) -> str:
    return "".join(hit.question + hit.text for hit in scene.search("woodcut", mode="keywords").hits)


def _question_by_meaning(scene: Scene) -> str:
    return "".join(hit.question + hit.text for hit in scene.search(ASKED, mode="embedding", top_k=50).hits)


def _neighbours(scene: Scene) -> str:
    hits = scene.search("attic locked", mode="keywords", neighbours=3).hits
    return "".join("".join((*hit.before, *hit.after)) for hit in hits)


def _leaves_of_a_parent(scene: Scene) -> str:
    """A leaf that matches brings its whole passage."""
    return "".join(hit.text for hit in scene.search("boiler", mode="keywords").hits)


def _trace(scene: Scene) -> str:
    """The trace names passages nowhere, and counts what may be found."""
    result = scene.search(MARK, mode="keywords")
    found = [step["detail"].get("candidates", 0) for step in result.trace["steps"]]
    return MARK * int(len(result.hits) + sum(found))


def _api(scene: Scene) -> str:
    client = Client(headers={"Authorization": f"Bearer {scene.key}"}, raise_request_exception=False)
    body = {"query": ASKED, "bases": [scene.world.base.uid]}
    found = client.post("/api/v1/search", body, content_type="application/json")
    return found.content.decode().replace(ASKED, "", 1)


def _hit_test(scene: Scene) -> str:
    url = f"/bases/{scene.world.base.uid}/hit-test/"
    assert scene.run is not None
    return scene.browser.get(f"{url}{scene.run.uid}/").content.decode().replace(f'value="{MARK}"', "")


def _kept_answer(scene: Scene) -> str:
    """A stored answer shows a passage only while its document can be opened."""
    assert scene.record is not None
    kept = asking.readable_record(scene.bob, scene.record.uid)
    cards = passages.cards(scene.bob, kept.result["hits"]) if kept else []
    return "".join(piece.text for card in cards for part in card.whole for piece in part.pieces)


def _questions_of_the_api(scene: Scene) -> str:
    return "".join(visible_questions(scene.bob).values_list("text", flat=True))


# Routes of a search: gone with everything that takes a passage out of searches.
ROUTES: dict[str, Callable[[Scene], str]] = {
    "words": _words,
    "vectors": _vectors,
    "blend": _blend,
    "question by words": _question_by_words,
    "question by meaning": _question_by_meaning,
    "neighbours": _neighbours,
    "parents": _leaves_of_a_parent,
    "trace": _trace,
    "API": _api,
}
# Routes to what somebody kept or may open: gone when the document or the base can no longer be opened. A document
# that is merely switched off, or has a newer version, can still be opened and cited.
KEPT: dict[str, Callable[[Scene], str]] = {
    "hit-test run": _hit_test,
    "thread": _kept_answer,
    "questions": _questions_of_the_api,
}


def _disable(scene: Scene) -> None:
    documents.set_enabled(scene.alice, scene.document, False)


def _delete(scene: Scene) -> None:
    documents.delete(scene.alice, scene.document)


def _supersede(scene: Scene) -> None:
    text = TEXT.replace(f"The {MARK} hangs beside the boiler.", "Nothing hangs there.").replace(
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


def test_every_route_leads_to_the_passage_before(scene: Scene) -> None:
    for name, route in {**ROUTES, **KEPT}.items():
        shown = route(scene)
        assert MARK in shown or ASKED in shown, name


@pytest.mark.parametrize("change", [*OUT_OF_SEARCHES, *OUT_OF_SIGHT])
def test_no_route_is_left_in_the_same_transaction(scene: Scene, change: str) -> None:
    assert connection.in_atomic_block
    {**OUT_OF_SEARCHES, **OUT_OF_SIGHT}[change](scene)
    routes = {**ROUTES, **KEPT} if change in OUT_OF_SIGHT else ROUTES
    for name, route in routes.items():
        shown = route(scene)
        assert f"{MARK} hangs" not in shown and ASKED not in shown, f"{change}: still there by {name}"
        if name in ("words", "blend", "parents", "trace"):
            assert MARK not in shown, f"{change}: still there by {name}"


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
        shown = route(scene)
        assert MARK in shown or ASKED in shown, name
