"""Celery's side of knowledge: each task is one call. Messages are wake-ups; the work stands in the database."""

from __future__ import annotations

import logging
import os
import socket

from celery import shared_task
from kombu.exceptions import OperationalError

from knowledge import (
    archive,
    background,
    batches,
    documents,
    generation,
    lifecycle,
    model_changes,
    quality,
    query_log,
    resumable,
    review_dates,
    statistics,
)
from knowledge.ingestion import pipeline
from knowledge.questions import embedding
from knowledge.retrieval import graphs
from knowledge.sources import crawl, runs
from knowledge.terms import retokenising
from portal.kernel.logging import trace

logger = logging.getLogger(__name__)

SOON = 10.0  # seconds; what waits longer is woken by the sweeper


def worker_name() -> str:
    """Who holds a claim: host and process."""
    return f"{socket.gethostname()}:{os.getpid()}"


def send_wake_up() -> None:
    """Ask one worker to look for work. With the broker away the row waits; the sweeper wakes workers later."""
    try:
        ingest_next.apply_async(retry=False)
    except (OperationalError, OSError) as error:
        logger.warning("wake-up not sent: %s", type(error).__name__)


@shared_task(name="knowledge.tasks.ingest_next", ignore_result=True)
def ingest_next() -> None:
    """One slice of the fairest open work; then another wake-up if there is more."""
    claim = lifecycle.claim(worker_name())
    if claim is None:
        return
    token = trace.set(f"r{claim.revision_id}.{claim.number}")
    try:
        pipeline.work(claim)
    except Exception:  # the edge of the task: whatever happened, the claim must not hang
        logger.exception("revision %s: the slice broke", claim.revision_id)
        _release(claim)
    finally:
        trace.reset(token)
    if lifecycle.somebody_waits():
        send_wake_up()


def _release(claim: lifecycle.Claim) -> None:
    try:
        lifecycle.fail(claim, pipeline.Internal("Something went wrong while this file was processed."))
    except Exception:  # the database itself may be the reason; the sweeper ends the claim later
        logger.exception("revision %s: could not be released", claim.revision_id)


@shared_task(name="knowledge.tasks.sweep", ignore_result=True)
def sweep() -> int:
    """End the claims of lost workers; wake workers for work that waits."""
    return lifecycle.sweep()


@shared_task(name="knowledge.tasks.work_on_batch", ignore_result=True)
def work_on_batch(batch_id: int) -> None:
    """One slice of a batch; then another wake-up while there is more."""
    if batches.work(batch_id):
        work_on_batch.apply_async([batch_id], retry=False)


@shared_task(name="knowledge.tasks.work_on_archive", ignore_result=True)
def work_on_archive(archive_id: int) -> None:
    """An export or import, to its end."""
    archive.work(archive_id)


@shared_task(name="knowledge.tasks.work_on_model_change", ignore_result=True)
def work_on_model_change(change_id: int) -> None:
    """One slice of a change of model; then another wake-up while there is more."""
    if model_changes.work(change_id):
        work_on_model_change.apply_async([change_id], retry=False)


@shared_task(name="knowledge.tasks.work_on_term_change", ignore_result=True)
def work_on_term_change(change_id: int) -> None:
    """One slice of what follows a change of terms; then another wake-up while there is more."""
    if retokenising.work(change_id):
        work_on_term_change.apply_async([change_id], retry=False)


@shared_task(name="knowledge.tasks.work_on_generation", ignore_result=True)
def work_on_generation(generation_id: int) -> None:
    """One slice of what a model makes of passages; then another wake-up while there is more."""
    if generation.work(generation_id):
        work_on_generation.apply_async([generation_id], retry=False)


@shared_task(name="knowledge.tasks.embed_questions", ignore_result=True)
def embed_questions() -> int:
    """Give questions that have no vector yet theirs; returns how many."""
    return embedding.embed_missing()


@shared_task(name="knowledge.tasks.work_on_evaluation", ignore_result=True)
def work_on_evaluation(run_id: int) -> None:
    """One slice of an evaluation; then another wake-up while there is more."""
    if quality.work(run_id):
        work_on_evaluation.apply_async([run_id], retry=False)


@shared_task(name="knowledge.tasks.keep_graphs", ignore_result=True)
def keep_graphs() -> None:
    """Build, rebuild or drop the graph indexes of embedding spaces as they have grown."""
    graphs.keep()


@shared_task(name="knowledge.tasks.sweep_background", ignore_result=True)
def sweep_background() -> int:
    """Send workers to batches, archives and changes of model that nobody is at; forget archives whose time is over."""
    archive.forget_expired()
    return background.sweep()


@shared_task(name="knowledge.tasks.remind_reviews", ignore_result=True)
def remind_reviews() -> int:
    """Tell people which reviews are due."""
    return review_dates.remind()


def send_source_wake_up(seconds: float = 0.0) -> None:
    """Ask one worker to look for a synchronisation, now or in some seconds."""
    try:
        sync_next.apply_async(countdown=seconds or None, retry=False)
    except (OperationalError, OSError) as error:
        logger.warning("wake-up not sent: %s", type(error).__name__)


@shared_task(name="knowledge.tasks.sync_next", ignore_result=True)
def sync_next() -> None:
    """One slice of the synchronisation that has waited longest; then a wake-up for when there is more."""
    claim = runs.claim(worker_name())
    if claim is None:
        return
    token = trace.set(f"s{claim.run_id}.{claim.number}")
    try:
        crawl.work(claim)
    except Exception:  # the edge of the task: the sweeper takes the claim back
        logger.exception("run %s: the slice broke", claim.run_id)
    finally:
        trace.reset(token)
    seconds = runs.seconds_to_next()
    if seconds is not None and seconds < SOON:
        send_source_wake_up(seconds)


@shared_task(name="knowledge.tasks.sweep_sources", ignore_result=True)
def sweep_sources() -> int:
    """Start synchronisations that are due; take back the claims of lost workers; wake workers."""
    return runs.sweep()


@shared_task(name="knowledge.tasks.fold_statistics", ignore_result=True)
def fold_statistics() -> int:
    """Merge appended term statistics."""
    return statistics.fold_all()


@shared_task(name="knowledge.tasks.clean_up", ignore_result=True)
def clean_up() -> None:
    """Empty recycle bins, drop vectors of revisions long left, forget broken-off uploads, old questions and work."""
    documents.empty_recycle_bin()
    documents.drop_superseded_vectors()
    model_changes.drop_leftovers()
    resumable.sweep()
    quality.drop_leftovers()
    query_log.sweep()
    background.forget_ended()
    runs.forget_ended()
