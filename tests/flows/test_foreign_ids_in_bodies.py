"""People with a base of their own name rows of Alice's in the bodies of their own requests: as if there were none.

The addresses are the caller's own, so the walk over all doors does not see what is tried here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from knowledge import bases
from knowledge.models import CaseTarget, Chunk, Document, Grant, KnowledgeBase, Role
from portal.gateway.models import ModelEndpoint
from portal.kernel import keys, people
from portal.kernel.models import User
from tests.support.doors import SECRET_WORD, Alices, everything_of_alices, signed_in
from tests.support.people import World, indexed

# (method, own address, body by the ids that are tried). `{base}` and the like are the caller's own.
Body = Callable[[dict[str, str]], Any]
TRIES: dict[str, tuple[str, str, Body]] = {
    "move to a base": (
        "post",
        "/api/v1/bases/{base}/batches",
        lambda ids: {"verb": "move", "ids": ["OWN"], "params": {"base": ids["base"]}},
    ),
    "batch over documents": (
        "post",
        "/api/v1/bases/{base}/batches",
        lambda ids: {"verb": "tag", "ids": [ids["document"]], "params": {"tags": ["mine"]}},
    ),
    "delete documents": (
        "post",
        "/api/v1/bases/{base}/batches",
        lambda ids: {"verb": "delete", "ids": [ids["document"]]},
    ),
    "purge documents": (
        "post",
        "/api/v1/bases/{base}/batches",
        lambda ids: {"verb": "purge", "ids": [ids["document"]]},
    ),
    "exclude documents": (
        "post",
        "/api/v1/bases/{base}/batches",
        lambda ids: {
            "verb": "untag",
            "filter": "",
            "expected": 1,
            "exclude": [ids["document"]],
            "params": {"tags": ["x"]},
        },
    ),
    "owner of documents": (
        "post",
        "/api/v1/bases/{base}/batches",
        lambda ids: {"verb": "owner", "ids": ["OWN"], "params": {"owner": ids["elsewhere_user"]}},
    ),
    "owner of a document": ("patch", "/api/v1/documents/{document}", lambda ids: {"owner": ids["elsewhere_user"]}),
    "case of a document": (
        "post",
        "/api/v1/bases/{base}/cases",
        lambda ids: {"question": "Where?", "expected": [{"document": ids["document"]}]},
    ),
    "case of a chunk": (
        "post",
        "/api/v1/bases/{base}/cases",
        lambda ids: {"question": "Where?", "expected": [{"chunk": ids["chunk"]}]},
    ),
    "approve revisions": (
        "post",
        "/api/v1/bases/{base}/review",
        lambda ids: {"revisions": [ids["revision"]], "action": "confirm"},
    ),
    "delete terms": ("delete", "/api/v1/bases/{base}/terms", lambda ids: {"ids": [ids["term"]]}),
    "take unanswered": ("post", "/api/v1/bases/{base}/unanswered", lambda ids: {"ids": [ids["record"]]}),
    "search a base": ("post", "/api/v1/search", lambda ids: {"query": "cellar", "bases": [ids["base"]]}),
    "search documents": (
        "post",
        "/api/v1/bases/{base}/search",
        lambda ids: {"query": "cellar", "filters": {"documents": [ids["document"]]}},
    ),
    "rerank by a model": (
        "post",
        "/api/v1/bases/{base}/search",
        lambda ids: {"query": "anything", "rerank": "endpoint", "rerank_endpoint": ids["rerank"]},
    ),
    "ask with a model": (
        "post",
        "/api/v1/ask",
        lambda ids: {"query": "anything", "processing": "model_opt", "endpoint": ids["chat"]},
    ),
    "generate with a model": (
        "post",
        "/api/v1/bases/{base}/generations",
        lambda ids: {"kind": "questions", "endpoint": ids["chat"]},
    ),
    "settings with a model": (
        "patch",
        "/api/v1/bases/{base}",
        lambda ids: {"settings": {"rerank": {"by": "endpoint", "endpoint": ids["rerank"]}}},
    ),
    "model of a base": ("post", "/api/v1/bases/{base}/model-change", lambda ids: {"embedding": ids["embedding"]}),
    "new base with a model": ("post", "/api/v1/bases", lambda ids: {"name": "N", "embedding": ids["embedding"]}),
    "grant to a stranger": (
        "post",
        "/api/v1/bases/{base}/grants",
        lambda ids: {"user": ids["elsewhere_user"], "role": "viewer"},
    ),
    "grant to a department": (
        "post",
        "/api/v1/bases/{base}/grants",
        lambda ids: {"department": ids["elsewhere_department"], "role": "viewer"},
    ),
    "key for a base": (
        "post",
        "/api/v1/keys",
        lambda ids: {"name": "k", "scopes": ["kb:read"], "bases": [ids["base"]]},
    ),
    "read notifications": ("post", "/api/v1/notifications", lambda ids: {"ids": [ids["notification"]]}),
    "hit kept as a case": (
        "page",
        "/bases/{base}/evaluation/cases/from-hit/",
        lambda ids: {"q": "Where?", "chunk": ids["chunk"]},
    ),
    "member of the other workspace": (
        "page",
        "/bases/{base}/members/add/",
        lambda ids: {"subject": f"user:{ids['elsewhere_user']}", "role": "viewer"},
    ),
    "next question of a thread": (
        "page",
        "/ask/",
        lambda ids: {"q": "cellar", "thread": ids["thread"], "base": ids["base"]},
    ),
    "documents of a form": (
        "page",
        "/bases/{base}/documents/bulk/",
        lambda ids: {"verb": "delete", "scope": "ids", "ids": ids["document"]},
    ),
    "restore": ("page", "/bases/{base}/documents/restore/", lambda ids: {"one": ids["document"]}),
    "discard an upload": ("page", "/bases/{base}/documents/upload/discard/", lambda ids: {"upload": ids["upload"]}),
    "model of the OpenAI door": (
        "post",
        "/v1/chat/completions",
        lambda ids: {"model": ids["model"], "messages": [{"role": "user", "content": "cellar"}]},
    ),
    "embeddings of the OpenAI door": ("post", "/v1/embeddings", lambda ids: {"model": ids["embedding"], "input": "x"}),
}


@pytest.fixture
def alices(world: World) -> Alices:
    return everything_of_alices(world)


def _own(world: World, user: User) -> tuple[KnowledgeBase, Document]:
    principal = world.principal(user)
    base = world.eves_base if user == world.eve else bases.create(principal, name="Own")
    return base, indexed(principal, base, "own.md", "# Mine\n\nNothing to see.\n")


def _ids(alices: Alices, user: User) -> dict[str, str]:
    """What is foreign to this person: Alice's rows, and for people and models those of the other workspace."""
    world = alices.world
    foreign = world.elsewhere if user != world.eve else world.workspace
    stranger = world.eve if user != world.eve else world.bob
    department = people.create_department(None, foreign, "Theirs")
    models = {
        kind: ModelEndpoint.objects.create(
            workspace=foreign,
            name=f"{SECRET_WORD} {kind}",
            kind=kind,
            provider="openai",
            model_name=f"{SECRET_WORD}-{kind}",
            base_url="https://api.example.com/v1",
        ).uid
        for kind in ("chat", "rerank", "embedding")
    }
    return {
        **alices.values,
        **models,
        "elsewhere_user": stranger.uid,
        "elsewhere_department": department.uid,
    }


