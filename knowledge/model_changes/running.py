"""Working through a change of model, slice by slice: embed what is missing, switch, drop what was."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from knowledge import background, notices
from knowledge.ingestion.embed import BATCH, Ahead
from knowledge.model_changes import vectors
from knowledge.model_changes.vectors import Missing
from knowledge.models import Document, KnowledgeBase, ModelChange, Revision
from knowledge.questions import embedding
from portal.gateway.accounting import Caller
from portal.gateway.embedding import embedder_for, space_of
from portal.gateway.models import EmbeddingSpace, Purpose
from portal.gateway.protocols import Vectors
from portal.kernel import audit, events
from portal.kernel.errors import ArchwayError, Conflict, Denied, Unauthenticated, Unavailable
from portal.kernel.principal import for_nobody

logger = logging.getLogger(__name__)

# Leaves looked up at once.
FETCH = 1_024


def work(change_id: int) -> bool:
    """One slice of a change; returns whether there is more to do now. Does nothing when somebody else is at it."""
    change = ModelChange.objects.filter(pk=change_id).first()
    turn = background.claim(change) if change is not None else None
    return turn is not None and _slice(turn)


def _slice(turn: background.Turn[ModelChange]) -> bool:
    turn.work = ModelChange.objects.select_related("base", "before", "after", "created_by").get(pk=turn.work.pk)
    try:
        if _advance(turn):
            background.end(turn.work, ModelChange.Status.DONE)
            return False
        turn.release()
        return True
    except background.Stopped as stopped:
        background.end(turn.work, ModelChange.Status.CANCELLED, stopped)
    except Unavailable as error:
        # The sweeper sends somebody again; searches are not touched by it.
        logger.warning("model change %s waits: %s", turn.work.pk, error.code)
        turn.note(waiting=error.code[:40])
        turn.release()
    except ArchwayError as error:
        if error.code == "claim_lost":
            return False
        if background.fail(turn.work, error):
            _tell(turn.work, "model.failed", reason=error.message, reason_params=dict(error.params))
    return False


def _advance(turn: background.Turn[ModelChange]) -> bool:
    """Returns whether the change has come to its end; False when the slice is over first."""
    change = turn.work
    if change.base.deleted_at is not None:
        raise Conflict("The knowledge base was deleted meanwhile.", code="base_deleted")
    if change.switched_at is None:
        space = space_of(change.after, _payer(change))
        if not _embed(turn, space):
            return False
        # Best effort: a question without a vector is still found by its words, and gets one within a minute.
        if change.base.has_questions:
            embedding.embed_missing(change.base, change.after, payer=_payer(change))
        if not _switch(turn, space):
            return False  # something was published meanwhile: it is embedded first
    while vectors.drop_leftovers(change.base_id):
        turn.at(change.done)
        if turn.over:
            return False
    return True


def _embed(turn: background.Turn[ModelChange], space: EmbeddingSpace) -> bool:
    """Returns whether every leaf has its vector; False when the slice is over first."""
    change = turn.work
    embedder = embedder_for(change.after, _payer(change))
    total = vectors.count_of_leaves(change.base_id)
    turn.note(space=space, total=total)
    change.done = total - vectors.count_of_missing(change.base_id, space.pk)
    turn.at(change.done, always=True)
    while rows := vectors.missing(change.base_id, space.pk, FETCH):
        batches = [rows[place : place + BATCH] for place in range(0, len(rows), BATCH)]
        texts = [[(row.leaf, row.text) for row in batch] for batch in batches]
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="embed") as pool:
            ahead = Ahead(embedder, texts, pool)
            for batch in batches:
                made = ahead.embed_passages([row.text for row in batch])
                change.done += _write(change, space, batch, made)
                if change.waiting:
                    turn.note(waiting="")
                turn.at(change.done)
                if turn.over:
                    pool.shutdown(cancel_futures=True)
                    return False
    return True


def _payer(change: ModelChange) -> Caller:
    """Who started the change; the workspace when they have left."""
    try:
        principal = background.asker_of(change)
    except (Denied, Unauthenticated):
        principal = for_nobody(change.workspace_id)
    return Caller(principal, Purpose.EMBED, bases=(change.base.uid,))


def _write(change: ModelChange, space: EmbeddingSpace, rows: list[Missing], made: Vectors) -> int:
    with transaction.atomic():
        _hold(change)
        return vectors.write(space, rows, made)


def _hold(change: ModelChange) -> ModelChange:
    """The change's row, locked until the transaction ends. Raises `Conflict` (claim_lost) when it is no longer ours."""
    row = (
        ModelChange.objects.select_for_update(of=("self",))
        .filter(pk=change.pk, claim_no=change.claim_no, status=ModelChange.Status.RUNNING)
        .first()
    )
    if row is None:
        raise Conflict("Another worker took this over.", code="claim_lost")
    return row


@transaction.atomic
def _switch(turn: background.Turn[ModelChange], space: EmbeddingSpace) -> bool:
    """Let searches use the new model from this moment on; False when a vector is missing by now.

    Revisions, documents and the base are locked in the order in which publishing locks them, so that nothing is
    published between the look and the switch: what comes later sees the base's new model (`lifecycle.publish`).
    """
    change = turn.work
    active = Document.objects.filter(base_id=change.base_id, active_revision__isnull=False).values("active_revision_id")
    list(Revision.objects.select_for_update(of=("self",)).filter(pk__in=active).order_by("pk").values_list("pk"))
    list(Document.objects.select_for_update().filter(base_id=change.base_id).order_by("pk").values_list("pk"))
    base = KnowledgeBase.objects.select_for_update().get(pk=change.base_id)
    if _hold(change).cancel_requested:
        raise background.Stopped("Cancelled.")
    if not vectors.is_complete(base.pk, space.pk):
        return False
    now = timezone.now()
    KnowledgeBase.objects.filter(pk=base.pk).update(embedding=change.after, stamp=F("stamp") + 1)
    Revision.objects.filter(pk__in=active).update(space=space)
    # Earlier revisions have no vectors of this model; going back to one of them means re-indexing it.
    earlier = Revision.objects.filter(base=base, status=Revision.Status.INDEXED).exclude(pk__in=active)
    earlier.update(vectors_kept=False, space=space)
    turn.note(switched_at=now, waiting="")
    audit.record(
        None,
        "base.model_switched",
        base,
        workspace_id=base.workspace_id,
        base_ids=[base.pk],
        before=change.before.name,
        after=change.after.name,
        chunks=change.done,
    )
    _tell(change, "model.changed")
    events.publish(f"base:{base.uid}", {"type": "base.changed"})
    return True


def _tell(change: ModelChange, kind: str, **params: Any) -> None:
    notices.tell_of_work(change, kind, page="settings/?section=models", model=change.after.name, **params)
