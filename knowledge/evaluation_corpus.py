"""The corpus of an evaluation set as a knowledge base: who owns it, when it is made anew, how it is filled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256

from django.db import connection, transaction

from knowledge import base_settings, bases, lifecycle, statistics
from knowledge.ingestion import embed, store
from knowledge.ingestion.blocks import Block, ParsedDocument, assemble
from knowledge.ingestion.split import SplitSettings, split
from knowledge.models import Document, KnowledgeBase, Revision
from portal.gateway.embedding import counter_for, embedder_for, ensure_local_endpoint, space_of
from portal.gateway.models import EmbeddingSpace
from portal.kernel.models import Membership, User, Workspace
from portal.kernel.principal import Principal

WORKSPACE = "Evaluation"
PERSON = "evaluation"
# Changed when the same corpus would be ingested differently.
VERSION = "1"
_WORKER = "evaluate"


def ensure_base(
    name: str,
    documents: Sequence[dict[str, str]],
    digest: str,
    progress: Callable[[str, int, int], None],
) -> tuple[Principal, KnowledgeBase]:
    """The asker and the base that holds exactly these documents; a base of another digest is replaced."""
    principal = ensure_principal()
    title = f"eval:{name}"
    base = KnowledgeBase.objects.filter(
        workspace_id=principal.workspace_id, name=title, description=digest, deleted_at__isnull=True
    ).first()
    if base is None:
        ensure_local_endpoint()
        with transaction.atomic():
            KnowledgeBase.objects.filter(workspace_id=principal.workspace_id, name=title).update(
                name=f"{title} (old)", deleted_at=None, description="replaced"
            )
            base = bases.create(principal, name=title, description=digest)
    _fill(principal, base, documents, progress)
    KnowledgeBase.objects.filter(workspace_id=principal.workspace_id, name=f"{title} (old)").delete()
    return principal, base


def ensure_principal() -> Principal:
    """A person of its own in a workspace of its own, without a password; admin there and nothing elsewhere."""
    workspace, _ = Workspace.objects.get_or_create(name=WORKSPACE)
    person, fresh = User.objects.get_or_create(username=PERSON, defaults={"display_name": "Evaluation"})
    if fresh:
        person.set_unusable_password()
        person.save(update_fields=["password"])
    Membership.objects.get_or_create(workspace=workspace, user=person, defaults={"role": Membership.Role.ADMIN})
    return Principal(user_id=person.pk, workspace_id=workspace.pk, door="command")


def _fill(
    principal: Principal,
    base: KnowledgeBase,
    documents: Sequence[dict[str, str]],
    progress: Callable[[str, int, int], None],
) -> None:
    """Ingest what is missing: a run broken off goes on where it stopped."""
    done = set(Document.objects.filter(base=base, active_revision__isnull=False).values_list("source_key", flat=True))
    missing = [row for row in documents if row["id"] not in done]
    for place, row in enumerate(missing, len(done) + 1):
        _ingest(principal, base, row)
        progress("ingest", place, len(documents))
    if missing:
        statistics.fold_all()
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE knowledge_chunk, knowledge_chunkvector, knowledge_document, knowledge_revision")


def _ingest(principal: Principal, base: KnowledgeBase, row: dict[str, str]) -> None:
    """Split, store, embed and publish one document, by the steps and under the claims of any other."""
    document, _ = Document.objects.get_or_create(
        base=base, source_key=row["id"], defaults={"name": (row.get("title") or row["id"])[:400]}
    )
    parsed = _parsed(row)
    with transaction.atomic():
        document.revisions.exclude(status=Revision.Status.INDEXED).delete()
        revision = lifecycle.add_revision(
            document,
            created_by_id=None,
            file="",
            file_name=document.name,
            sha256=sha256(parsed.text.encode("utf-8")).hexdigest(),
            mime=parsed.mime,
            size=len(parsed.text.encode("utf-8")),
        )
        claim = lifecycle.claim(_WORKER, revision.pk)
    assert claim is not None
    endpoint = base.embedding
    revision = Revision.objects.select_related("document").get(pk=revision.pk)
    space = space_of(endpoint)
    splitting = base_settings.read(base.config).splitting
    passages = split(
        parsed,
        counter_for(endpoint),
        SplitSettings(passage_tokens=splitting.passage_tokens, leaf_tokens=splitting.leaf_tokens),
    )
    leaves = store.write_chunks(revision, claim.number, passages)
    lifecycle.advance(claim, Revision.Status.VECTORIZING, stage="embed", chunk_count=leaves, space=space)
    _reuse(revision, claim.number, space, base.workspace_id)
    embed.embed_and_store(
        revision,
        claim.number,
        space,
        embedder_for(endpoint),
        total=leaves,
        on_progress=lambda done: None,
        is_over=lambda: False,
    )
    lifecycle.publish(claim)


def _reuse(revision: Revision, claim_no: int, space: EmbeddingSpace, workspace_id: int) -> None:
    """Take over the vectors of equal leaves of the same document in other sets: several share a corpus."""
    with transaction.atomic(), connection.cursor() as cursor:
        store.hold_claim(revision.pk, claim_no)
        cursor.execute(
            """
            INSERT INTO knowledge_chunkvector (chunk_id, revision_id, space_id, halfvec, bits)
            SELECT DISTINCT ON (leaf.id) leaf.id, leaf.revision_id, v.space_id, v.halfvec, v.bits
              FROM knowledge_chunk leaf
              JOIN knowledge_knowledgebase b ON b.workspace_id = %(workspace)s
              JOIN knowledge_document d ON d.base_id = b.id AND d.source_key = %(key)s
              JOIN knowledge_revision r ON r.document_id = d.id AND r.id <> leaf.revision_id
              JOIN knowledge_chunk old ON old.revision_id = r.id AND old.level = 'leaf' AND old.sha256 = leaf.sha256
              JOIN knowledge_chunkvector v ON v.chunk_id = old.id AND v.space_id = %(space)s
             WHERE leaf.revision_id = %(revision)s AND leaf.level = 'leaf'
            ON CONFLICT (chunk_id, space_id) DO NOTHING
            """,
            {
                "workspace": workspace_id,
                "key": revision.document.source_key,
                "space": space.pk,
                "revision": revision.pk,
            },
        )


def _parsed(row: dict[str, str]) -> ParsedDocument:
    """The text by paragraphs. The title is the document's name, which is searched with every leaf."""
    return assemble("text/plain", [Block("paragraph", paragraph) for paragraph in row["text"].split("\n\n")])
