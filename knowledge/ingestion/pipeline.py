"""From claimed bytes to a searchable revision, slice by slice.

Two stages around the review point, each in LlamaIndex's frame (`transformations.py`): parse + split,
then embed + store. This module alone decides what a slice does, what is kept between slices, and what
an error means for the claim. Everything it writes goes through `lifecycle` and `store`, which fence it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction

from knowledge import base_settings, lifecycle, storage
from knowledge.chunks import carrying
from knowledge.images import keeping, places
from knowledge.images.recognised import KeptTexts
from knowledge.ingestion import store
from knowledge.ingestion.blocks import ParseContext, ParsedDocument, Source
from knowledge.ingestion.convert import ConvertLimits
from knowledge.ingestion.embed import embed_and_store
from knowledge.ingestion.kept import tidied_key
from knowledge.ingestion.ocr.recognising import OcrLimits
from knowledge.ingestion.read_file import ReadOptions, read_file
from knowledge.ingestion.sandbox import SandboxLimits
from knowledge.ingestion.split import tidy
from knowledge.ingestion.transformations import parse_and_split, rules_of
from knowledge.lifecycle import Claim
from knowledge.metadata import stated
from knowledge.models import Chunk, Origin, Revision
from knowledge.questions import of_file
from portal.gateway.accounting import Caller
from portal.gateway.embedding import counter_for, embedder_for, space_of
from portal.gateway.models import Purpose
from portal.gateway.protocols import TokenCounter
from portal.kernel.errors import ArchwayError, Conflict, ParseError, TooMany, Unavailable
from portal.kernel.principal import on_behalf_of

logger = logging.getLogger(__name__)

# Raise it when parsers give other output for the same bytes: kept outputs are then made anew.
PARSER_VERSION = 4
TELL_EVERY = 0.4
AWAY_SECONDS = 15
QUOTA_SECONDS = 900
LONGEST_TURN = 60.0
COUNTED_AT_ONCE = 500  # texts between two signs of life while a document is split


class Internal(ArchwayError):
    """Something of ours went wrong; the log says what."""

    default_code = "internal_error"
    retryable = True


@dataclass(slots=True)
class Slice:
    """One worker's turn at a revision: its claim, and the moment at which it should set the work aside."""

    claim: Claim
    deadline: float = field(default_factory=lambda: time.monotonic() + settings.ARCHWAY["SLICE_SECONDS"])
    _told: float = 0.0
    _began: float = field(default_factory=time.monotonic)

    @property
    def over(self) -> bool:
        """Whether to set the work aside. While nobody waits, the turn goes on, up to a minute."""
        now = time.monotonic()
        if now < self.deadline:
            return False
        if now - self._began < LONGEST_TURN and not lifecycle.somebody_waits():
            self.deadline = now + settings.ARCHWAY["SLICE_SECONDS"] / 5
            return False
        return True

    def progress(self, done: int, total: int | None, unit: str) -> None:
        """Heartbeat and progress; raises when the claim is lost or somebody cancelled."""
        now = time.monotonic()
        last = total is not None and done >= total
        if now - self._told >= TELL_EVERY or last:
            self._told = now
            lifecycle.progress(self.claim, done, total, unit)


def work(claim: Claim) -> None:
    """Spend one slice on a claimed revision and leave it in an honest state, whatever happens."""
    try:
        _work_to_an_end(claim)
    except Conflict as error:
        if error.code != "claim_lost":
            raise
        # Noticed at the next write, be it the one that would have said how the slice ended.
        logger.info("revision %s: claim %s was lost", claim.revision_id, claim.number)


def _work_to_an_end(claim: Claim) -> None:
    """The slice, and what its errors mean for the claim. Raises `Conflict` (claim_lost)."""
    try:
        _work(Slice(claim))
    except lifecycle.Cancelled:
        lifecycle.stop(claim)
    except Unavailable as error:
        logger.warning("revision %s waits: %s", claim.revision_id, error.code)
        lifecycle.set_aside(claim, not_before_seconds=AWAY_SECONDS)
    except TooMany as error:
        # A quota is used up: the document waits, and looks again long before a month has passed.
        logger.warning("revision %s waits: %s", claim.revision_id, error.code)
        lifecycle.set_aside(claim, not_before_seconds=min(error.retry_after, QUOTA_SECONDS))
    except ArchwayError as error:
        if error.code == "claim_lost":
            raise
        if error.code == "no_text":
            lifecycle.finish(claim, Revision.Status.NO_TEXT, error_code=error.code, error_message=error.message)
        else:
            lifecycle.fail(claim, error)


