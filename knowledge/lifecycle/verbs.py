"""Verbs of people: retry, cancel, confirm, re-index, roll back. The row comes from `knowledge/access.py`."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from knowledge.lifecycle.announcing import announce, announce_id, wake
from knowledge.lifecycle.states import OPEN, RETRYABLE, Status
from knowledge.lifecycle.work import activate_row, cancel_row
from knowledge.models import Document, Revision
from portal.kernel import audit
from portal.kernel.errors import Conflict, Invalid
from portal.kernel.principal import Principal


@transaction.atomic
def retry(principal: Principal, revision: Revision) -> None:
    """Queue a failed, cancelled or empty revision again; it goes on where its last finished stage ended."""
    _no_open_sibling(revision)
    moved = Revision.objects.filter(pk=revision.pk, status__in=RETRYABLE).update(
        status=Status.PENDING,
        attempts_before=F("attempts"),
        not_before=None,
        cancel_requested=False,
        claimed_by="",
        served_at=None,
        queued_at=timezone.now(),
        started_at=None,
        finished_at=None,
    )
    if moved != 1:
        raise Conflict("This is not in a state that can be retried.", code="not_retryable")
    audit.record(principal, "revision.retry", revision, base_ids=[revision.base_id])
    announce_id(revision.pk)
    wake()


def _no_open_sibling(revision: Revision) -> None:
    siblings = Revision.objects.filter(document_id=revision.document_id, status__in=[*OPEN, Status.REVIEW])
    if siblings.exclude(pk=revision.pk).exists():
        raise Conflict("Another revision of this document is being processed.", code="revision_open")


@transaction.atomic
def cancel(principal: Principal, revision: Revision) -> None:
    """Stop the work: at once when nobody is at it, otherwise at the worker's next step."""
    row = Revision.objects.select_for_update().get(pk=revision.pk)
    if row.status == Status.CANCELLED or row.cancel_requested:
        return
    if row.status not in (*OPEN, Status.REVIEW):
        raise Conflict("There is nothing to cancel: the work has ended.", code="not_cancellable")
    audit.record(principal, "revision.cancel", row, base_ids=[row.base_id])
    if row.claimed_by:
        row.cancel_requested = True
        row.save(update_fields=["cancel_requested"])
        announce(row)
    else:
        cancel_row(row)


@transaction.atomic
def confirm(principal: Principal, revision: Revision) -> None:
    """Let a reviewed revision go on to vectorizing."""
    moved = Revision.objects.filter(pk=revision.pk, status=Status.REVIEW).update(
        status=Status.PENDING,
        stage="embed",
        attempts_before=F("attempts"),
        queued_at=timezone.now(),
        finished_at=None,
        served_at=None,
    )
    if moved != 1:
        raise Conflict("This revision does not wait for a review.", code="not_in_review")
    audit.record(principal, "revision.confirm", revision, base_ids=[revision.base_id])
    announce_id(revision.pk)
    wake()


@transaction.atomic
def reindex(principal: Principal, document: Document) -> Revision:
    """Read the newest bytes again with the base's settings of today: a new revision; the old one serves meanwhile."""
    newest = document.revisions.order_by("-number").first()
    if newest is None:
        raise Invalid("This document has no file.", code="no_file")
    revision = add_revision(
        document,
        created_by_id=principal.user_id,
        file=newest.file,
        file_name=newest.file_name,
        sha256=newest.sha256,
        mime=newest.mime,
        size=newest.size,
    )
    audit.record(principal, "document.reindex", document, base_ids=[document.base_id], revision=revision.number)
    return revision


def add_revision(document: Document, *, created_by_id: int | None, **fields: Any) -> Revision:
    """Queue a new revision of a document, the base's settings frozen into it. One open revision at a time.

    Must be called in a transaction.
    """
    Document.objects.select_for_update().get(pk=document.pk)
    if document.revisions.filter(status__in=[*OPEN, Status.REVIEW]).exists():
        raise Conflict(
            "%(name)s is still being processed; wait until it is done, or cancel it.",
            code="revision_open",
            name=document.name,
        )
    last = document.revisions.order_by("-number").values_list("number", flat=True).first() or 0
    revision = Revision.objects.create(
        document=document,
        base_id=document.base_id,
        number=last + 1,
        config=document.base.config,
        created_by_id=created_by_id,
        **fields,
    )
    announce_id(revision.pk)
    wake()
    return revision


@transaction.atomic
def activate(principal: Principal, document: Document, revision: Revision) -> None:
    """Roll back (or forward) to another indexed revision of the document."""
    locked = Document.objects.select_for_update().get(pk=document.pk)
    row = Revision.objects.filter(pk=revision.pk, document=locked, status=Status.INDEXED).first()
    if row is None:
        raise Conflict("Only a searchable revision can be made the current one.", code="not_indexed")
    if locked.active_revision_id == row.pk:
        return
    if not row.vectors_kept:
        raise Conflict(
            "The vectors of this revision were cleaned up; upload its file again, or re-index it.", code="vectors_gone"
        )
    before = locked.active_revision.number if locked.active_revision else None
    activate_row(locked, row)
    audit.record(principal, "document.activate", locked, base_ids=[locked.base_id], revision=row.number, before=before)
    announce(row)
