"""The corpus of an evaluation set as a knowledge base: who owns it, when it is made anew, how it is filled."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from django.db import connection, transaction

from knowledge import bases, intake, lifecycle, statistics
from knowledge.ingestion import pipeline
from knowledge.models import Document, KnowledgeBase, Revision
from portal.gateway.embedding import ensure_local_endpoint
from portal.kernel.errors import Invalid
from portal.kernel.models import Membership, User, Workspace
from portal.kernel.principal import Principal

WORKSPACE = "Evaluation"
PERSON = "evaluation"
# Changed when the same corpus would be ingested differently.
VERSION = "2"
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
    rows = Document.objects.filter(base=base, active_revision__isnull=False).values_list("source_key", "tags")
    done = {name for key, tags in rows for name in (key, *tags)}
    missing = [row for row in documents if row["id"] not in done]
    for place, row in enumerate(missing, len(done) + 1):
        _ingest(principal, base, row)
        progress("ingest", place, len(documents))
    if missing:
        statistics.fold_all()
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE knowledge_chunk, knowledge_chunkvector, knowledge_document, knowledge_revision")


def _ingest(principal: Principal, base: KnowledgeBase, row: dict[str, str]) -> None:
    """One document through intake, sandbox, parser, splitter, store and model: the way of every upload."""
    stale = Document.objects.filter(base=base, source_key=row["id"]).first()
    if stale is not None:
        stale.delete()
    with tempfile.TemporaryDirectory(prefix="archway-evaluate-") as folder:
        path = Path(folder) / "file"
        path.write_text(row["text"], "utf-8")
        try:
            revision = intake.receive(principal, base, path, f"{row['id']}.txt").revision
        except intake.Duplicate as error:
            _stand_in(base, row, error.document)
            return
    assert revision is not None
    # A title may hold what no file name may, and it is searched with every leaf.
    Document.objects.filter(pk=revision.document_id).update(
        source_key=row["id"], name=(row.get("title") or row["id"])[:400]
    )
    while claim := lifecycle.claim(_WORKER, revision.pk):
        pipeline.work(claim)
    revision.refresh_from_db()
    if revision.status != Revision.Status.INDEXED:
        raise Invalid(
            "Document %(id)s of the set could not be read: %(reason)s", id=row["id"], reason=revision.error_message
        )


def _stand_in(base: KnowledgeBase, row: dict[str, str], same: Document) -> None:
    """Sets hold some texts twice, a base never does: the second id is noted on the document that holds the text."""
    document = Document.objects.get(pk=same.pk, base=base)
    document.tags = [*document.tags, row["id"]]
    document.save(update_fields=["tags"])