def _work(turn: Slice) -> None:
    revision = Revision.objects.select_related("document", "base", "base__embedding").get(pk=turn.claim.revision_id)
    if revision.stage == "parse":
        if not _timed(turn, "parsing", lambda: _parse_and_split(turn, revision)):
            lifecycle.set_aside(turn.claim)
            return
        if lifecycle.waits_for_review(revision):
            lifecycle.finish(turn.claim, Revision.Status.REVIEW, stage="embed")
            return
        lifecycle.advance(turn.claim, Revision.Status.VECTORIZING, stage="embed")
        revision.refresh_from_db()
    if _timed(turn, "vectorizing", lambda: _embed(turn, revision)):
        lifecycle.publish(turn.claim)
    else:
        lifecycle.set_aside(turn.claim)


def _timed(turn: Slice, stage: str, act: Callable[[], bool]) -> bool:
    began = time.monotonic()
    done = act()
    lifecycle.note_seconds(turn.claim, stage, time.monotonic() - began)
    return done


# -- stage one: parse and split -------------------------------------------------------------------


def raw_key(revision: Revision) -> str:
    """The name of the output of the reader: of one base, because the pictures in it are stored by base."""
    options = _options(revision)
    reading = options.recognition if options.recognises else "off"
    return storage.output_key("parsed", PARSER_VERSION, revision.base.uid, revision.sha256, revision.mime, reading)


def _parse_and_split(turn: Slice, revision: Revision) -> bool:
    """Returns whether all chunks are written; False when the slice ended first."""
    try:
        passages = parse_and_split(
            lambda source: _parse(turn, revision, source),
            Source(path=Path(revision.file), name=revision.file_name, mime=revision.mime),
            base_settings.read(revision.config).splitting,
            _Beating(turn, counter_for(revision.base.embedding)),
            lambda done, total: turn.progress(min(done, total - 1), total, "character"),
        )
    except _SliceOver:
        return False
    if not passages:
        raise ParseError("No text was found in this file.", code="no_text")
    # The next slice would have to split again, so what this one split is worth some time for writing.
    turn.deadline = max(turn.deadline, time.monotonic() + settings.ARCHWAY["SLICE_SECONDS"])
    try:
        leaves = store.write_chunks(
            revision, turn.claim.number, passages, lambda done, total: _split_progress(turn, done, total)
        )
    except _SliceOver:
        return False
    of_file.write(revision, turn.claim.number, passages)
    by_hand = carrying.carry(
        revision, turn.claim.number, lambda done, total: turn.progress(len(passages), len(passages) + 1, "passage")
    )
    store.keep_exclusions(revision, turn.claim.number)
    tokens = sum(leaf.token_count for passage in passages for leaf in passage.leaves)
    if by_hand.kept:
        leaves, tokens = store.count_leaves(revision.pk)
    more = {"warnings": _with_losses(revision, by_hand.lost)} if by_hand.lost else {}
    lifecycle.advance(turn.claim, Revision.Status.SEGMENTING, chunk_count=leaves, token_count=tokens, **more)
    return True


def _with_losses(revision: Revision, lost: int) -> list[str]:
    warnings = Revision.objects.values_list("warnings", flat=True).get(pk=revision.pk)
    said = f"edits_not_carried: {lost} changes made by hand found no place in this split."
    return [*(one for one in warnings if not one.startswith("edits_not_carried:")), said]


class _Beating:
    """Counts tokens a few texts at a time, with a sign of life in between: a table of 300,000 rows takes a minute."""

    def __init__(self, turn: Slice, counter: TokenCounter) -> None:
        self.max_tokens = counter.max_tokens
        self._counter = counter
        self._turn = turn
        self._done, self._total = 0, 1

    def count(self, texts: Sequence[str]) -> list[int]:
        """As the counter itself. Raises what `Slice.progress` raises."""
        if len(texts) > COUNTED_AT_ONCE:
            self._total = len(texts) + 1  # the passages are still to be made
        counts: list[int] = []
        for start in range(0, len(texts), COUNTED_AT_ONCE):
            if len(texts) > COUNTED_AT_ONCE:
                self._done = start
            self._turn.progress(self._done, self._total, "block")
            counts.extend(self._counter.count(texts[start : start + COUNTED_AT_ONCE]))
        return counts


class _SliceOver(Exception):
    """The time of the slice is up; what is written so far stays."""


def _split_progress(turn: Slice, done: int, total: int) -> None:
    turn.progress(done, total, "passage")
    if turn.over and done < total:
        raise _SliceOver