def _with_key(world: World, user: User) -> Client:
    scopes = ["kb:read", "kb:write", "kb:manage", "chat"]
    _, secret = keys.create(world.principal(user), name="k", scopes=scopes)
    return Client(raise_request_exception=False, headers={"Authorization": f"Bearer {secret}"})


def _of_nobody(values: dict[str, str]) -> dict[str, str]:
    """Ids of the same shape that nobody has."""
    return {name: "999999999" if value.isdigit() else "z" * len(value) for name, value in values.items()}


def _state(world: World) -> dict[str, Any]:
    """What of Alice's must not have moved."""
    return {
        "documents": list(Document.objects.filter(base=world.base).order_by("pk").values()),
        "chunks": Chunk.objects.filter(revision__document__base=world.base).count(),
        "grants": list(Grant.objects.filter(base=world.base).order_by("pk").values()),
        "targets": CaseTarget.objects.filter(document__base=world.base).exclude(case__base=world.base).count(),
    }


@pytest.mark.parametrize("name", TRIES)
@pytest.mark.parametrize("who", ["mallory", "eve"])
def test_ids_of_others_in_a_body_are_ids_of_nothing(alices: Alices, who: str, name: str) -> None:
    world = alices.world
    user: User = getattr(world, who)
    base, document = _own(world, user)
    assert Grant.objects.filter(base=base, user=user, role=Role.OWNER).exists()
    ids, before = _ids(alices, user), _state(world)
    method, address, body = TRIES[name]
    url = address.format(base=base.uid, document=document.uid)
    person = method == "page" or "keys" in url or "notifications" in url
    client = signed_in(user) if person else _with_key(world, user)
    answers = []
    for tried in (_of_nobody(ids), ids):
        raw = json.dumps(body(tried)).replace("OWN", document.uid)
        response = _send(client, method, url, raw)
        text = response.content.decode()
        assert response.status_code < 500, text
        assert SECRET_WORD not in text, text
        for value in sorted((one for one in tried.values() if one in raw), key=len, reverse=True):
            text = text.replace(value, "ID") if len(value) > 9 else re.sub(rf"\b(chunk) {value}\b", r"\1 ID", text)
        answers.append((response.status_code, _plain(text)))
    assert answers[0] == answers[1], f"{name} tells foreign from absent"
    assert _state(world) == before


def _send(client: Client, method: str, url: str, raw: str) -> Any:
    if method == "page":
        return client.post(url, json.loads(raw))
    return getattr(client, method)(url, raw, content_type="application/json")


def _plain(text: str) -> Any:
    """The answer without what differs from call to call."""
    try:
        data = json.loads(text)
    except ValueError:
        return re.sub(r"\b\w{64}\b|\b[0-9a-f]{12}\b|[0-9.]+ m?s\b|/ask/\w+/|<time.*?</time>", "", text)
    volatile = re.compile(r"id|trace|created|secret|prefix|milliseconds|.*_at")
    if isinstance(data, dict):
        return {name: value for name, value in data.items() if not volatile.fullmatch(name)}
    return data
