"""Moving a document to another base: what goes along, what is made anew, and what copies of its text may still be read.

The document keeps its id, revisions, chunks, images and history. With the same embedding model its vectors stay
too, and the move is one small transaction; with another one its chunks are embedded once more while
searches find it by its words. From the commit on, the grants of the target apply, and nothing else.
"""

from __future__ import annotations

from typing import Literal

from django.db import connection, transaction
from django.utils import timezone

from knowledge import intake, lifecycle, statistics
from knowledge import tags as vocabulary
from knowledge.access import visible_documents
from knowledge.ingestion.copying import copy_for_embedding
from knowledge.models import ChunkQuestion, Document, KnowledgeBase, Revision
from knowledge.questions import embedding
from knowledge.terms import verbs as terms
from portal.gateway.accounting import Caller
from portal.gateway.embedding import space_of
from portal.gateway.models import Purpose
from portal.kernel import audit, events
from portal.kernel.errors import Conflict, Invalid
from portal.kernel.models import AuditEntry
from portal.kernel.principal import Principal

Taken = Literal["refuse", "keep_both"]


@transaction.atomic
def move(
    principal: Principal, document: Document, target: KnowledgeBase, *, name_taken: Taken = "refuse"
) -> Revision | None:
    """Move a live document into another base of the workspace; both come from `access_base(…, EDITOR)`.

    Returns the revision that is queued when the target's model is another one. Raises `Conflict`
    (revision_open, name_taken) and `intake.Duplicate`.
    """
    # Bases in the order of their ids: two moves in opposite directions must not wait for each other.
    wanted = sorted({document.base_id, target.pk})
    list(KnowledgeBase.objects.select_for_update(no_key=True).filter(pk__in=wanted).order_by("pk"))
    row = Document.objects.select_for_update(of=("self",)).select_related("base", "active_revision").get(pk=document.pk)
    source = row.base
    if source.pk == target.pk:
        raise Invalid("The document is in this base already.", code="same_base")
    if source.workspace_id != target.workspace_id or target.deleted_at is not None:
        raise Invalid("Choose a base of the same workspace.", code="base_unknown")
    if row.deleted_at is not None:
        raise Conflict("Only a document outside the recycle bin can be moved.", code="deleted")
    _nothing_open(row)
    _find_place(row, target, name_taken)
    _carry_words(row, source.pk, target.pk)
    row.tags = vocabulary.adopt(target.pk, row.tags, by=principal.user_id)
    row.base, row.updated_at = target, timezone.now()
    row.save()
    row.revisions.update(base=target)
    _carry_questions_and_terms(principal, row, source, target)
    _guard_copies(row, source, target)
    queued = _embed_anew(principal, row, target)
    # Two lines, each for the people of its base: the other base may be closed to them.
    audit.record(principal, "document.move_out", row, base_ids=[source.pk], name=row.name, to=target.uid)
    audit.record(principal, "document.move_in", row, base_ids=[target.pk], name=row.name, came_from=source.uid)
    for base in (source, target):
        lifecycle.touch(base.pk)
        events.publish(f"base:{base.uid}", {"type": "document.changed", "doc": row.uid})
    return queued


def place_of(principal: Principal, base_uid: str, uid: str) -> str | None:
    """The base (uid) in which a document lies that once lay in another one; None when the asker may not see it.

    Citations and links keep the address under which a document stood; this is where they lead now.
    """
    document = visible_documents(principal).select_related("base").filter(uid=uid).exclude(base__uid=base_uid).first()
    if document is None:
        return None
    left = KnowledgeBase.objects.filter(uid=base_uid).values_list("pk", flat=True).first()
    moves = AuditEntry.objects.filter(object_type="document", object_id=uid, action="document.move_out")
    return document.base.uid if left and moves.filter(base_ids=[left]).exists() else None


def _nothing_open(document: Document) -> None:
    if document.revisions.filter(status__in=[*lifecycle.OPEN, Revision.Status.REVIEW]).exists():
        raise Conflict(
            "%(name)s is still being processed; wait until it is done, or cancel it.",
            code="revision_open",
            name=document.name,
        )


def _find_place(document: Document, target: KnowledgeBase, name_taken: Taken) -> None:
    """Refuse bytes that the target has; find a name that is free there."""
    newest = document.revisions.order_by("-number").first()
    for revision in {newest, document.active_revision} - {None}:
        assert revision is not None
        intake.refuse_duplicate(target, revision.sha256, "")
    there = Document.objects.filter(base=target, source_key=document.source_key, deleted_at__isnull=True)
    if not there.exists():
        return
    if name_taken == "refuse":
        raise Conflict("A document named %(name)s is there already.", code="name_taken", name=document.name)
    document.name, document.source_key = intake.free_name(target, document.folder, document.name)


def _carry_words(document: Document, source: int, target: int) -> None:
    if document.enabled and document.active_revision_id is not None:
        statistics.append(source, document.active_revision_id, sign=-1)
        statistics.append(target, document.active_revision_id, sign=1)


def _carry_questions_and_terms(
    principal: Principal, document: Document, source: KnowledgeBase, target: KnowledgeBase
) -> None:
    revisions = list(document.revisions.values_list("pk", flat=True))
    if ChunkQuestion.objects.filter(revision__in=revisions).update(base=target):
        KnowledgeBase.objects.filter(pk=target.pk).update(has_questions=True)
        embedding.wake()
    terms.moved(principal, source, target, revisions)


_RECORDS = """
UPDATE knowledge_queryrecord SET base_ids = array_append(base_ids, %(target)s)
 WHERE base_ids @> ARRAY[%(source)s]::bigint[] AND NOT base_ids @> ARRAY[%(target)s]::bigint[]
   AND result @> jsonb_build_object('hits', jsonb_build_array(jsonb_build_object('document', %(uid)s::text)))
"""
_NOTICES = """
UPDATE kernel_notification SET base_ids = array_append(base_ids, %(target)s)
 WHERE base_ids @> ARRAY[%(source)s]::bigint[] AND NOT base_ids @> ARRAY[%(target)s]::bigint[]
   AND starts_with(link, %(link)s)
"""


def _guard_copies(document: Document, source: KnowledgeBase, target: KnowledgeBase) -> None:
    """Answers and notices that hold text of the document become readable only with the target in sight, too."""
    values: dict[str, int | str] = {
        "source": source.pk,
        "target": target.pk,
        "uid": document.uid,
        "link": f"/bases/{source.uid}/documents/{document.uid}/",
    }
    with connection.cursor() as cursor:
        cursor.execute(_RECORDS, values)
        cursor.execute(_NOTICES, values)


def _embed_anew(principal: Principal, document: Document, target: KnowledgeBase) -> Revision | None:
    """Queue vectors of the target's model when those at hand are of another one."""
    space = space_of(target.embedding, Caller(principal, Purpose.INGEST))
    others = document.revisions.filter(status=Revision.Status.INDEXED).exclude(space=space)
    active = document.active_revision
    # Going back to one of these means to index it anew: its vectors mean nothing here.
    others.exclude(pk=active.pk if active else 0).update(vectors_kept=False)
    if active is None or active.space_id == space.pk:
        return None
    return copy_for_embedding(document, active, created_by_id=principal.user_id)
