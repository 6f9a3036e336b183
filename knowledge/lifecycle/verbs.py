"""Verbs of people: retry, cancel, confirm, split again, re-index, roll back. Rows come from `knowledge/access.py`."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from knowledge import base_settings
from knowledge.chunks import carrying
from knowledge.chunks.losses import refuse_losses
from knowledge.ingestion.store import drop_chunks
from knowledge.lifecycle.announcing import announce, announce_id, wake
from knowledge.lifecycle.states import OPEN, RETRYABLE, Status
from knowledge.lifecycle.work import activate_row, cancel_row
from knowledge.models import Document, Revision
from portal.kernel import audit
from portal.kernel.errors import Conflict, Invalid
from portal.kernel.principal import Principal


@transaction.atomic
def retry(principal: Principal, revision: Revision) -> None:
    """Queue a failed, cancelled or empty revision again; it goes on where its last finished stage ended.

    One that was sent back from its review waits for that review again.
    """
    _no_open_sibling(revision)
    row = Revision.objects.select_for_update().get(pk=revision.pk)
    if row.status not in RETRYABLE:
        raise Conflict("This is not in a state that can be retried.", code="not_retryable")
    to_review = row.status == Status.CANCELLED and row.stage == "embed" and waits_for_review(row)
    Revision.objects.filter(pk=row.pk).update(
        status=Status.REVIEW if to_review else Status.PENDING,
        attempts_before=F("attempts"),
        not_before=None,
        cancel_requested=False,
        claimed_by="",
        served_at=None,
        queued_at=timezone.now(),
        started_at=None,
        finished_at=None,
    )
    audit.record(principal, "revision.retry", revision, base_ids=[revision.base_id])
    announce_id(revision.pk)
    wake()


def waits_for_review(revision: Revision) -> bool:
    """Whether the revision stops after splitting until somebody approves it."""
    return bool(revision.config.get("splitting", {}).get("review") == "always")


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
    row = _in_review(revision)
    _queue(row, "embed", base_settings.with_splitting(row.config, {"review": "never"}), handwork={})
    audit.record(principal, "revision.confirm", revision, base_ids=[revision.base_id])
    announce_id(revision.pk)
    wake()


@transaction.atomic
def resplit(
    principal: Principal, revision: Revision, splitting: dict[str, Any], *, discard_edits: bool = False
) -> None:
    """Split a revision under review again by other settings, from the text that was read; then it waits as before.

    `splitting` holds the settings to change; they are kept for this document. Changes made by hand go along where
    their passages come out the same; `discard_edits` accepts that the others are lost. Raises `Invalid` for
    settings that can not be used and `Conflict` (not_in_review, edits_lost).
    """
    row = _in_review(revision)
    config = base_settings.with_splitting(row.config, {**splitting, "review": "always"})
    if not discard_edits:
        refuse_losses(row, row, config)
    by_hand = carrying.as_json(row)
    drop_chunks(row.pk)
    _queue(row, "parse", config, own_splitting=True, chunk_count=0, token_count=0, handwork=by_hand)
    audit.record(principal, "revision.resplit", row, base_ids=[row.base_id], splitting=config["splitting"])
    announce_id(row.pk)
    wake()


def _in_review(revision: Revision) -> Revision:
    row = Revision.objects.select_for_update(of=("self",)).select_related("document").get(pk=revision.pk)
    if row.status != Status.REVIEW:
        raise Conflict("This revision does not wait for a review.", code="not_in_review")
    return row


def _queue(row: Revision, stage: str, config: dict[str, Any], **changes: Any) -> None:
    Revision.objects.filter(pk=row.pk).update(
        status=Status.PENDING,
        stage=stage,
        config=config,
        attempts_before=F("attempts"),
        queued_at=timezone.now(),
        finished_at=None,
        served_at=None,
        **changes,
    )


@transaction.atomic
def reindex(
    principal: Principal,
    document: Document,
    *,
    splitting: dict[str, Any] | None = None,
    as_base: bool = False,
    review: bool = False,
    discard_edits: bool = False,
) -> Revision:
    """Read the newest bytes again: a new revision; the old one serves meanwhile.

    Split by `splitting` (what it leaves out as the base says), else as was chosen for this document, else
    (or when `as_base`) as the base says today. Changes made by hand go along where their passages come out the
    same; without `discard_edits` a document that would lose others is refused (`edits_lost`).
    """
    newest = document.revisions.order_by("-number").first()
    if newest is None:
        raise Invalid("This document has no file.", code="no_file")
    # Under the lock that an edit takes: it is either seen here, or sees the new revision and is refused.
    active = Document.objects.select_for_update(of=("self",)).get(pk=document.pk).active_revision
    if active is not None and not discard_edits:
        refuse_losses(active, newest, _config_of(document, newest, splitting, as_base)[0])
    revision = add_revision(
        document,
        created_by_id=principal.user_id,
        splitting=splitting,
        as_base=as_base,
        review=review,
        file=newest.file,
        file_name=newest.file_name,
        sha256=newest.sha256,
        mime=newest.mime,
        size=newest.size,
    )
    audit.record(
        principal,
        "document.reindex",
        document,
        base_ids=[document.base_id],
        revision=revision.number,
        own_splitting=revision.own_splitting,
    )
    return revision


def add_revision(
    document: Document,
    *,
    created_by_id: int | None,
    splitting: dict[str, Any] | None = None,
    as_base: bool = False,
    review: bool = False,
    **fields: Any,
) -> Revision:
    """Queue a new revision of a document, its settings frozen into it. One open revision at a time.

    `splitting`, `as_base` and `review` (stop for a review whatever the base says) as in `reindex`. Must be
    called in a transaction.
    """
    Document.objects.select_for_update().get(pk=document.pk)
    if document.revisions.filter(status__in=[*OPEN, Status.REVIEW]).exists():
        raise Conflict(
            "%(name)s is still being processed; wait until it is done, or cancel it.",
            code="revision_open",
            name=document.name,
        )
    last = document.revisions.order_by("-number").first()
    config, own = _config_of(document, last, splitting, as_base)
    if review:
        config = base_settings.with_splitting(config, {"review": "always"})
    revision = Revision.objects.create(
        document=document,
        base_id=document.base_id,
        number=last.number + 1 if last else 1,
        config=config,
        own_splitting=own,
        created_by_id=created_by_id,
        **fields,
    )
    announce_id(revision.pk)
    wake()
    return revision


def _config_of(
    document: Document, last: Revision | None, splitting: dict[str, Any] | None, as_base: bool
) -> tuple[dict[str, Any], bool]:
    """(settings of a new revision, whether they were chosen for this document)."""
    config = document.base.config
    if splitting is None and last is not None and last.own_splitting and not as_base:
        splitting = base_settings.read(last.config).splitting.model_dump(mode="json")
    if splitting is None:
        return config, False
    return base_settings.with_splitting(config, {**splitting, "review": _review_of(config)}), True


def _review_of(config: dict[str, Any]) -> str:
    return base_settings.read(config).splitting.review


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
