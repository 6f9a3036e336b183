"""Every route by which the text of a passage can be reached, each as a function from a scene to what it shows.

`STEPS` and `READERS` name the code that each route goes through; `test_routes` compares them with what the source
holds, so a new way to reach passages fails there until it has a route here (or a reason why it needs none).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from django.test import Client

from knowledge import asking, threads
from knowledge.access import access_base, visible_questions
from knowledge.answering import records
from knowledge.answering.contract import AnswerRequest, Prepared
from knowledge.answering.preparing import prepare
from knowledge.answering.reuse import reuse_of
from knowledge.answering.writing import request_of
from knowledge.models import CaseResult, Chunk, Document, EvaluationCase, EvaluationRun, QueryRecord, Role
from knowledge.pages import passages
from knowledge.quality import runs
from knowledge.retrieval import RetrievalRequest, RetrievalResult, retrieve
from portal.embedded import locations
from portal.gateway.models import ModelEndpoint
from portal.gateway.reuse.scope import key_of
from portal.kernel.errors import ArchwayError
from portal.kernel.principal import Principal
from tests.flows.test_every_door import ADDRESSES
from tests.support.doors import Alices, values_for
from tests.support.model_server import ModelServer
from tests.support.people import World

MARK = "xylograph"
HANGS = f"{MARK} hangs"
ASKED = "Where does the woodcut hang?"
GENERATED = "Which artwork decorates the basement?"
BOILER = "beside the boiler"
# Stands in the passage, and in nothing that anybody asked.
ONLY_THERE = "crookedly"


@dataclass
class Scene:
    """Bob, who may edit, and what was kept for him while he could see the passage."""

    world: World
    alices: Alices
    models: ModelServer
    reranker: ModelEndpoint
    chat: ModelEndpoint
    document: Document
    chunk: Chunk
    case: EvaluationCase
    browser: Client
    key: str
    record: QueryRecord
    waiting: QueryRecord
    run: QueryRecord
    evaluation: EvaluationRun
    kept_key: str = ""

    @property
    def bob(self) -> Principal:
        return self.world.principal(self.world.bob)

    @property
    def alice(self) -> Principal:
        return self.world.principal(self.world.alice)

    def search(self, query: str, **how: Any) -> RetrievalResult:
        return retrieve(self.bob, RetrievalRequest(query, (self.world.base.uid,), **how))

    def prepared(self) -> Prepared:
        """What a model would answer from."""
        asked = RetrievalRequest(BOILER, (self.world.base.uid,), mode="keywords")
        return prepare(self.bob, AnswerRequest(asked, processing="model_opt", endpoint=self.chat.uid))

    def key_now(self) -> str:
        """Under which an answer from these passages is kept; empty when none is."""
        prepared = self.prepared()
        reuse = reuse_of(prepared)
        if reuse is None or prepared.caller is None or prepared.endpoint is None:
            return ""
        return key_of(prepared.caller, prepared.endpoint, request_of(prepared), reuse)


def _words(scene: Scene) -> str:
    return "".join(hit.text for hit in scene.search(MARK, mode="keywords").hits)


def _vectors(scene: Scene) -> str:
    return "".join(hit.text for hit in scene.search("picture printed from wood", mode="embedding", top_k=50).hits)


def _blend(scene: Scene) -> str:
    return "".join(hit.text for hit in scene.search(f"the {MARK} {BOILER}", top_k=50).hits)


def _by_question(query: str, mode: Any) -> Callable[[Scene], str]:
    def shown(scene: Scene) -> str:
        return "".join(hit.question + hit.text for hit in scene.search(query, mode=mode, top_k=50).hits)

    return shown


def _neighbours(scene: Scene) -> str:
    hits = scene.search("attic locked", mode="keywords", neighbours=3).hits
    return "".join("".join((*hit.before, *hit.after)) for hit in hits)


def _leaves_of_a_parent(scene: Scene) -> str:
    """A leaf that matches brings its whole passage."""
    return "".join(hit.text for hit in scene.search("boiler", mode="keywords").hits)


def _rerank(scene: Scene) -> str:
    """What a reranker of the outside world is sent."""
    before = len(scene.models.seen)
    scene.search("boiler", mode="keywords", rerank="endpoint", rerank_endpoint=scene.reranker.uid)
    return "".join(json.dumps(seen.body) for seen in scene.models.seen[before:])


def _trace(scene: Scene) -> str:
    """The trace names passages nowhere, and counts what may be found."""
    result = scene.search(MARK, mode="keywords")
    found = [step["detail"].get("candidates", 0) for step in result.trace["steps"]]
    return MARK * int(len(result.hits) + sum(found))


def _prompt(scene: Scene) -> str:
    """What a chat model is told that is to answer."""
    return "".join(passage.text for passage in scene.prepared().passages)


def _cache(scene: Scene) -> str:
    """An answer is used again only under the very key that it was kept under."""
    return HANGS if scene.kept_key and scene.key_now() == scene.kept_key else ""


def _conversation(scene: Scene) -> str:
    """What a model is told of the earlier turns of a thread."""
    told = records.earlier(scene.bob, threads.turns(scene.bob, scene.record.thread))
    return "".join(item.exchange.answer for item in told)


def _waiting_answer(scene: Scene) -> str:
    """An answer that is still to be written, taken up by whoever writes it."""
    QueryRecord.objects.filter(pk=scene.waiting.pk).update(answering=QueryRecord.Answering.WAITING)
    prepared = records.claim(scene.bob, scene.waiting)
    return "".join(passage.text for passage in prepared.passages) if prepared else ""


def _evaluation(scene: Scene) -> str:
    """A run finds what its asker would find; who may not edit the base gets none."""
    try:
        base = access_base(scene.bob, scene.world.base.uid, Role.EDITOR)
        EvaluationRun.objects.filter(base=base, status__in=EvaluationRun.OPEN).update(status="cancelled")
        run = runs.start(scene.bob, base, [runs.variant("words", "keywords")])
    except ArchwayError:
        return ""
    while runs.work(run.pk):
        pass
    found = chain.from_iterable(CaseResult.objects.filter(run=run).values_list("found", flat=True))
    return HANGS * any(place["chunk"] == scene.chunk.pk for place in found)


def _api(scene: Scene) -> str:
    client = Client(headers={"Authorization": f"Bearer {scene.key}"}, raise_request_exception=False)
    body = {"query": ASKED, "bases": [scene.world.base.uid]}
    found = client.post("/api/v1/search", body, content_type="application/json")
    return found.content.decode().replace(ASKED, "", 1)


def _hit_test(scene: Scene) -> str:
    url = f"/bases/{scene.world.base.uid}/hit-test/"
    return scene.browser.get(f"{url}{scene.run.uid}/").content.decode().replace(f'value="{MARK}"', "")


def _kept_answer(scene: Scene) -> str:
    """A stored answer shows a passage only while its document can be opened."""
    kept = asking.readable_record(scene.bob, scene.record.uid)
    cards = passages.cards(scene.bob, kept.result["hits"]) if kept else []
    return "".join(piece.text for card in cards for part in card.whole for piece in part.pieces)


def _citation(scene: Scene) -> str:
    url = f"/ask/{scene.record.thread}/{scene.record.uid}/"
    return scene.browser.get(url).content.decode()


def _case(scene: Scene) -> str:
    """What a case expects is a copy of the passage."""
    url = f"/bases/{scene.world.base.uid}/evaluation/{scene.evaluation.uid}/cases/{scene.case.uid}/"
    return scene.browser.get(url).content.decode()


def _questions_of_the_api(scene: Scene) -> str:
    return "".join(visible_questions(scene.bob).values_list("text", flat=True))


def every_address(scene: Scene, addresses: Sequence[str] = ()) -> list[str]:
    """The addresses of the URL table that show Bob the passage, filled in with what belongs to it.

    Streams are left out: each asks `asking.readable_record` before a frame.
    """
    bases = scene.alices.values
    mine = {
        "document": scene.document.uid,
        "revision": str(scene.document.active_revision.uid if scene.document.active_revision else ""),
        "chunk": str(scene.chunk.pk),
        "chunk_id": str(scene.chunk.pk),
        "record": scene.record.uid,
        "thread": scene.record.thread,
        "case": scene.case.uid,
        "evaluation": scene.evaluation.uid,
        "number": "1",
    }
    shown = []
    for address in addresses or [one for one in ADDRESSES if "{" in one and not one.endswith("/events/")]:
        values = {**values_for(address, {**bases, **mine}), "run": scene.run.uid}
        response = scene.browser.get(address.format(**values))
        body = b"".join(response) if response.streaming else response.content
        if ONLY_THERE in body.decode("utf-8", "replace"):
            shown.append(address)
    return shown


# Routes of a search, and of what is made from one: gone with everything that takes a passage out of searches.
ROUTES: dict[str, Callable[[Scene], str]] = {
    "words": _words,
    "vectors": _vectors,
    "blend": _blend,
    "question by words": _by_question("woodcut", "keywords"),
    "question by meaning": _by_question(ASKED, "embedding"),
    "generated question by words": _by_question("artwork decorates", "keywords"),
    "generated question by meaning": _by_question(GENERATED, "embedding"),
    "neighbours": _neighbours,
    "parents": _leaves_of_a_parent,
    "rerank": _rerank,
    "trace": _trace,
    "prompt": _prompt,
    "cache": _cache,
    "conversation": _conversation,
    "waiting answer": _waiting_answer,
    "evaluation": _evaluation,
    "API": _api,
}
# Routes to what somebody kept or may open: gone when the document or the base can no longer be opened. A document
# that is merely switched off, or has a newer version, can still be opened and cited.
KEPT: dict[str, Callable[[Scene], str]] = {
    "hit-test run": _hit_test,
    "thread": _kept_answer,
    "citation": _citation,
    "case": _case,
    "questions": _questions_of_the_api,
}
SHOWN = (HANGS, ASKED, GENERATED)

# The steps of a search by their names, and the routes that go through them; none: it reads no passage.
STEPS: dict[str, tuple[str, ...]] = {
    "what may be searched": (),
    "look for what was meant": (),
    "embed the query": (),
    "search by words": ("words", "blend", "parents"),
    "search by meaning": ("vectors", "blend"),
    "search by questions": ("question by words", "question by meaning", "generated question by words"),
    "complete the scores": ("blend",),
    "blend": ("blend",),
    "rerank": ("rerank",),
    "load passages": ("words", "vectors", "neighbours"),
    # Orders what was loaded.
    "diversify": (),
}
# The modules that search, or read chunks or questions or what was found of them, and the routes that go through them.
READERS: dict[str, tuple[str, ...]] = {
    "knowledge/retrieval/search.py": ("words", "vectors", "blend", "trace"),
    "knowledge/retrieval/words.py": ("words", "blend"),
    "knowledge/retrieval/vectors.py": ("vectors",),
    "knowledge/retrieval/questions.py": ("question by words", "question by meaning"),
    "knowledge/retrieval/passages.py": ("words", "neighbours", "parents"),
    "knowledge/retrieval/reranking.py": ("rerank",),
    "knowledge/answering/preparing.py": ("prompt", "cache"),
    "knowledge/answering/records.py": ("conversation", "waiting answer"),
    "knowledge/answering/live.py": ("waiting answer",),
    "knowledge/asking.py": ("thread", "citation"),
    "knowledge/threads.py": ("thread", "conversation"),
    "knowledge/hit_tests.py": ("hit-test run",),
    "knowledge/quality/runs.py": ("evaluation",),
    "knowledge/quality/cases.py": ("case",),
    # Searches a copy of the base in its owner's name, with the same `retrieve`.
    "knowledge/quality/trials.py": ("evaluation",),
    # The door itself.
    "knowledge/retrieval/__init__.py": (),
    # Numbers of what other modules found: vectors, and shares of languages.
    "knowledge/retrieval/diversity.py": (),
    "knowledge/retrieval/languages.py": (),
    # Which chunks are switched off: ids only.
    "knowledge/retrieval/permitted.py": (),
    # The statements that build and look at indexes: no text.
    "knowledge/retrieval/graphs.py": (),
    # Questions that people asked, in their own words.
    "knowledge/quality/unanswered.py": (),
    "knowledge/query_log.py": (),
    # A measurement of the operator's, on a base of its own.
    "knowledge/evaluation.py": (),
}
_READS = re.compile(
    r"\bretrieve\(|\bknowledge_chunk|\b(?:Chunk|ChunkQuestion|QueryRecord|CaseTarget|CaseResult)\.objects"
    r"|passages\.load\("
)
_SEARCHING = ("knowledge/retrieval", "knowledge/answering", "knowledge/quality")
_TOP = ("asking", "hit_tests", "threads", "evaluation", "query_log")


def steps_in_source() -> set[str]:
    """The names of all steps that a search can take."""
    found: set[str] = set()
    for path in (locations.REPOSITORY / "knowledge" / "retrieval").glob("*.py"):
        found |= set(re.findall(r'\.step\("([^"]+)"\)', path.read_text("utf-8")))
    return found


def readers_in_source() -> set[str]:
    """The modules of searching, answering and measuring that search or read what was found."""
    files: list[Path] = [locations.REPOSITORY / "knowledge" / f"{name}.py" for name in _TOP]
    for folder in _SEARCHING:
        files += sorted((locations.REPOSITORY / folder).glob("*.py"))
    found = [path for path in files if _READS.search(path.read_text("utf-8"))]
    return {path.relative_to(locations.REPOSITORY).as_posix() for path in found}


def searchers_in_source() -> set[str]:
    """All modules outside of those that call `retrieve`: doors must go through one of `READERS`."""
    found = set()
    for package in ("knowledge", "portal"):
        for path in (locations.REPOSITORY / package).rglob("*.py"):
            name = path.relative_to(locations.REPOSITORY).as_posix()
            if re.search(
                r"^from knowledge\.retrieval(?:\.search)? import .*\bretrieve\b", path.read_text("utf-8"), re.M
            ):
                found.add(name)
    return found