def _parse(turn: Slice, revision: Revision, source: Source) -> ParsedDocument:
    """The parsed document, from what was kept or from a limited child process; then on to splitting."""
    raw = raw_key(revision)
    kept = storage.read_output(raw)
    if kept is not None and not keeping.are_there(kept.get("images", [])):
        storage.delete_output(raw)
        kept = None
    if kept is None:
        document, images = keeping.store(
            revision.base, _read(turn, revision, source), lambda done, total: turn.progress(done, total, "block")
        )
        _write(turn, raw, document, images)
    else:
        document, images = ParsedDocument.from_json(kept), kept.get("images", [])
    rules = rules_of(base_settings.read(revision.config).splitting)
    revision.raw_key, revision.parsed_key = raw, tidied_key(raw, rules)
    if rules:
        document = tidy(document, rules)
        _write(turn, revision.parsed_key, document, images)
    _place_images(turn, revision, document, images)
    if not document.text.strip():
        raise ParseError("No text was found in this file.", code="no_text")
    if revision.status != Revision.Status.SEGMENTING:
        lifecycle.advance(
            turn.claim,
            Revision.Status.SEGMENTING,
            warnings=list(document.warnings)[:100],
            page_count=document.page_count,
            metadata=stated(document.metadata),
            parsed_key=revision.parsed_key,
            raw_key=raw,
        )
        revision.status = Revision.Status.SEGMENTING
    return document


def _write(turn: Slice, key: str, document: ParsedDocument, images: list[dict[str, Any]]) -> None:
    storage.write_output(
        key, {**document.as_json(), "images": images}, lambda done, total: turn.progress(done, total + 1, "byte")
    )


def _read(turn: Slice, revision: Revision, source: Source) -> ParsedDocument:
    """The file read in child processes. Raises `_SliceOver` between two batches of recognised pages."""

    def pause() -> None:
        if turn.over:
            raise _SliceOver

    with storage.local_copy(revision.file) as path:
        return read_file(
            replace(source, path=path),
            replace(_options(revision), group=_group(revision)),
            progress=lambda done, total: turn.progress(done, total or None, "page"),
            pause=pause,
            kept=KeptTexts(revision),
        )


def _options(revision: Revision) -> ReadOptions:
    limits = settings.ARCHWAY
    seconds = limits["PARSE_SECONDS"]
    return ReadOptions(
        recognition=base_settings.read(revision.config).pictures.recognition,
        parsing=SandboxLimits(
            memory_mb=limits["PARSE_MEMORY_MB"],
            cpu_seconds=seconds,
            wall_seconds=seconds,
            files=limits["PARSE_FILES"],
        ),
        ocr=OcrLimits(
            memory_mb=limits["OCR_MEMORY_MB"],
            page_seconds=limits["OCR_PAGE_SECONDS"],
            max_pages=limits["OCR_MAX_PAGES"],
            max_pictures=limits["OCR_MAX_PICTURES"],
        ),
        converting=ConvertLimits(
            program=limits["SOFFICE"], memory_mb=limits["CONVERT_MEMORY_MB"], seconds=limits["CONVERT_SECONDS"]
        ),
        context=ParseContext(max_images=limits["MAX_PICTURES"], max_image_bytes=limits["MAX_PICTURE_BYTES"]),
    )


def _group(revision: Revision) -> str | None:
    """Whose files may share a reader process: one person's in one base. Pages of the web share none."""
    if revision.created_by_id is None or Origin.objects.filter(document=revision.document_id).exists():
        return None
    return f"{revision.base_id} {revision.created_by_id}"


def _place_images(turn: Slice, revision: Revision, document: ParsedDocument, images: list[dict[str, Any]]) -> None:
    with transaction.atomic():
        store.hold_claim(revision.pk, turn.claim.number)
        keeping.keep(revision, images)
        places.write(revision, document)


# -- stage two: embed and store -------------------------------------------------------------------


def _payer(revision: Revision) -> Caller:
    """Who brought the document in; the workspace when they have left."""
    base = revision.base
    return Caller(on_behalf_of(revision.created_by_id, base.workspace_id), Purpose.INGEST, bases=(base.uid,))


def _embed(turn: Slice, revision: Revision) -> bool:
    """Returns whether every leaf has its vector; False when the slice ended first."""
    endpoint = revision.base.embedding
    payer = _payer(revision)
    space = space_of(endpoint, payer)
    if revision.space_id != space.pk:
        lifecycle.advance(turn.claim, Revision.Status.VECTORIZING, space=space)
        revision.space = space
        store.reuse_vectors(revision, turn.claim.number, space)
    total = Chunk.objects.filter(revision=revision, level=Chunk.Level.LEAF).count()
    return embed_and_store(
        revision,
        turn.claim.number,
        space,
        embedder_for(endpoint, payer),
        total=total,
        on_progress=lambda done: turn.progress(done, total, "chunk"),
        is_over=lambda: turn.over,
    )
