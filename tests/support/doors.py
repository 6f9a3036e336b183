"""What the walks over all doors share: one of everything that an address can name, and how an address is filled in."""

from __future__ import annotations

from dataclasses import dataclass

from django.test import Client

from knowledge import archive, batches, resumable
from knowledge.models import Chunk, Grant, QueryRecord, Source, StoredImage
from knowledge.quality import cases
from knowledge.quality import runs as evaluations
from knowledge.questions import verbs as questions
from knowledge.terms import verbs as terms
from portal.gateway.models import ModelEndpoint
from portal.kernel import keys, notify
from portal.kernel.models import Department, Notification, User
from portal.kernel.secrets import verbs
from tests.support.people import World, indexed

SECRET_WORD = "xylograph"


@dataclass(frozen=True)
class Alices:
    """One of everything, owned by Alice: `values` holds a real value for each parameter of an address."""

    world: World
    values: dict[str, str]

    def url(self, address: str, values: dict[str, str] | None = None) -> str:
        return address.format(**(values or self.values))


def everything_of_alices(world: World) -> Alices:
    alice = world.principal(world.alice)
    text = f"# Secrets\n\nThe {SECRET_WORD} is in the cellar.\n"
    document = indexed(alice, world.base, f"{SECRET_WORD}.md", text, folder="papers")
    revision = document.active_revision
    assert revision is not None
    StoredImage.objects.create(revision=revision, key="a" * 64, file="images/aa/none", mime="image/png")
    record = QueryRecord.objects.create(
        workspace=world.workspace,
        user=world.alice,
        kind=QueryRecord.Kind.HIT_TEST,
        thread="t" * 16,
        query=SECRET_WORD,
        base_ids=[world.base.pk],
    )
    key, _ = keys.create(alice, name="hers", scopes=["kb:read"])
    notify.tell([world.alice], "grant.added", workspace_id=world.workspace.pk, base_ids=[world.base.pk], base="x")
    chunk = Chunk.objects.filter(revision=revision, level="passage").first()
    assert chunk is not None
    department = Department.objects.get(pk=world.company.pk)
    credential = verbs.create(
        None, name=SECRET_WORD, value=SECRET_WORD, host="api.example.com", workspace_id=world.workspace.pk
    )
    case = cases.add(alice, world.base, SECRET_WORD, [cases.Target(document, SECRET_WORD)])
    evaluation = evaluations.start(alice, world.base, label=SECRET_WORD)
    batch = batches.start(alice, world.base, "tag", batches.Selection(ids=(document.uid,)), {"tags": [SECRET_WORD]})
    export = archive.start_export(alice, world.base)
    upload = resumable.begin(alice, world.base, path=f"{SECRET_WORD}-2.md", length=100)
    term = terms.add(alice, world.base, terms.wanted(SECRET_WORD, [f"{SECRET_WORD}s"]))
    (question,) = questions.add(alice, chunk, [f"Where is the {SECRET_WORD}?"])
    source = Source.objects.create(
        base=world.base, name=SECRET_WORD, kind=Source.Kind.PAGE, url=f"http://{SECRET_WORD}.example/"
    )
    endpoint = ModelEndpoint.objects.create(
        workspace=world.workspace,
        name=SECRET_WORD,
        kind="chat",
        provider="openai_compatible",
        model_name=SECRET_WORD,
        base_url="http://127.0.0.1:9/v1",
    )
    return Alices(
        world,
        {
            "endpoint": endpoint.uid,
            "case": case.uid,
            "evaluation": evaluation.uid,
            "upload": upload.uid,
            "term": term.uid,
            "question": question.uid,
            "source": source.uid,
            "base": world.base.uid,
            "batch": batch.uid,
            "archive": export.uid,
            "document": document.uid,
            "revision": revision.uid,
            "chunk": str(chunk.pk),
            "chunk_id": str(chunk.pk),
            "grant": str(Grant.objects.filter(base=world.base).latest("id").pk),
            "key": key.uid,
            "department": department.uid,
            "user": world.alice.uid,
            "run": record.uid,
            "record": record.uid,
            "thread": record.thread,
            "section": "splitting",
            "number": str(revision.number),
            "page": "1",
            "notification": Notification.objects.get(user=world.alice).uid,
            "workspace": world.workspace.uid,
            "credential": str(credential.pk),
            "model": f"base-handbook-{world.base.uid}",
            "path": "files",
        },
    )


def values_for(address: str, values: dict[str, str]) -> dict[str, str]:
    """`key` is an API key's uid, but a picture's hash below /images/; `uid` is whatever the path says."""
    owners = {"/tasks/": "revision", "/notifications/": "notification", "/account/keys/": "key"}
    uid = next((values[name] for prefix, name in owners.items() if address.startswith(prefix)), "")
    named = {**values, "uid": uid}
    return {**named, "key": "a" * 64} if "/images/" in address else named


def signed_in(user: User) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(user)
    return client
