"""Trying a splitting or a model: the documents once more, in a base that only the run sees, until the run is over.

The trial holds the documents that the cases expect and others beside them, up to `MOST`; "before" is asked of
the same documents in the base itself, so that both sides look for the same among the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from django.db import transaction
from django.utils import timezone

from knowledge import background, base_settings, documents, intake, lifecycle, statistics, storage
from knowledge.access import searchable_documents
from knowledge.ingestion import pipeline
from knowledge.models import CaseTarget, Document, EvaluationRun, Grant, KnowledgeBase, Revision, Role
from knowledge.retrieval import RetrievalRequest, RetrievalResult, retrieve
from knowledge.retrieval.contract import Filters
from portal.gateway.endpoints import embedding_endpoint
from portal.kernel.principal import Principal

MOST = 200
# The sections of settings, and "model", that need a trial: they change what is stored.
NEEDED_FOR = frozenset({"splitting", "model"})
_WORKER = "evaluation"


def prepare(principal: Principal, turn: background.Turn[EvaluationRun]) -> bool:
    """Fill the trial of a run that needs one; False when the slice is over first."""
    run = turn.work
    if run.candidate.get("section") not in NEEDED_FOR:
        return True
    if run.trial is None:
        turn.note(trial=_make(principal, run))
    trial = run.trial
    assert trial is not None
    reader = _reader(principal, run)
    chosen = run.conditions.get("documents")
    if chosen is None:
        chosen = list(_choose(principal, run))
        turn.note(conditions={**run.conditions, "documents": chosen})
    there = set(Document.objects.filter(base=trial).values_list("source_key", flat=True))
    for uid in chosen:
        if uid not in there:
            _copy(reader, trial, principal, uid)
            turn.at(run.done)
        if not _work_through(turn, trial, uid):
            return False
    statistics.fold_all()
    return True


def _make(principal: Principal, run: EvaluationRun) -> KnowledgeBase:
    """A base that is open to nobody: its only grant is that of a channel named after the run."""
    base, values = run.base, run.candidate["values"]
    config = base.config
    endpoint = base.embedding
    if run.candidate["section"] == "model":
        endpoint = embedding_endpoint(principal, values["embedding"])
    else:
        config = base_settings.with_section(config, "splitting", {**values, "review": "never"})
    with transaction.atomic():
        trial = KnowledgeBase.objects.create(
            workspace_id=base.workspace_id,
            name=f"trial:{run.uid}",
            sensitive=True,
            config=config,
            embedding=endpoint,
            created_by_id=run.created_by_id,
        )
        Grant.objects.create(base=trial, channel=_channel(run), role=Role.EDITOR)
    return trial


def _channel(run: EvaluationRun) -> str:
    return f"trial:{run.uid}"


def _reader(principal: Principal, run: EvaluationRun) -> Principal:
    """The asker, who sees the trial besides. Only ever made here, for a run that acts on their behalf."""
    return replace(principal, channel=_channel(run), base_ids=None)


def _choose(principal: Principal, run: EvaluationRun) -> Iterator[str]:
    """Uids of what the cases expect, then of others, oldest first."""
    rows = searchable_documents(principal).filter(base=run.base)
    expected = CaseTarget.objects.filter(case__base=run.base, case__enabled=True, document__isnull=False)
    first = list(rows.filter(pk__in=expected.values("document_id")).order_by("pk").values_list("uid", flat=True)[:MOST])
    yield from first
    others = rows.exclude(uid__in=first).order_by("pk").values_list("uid", flat=True)
    yield from others[: MOST - len(first)]


def _copy(reader: Principal, trial: KnowledgeBase, principal: Principal, uid: str) -> None:
    """A document's active file, taken in once more. One that is gone by now, or a copy of another, is left out."""
    document = searchable_documents(principal).select_related("active_revision").filter(uid=uid).first()
    revision = document.active_revision if document else None
    if document is None or revision is None:
        return
    try:
        with storage.local_copy(revision.file) as path:
            received = intake.receive(reader, trial, path, revision.file_name or document.name)
    except intake.Duplicate:
        return
    Document.objects.filter(pk=received.document.pk).update(source_key=uid, name=document.name, folder=document.folder)


def _work_through(turn: background.Turn[EvaluationRun], trial: KnowledgeBase, uid: str) -> bool:
    """Do the work on one copy here, slice by slice; ingestion's own workers may be at it, too."""
    open_rows = Revision.objects.filter(base=trial, document__source_key=uid, status__in=lifecycle.OPEN)
    for revision in open_rows:
        while claim := lifecycle.claim(_WORKER, revision.pk):
            pipeline.work(claim)
            turn.at(turn.work.done, always=True)
            if turn.over:
                return False
        if open_rows.filter(pk=revision.pk).exists():
            return False
    return True


def search(
    principal: Principal,
    run: EvaluationRun,
    row: dict[str, Any],
    settings: base_settings.BaseSettings,
    request: RetrievalRequest,
) -> RetrievalResult:
    """ "after" in the trial, its hits named as the documents they are copies of; "before" in the base itself."""
    trial = run.trial
    assert trial is not None
    if row["name"] != "after":
        return retrieve(
            principal,
            replace(request, filters=Filters(document_uids=tuple(run.conditions["documents"]))),
            settings=settings,
        )
    names = dict(Document.objects.filter(base=trial).values_list("uid", "source_key"))
    result = retrieve(_reader(principal, run), replace(request, base_uids=(trial.uid,)))
    return replace(result, hits=tuple(replace(hit, document=names[hit.document]) for hit in result.hits))


def drop(run: EvaluationRun) -> None:
    """The trial's end: nothing of it is kept."""
    trial = run.trial
    if trial is None:
        return
    EvaluationRun.objects.filter(pk=run.pk).update(trial=None)
    run.trial = None
    delete(trial)


def delete(trial: KnowledgeBase) -> None:
    """Delete a trial with all that is in it."""
    KnowledgeBase.objects.filter(pk=trial.pk).update(deleted_at=timezone.now())
    Document.objects.filter(base=trial, deleted_at__isnull=True).update(deleted_at=timezone.now())
    for document in Document.objects.filter(base=trial):
        documents.purge(None, document)
    trial.delete()


def drop_leftovers() -> int:
    """Delete the trials of runs that have ended some other way; returns how many."""
    rows = KnowledgeBase.objects.filter(name__startswith="trial:", grants__channel__startswith="trial:")
    gone = rows.exclude(
        pk__in=EvaluationRun.objects.filter(status__in=EvaluationRun.OPEN, trial__isnull=False).values("trial_id")
    )
    number = 0
    for trial in gone:
        delete(trial)
        number += 1
    return number
