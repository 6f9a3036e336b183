"""A small library for tests: people with names and roles, bases, and documents written straight into the tables.

Alice owns, Bob may view, Mallory is a stranger in the same workspace, Eve belongs to another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knowledge import statistics
from knowledge.ingestion import store
from knowledge.models import Chunk, Document, Grant, KnowledgeBase, Revision, Role
from portal.gateway.embedding import ensure_local_endpoint
from portal.gateway.models import EmbeddingSpace, ModelEndpoint
from portal.kernel.models import Membership, User, Workspace
from portal.kernel.principal import Principal


@dataclass(frozen=True)
class ALeaf:
    ordinal: int
    text: str
    start: int = 0
    end: int = 0
    token_count: int = 1
    prefix: str = ""


@dataclass(frozen=True)
class APassage:
    ordinal: int
    text: str
    leaves: tuple[ALeaf, ...]
    heading_path: tuple[str, ...] = ()
    start: int = 0
    end: int = 0
    page: int | None = None
    sheet: str | None = None
    rows: tuple[int, int] | None = None
    slide: int | None = None
    prefix: str = ""
    token_count: int = 1


def passages_of(*texts: str | Sequence[str], heading: tuple[str, ...] = ()) -> list[APassage]:
    """One passage a text; a sequence of texts is a passage with these leaves."""
    passages = []
    ordinal = start = 0
    for place, item in enumerate(texts):
        leaves = []
        first = start
        for text in [item] if isinstance(item, str) else item:
            leaves.append(ALeaf(ordinal, text, start, start + len(text)))
            start += len(text) + 1
            ordinal += 1
        whole = "\n".join(leaf.text for leaf in leaves)
        passages.append(APassage(place, whole, tuple(leaves), heading, first, first + len(whole)))
    return passages


@dataclass
class Library:
    """Workspaces "Home" (Alice, Bob, Mallory) and "Away" (Eve), and what tests put into them."""

    home: Workspace
    away: Workspace
    people: dict[str, User] = field(default_factory=dict)

    def principal(self, name: str) -> Principal:
        workspace = self.away if name == "eve" else self.home
        return Principal(user_id=self.people[name].pk, workspace_id=workspace.pk, door="web")

    def base(
        self, name: str, *, owner: str = "alice", viewers: Sequence[str] = ("bob",), **fields: object
    ) -> KnowledgeBase:
        workspace = self.away if owner == "eve" else self.home
        fields.setdefault("embedding", ensure_local_endpoint())
        base = KnowledgeBase.objects.create(workspace=workspace, name=name, **fields)
        Grant.objects.create(base=base, user=self.people[owner], role=Role.OWNER)
        for viewer in viewers:
            Grant.objects.create(base=base, user=self.people[viewer], role=Role.VIEWER)
        return base

    def document(
        self,
        base: KnowledgeBase,
        name: str,
        *texts: str | Sequence[str],
        heading: tuple[str, ...] = (),
        space: EmbeddingSpace | None = None,
        vectors: NDArray[np.float32] | None = None,
        **fields: object,
    ) -> Document:
        """A published document with these passages; `vectors` are one row a leaf."""
        document = Document.objects.create(base=base, source_key=name, name=name, **fields)
        self.revise(document, *texts, heading=heading, space=space, vectors=vectors)
        return document

    def revise(
        self,
        document: Document,
        *texts: str | Sequence[str],
        heading: tuple[str, ...] = (),
        space: EmbeddingSpace | None = None,
        vectors: NDArray[np.float32] | None = None,
    ) -> Revision:
        """The next revision of a document, made active; the statistics of the one before are taken away."""
        before = document.active_revision
        revision = claimed_revision(document)
        store.write_chunks(revision, revision.claim_no, passages_of(*texts, heading=heading))  # type: ignore[arg-type]
        ids = list(
            Chunk.objects.filter(revision=revision, level="leaf").order_by("ordinal").values_list("id", flat=True)
        )
        if space is not None and vectors is not None:
            store.write_vectors(revision, revision.claim_no, space, ids, vectors)
        publish(document, revision, len(ids), before)
        return revision


def claimed_revision(document: Document) -> Revision:
    number = document.revisions.count() + 1
    return Revision.objects.create(
        document=document,
        base=document.base,
        number=number,
        file_name=document.name,
        mime="text/plain",
        size=1,
        sha256=f"{document.pk:032d}{number:032d}",
        status=Revision.Status.VECTORIZING,
        claim_no=1,
    )


def publish(document: Document, revision: Revision, leaves: int, before: Revision | None = None) -> None:
    Revision.objects.filter(pk=revision.pk).update(status=Revision.Status.INDEXED, chunk_count=leaves)
    Document.objects.filter(pk=document.pk).update(active_revision=revision)
    statistics.append(document.base_id, revision.pk, sign=+1)
    if before is not None:
        statistics.append(document.base_id, before.pk, sign=-1)
    document.refresh_from_db()


def make_library() -> Library:
    home, away = Workspace.objects.create(name="Home"), Workspace.objects.create(name="Away")
    library = Library(home, away)
    for name in ("alice", "bob", "mallory", "eve"):
        person = User.objects.create_user(name, f"{name}@example.org", "correct horse battery")
        library.people[name] = person
        Membership.objects.create(workspace=away if name == "eve" else home, user=person)
    return library


def make_space(key: str = "test-space", dimensions: int = 8) -> EmbeddingSpace:
    return EmbeddingSpace.objects.create(key=key, dimensions=dimensions)


def make_endpoint(space: EmbeddingSpace, name: str = "test") -> ModelEndpoint:
    return ModelEndpoint.objects.create(
        name=name,
        kind="embedding",
        provider="openai_compatible",
        model_name=name,
        space=space,
        base_url="http://127.0.0.1:9/v1",
    )


def unit(vectors: NDArray[Any]) -> NDArray[np.float32]:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True), dtype=np.float32)
