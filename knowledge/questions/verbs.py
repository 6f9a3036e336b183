"""What people, sheets and models do with the questions of passages: add, change, switch, delete.

A question is found by its words from the commit on; its vector follows in the background. Passages come from
`knowledge/access.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

from django.db import connection, transaction
from django.db.models import QuerySet

from knowledge import lifecycle
from knowledge.models import Chunk, ChunkQuestion, Document, KnowledgeBase
from knowledge.questions import embedding
from knowledge.terms import overlay
from knowledge.text import Terms, clean, normalise, tokenise, tsvector_literal
from portal.kernel import audit, events
from portal.kernel.errors import Conflict, Invalid
from portal.kernel.models import new_uid
from portal.kernel.principal import Principal

Origin = ChunkQuestion.Origin
LONGEST = 500
MOST_OF_PASSAGE = 100
MOST_OF_BASE = 200_000

_INSERT = """
INSERT INTO knowledge_chunkquestion
       (uid, base_id, revision_id, chunk_id, version, text, digest, source, enabled, words, lexemes, created_by_id,
        created_at)
SELECT fresh.uid, %(base)s, %(revision)s, %(chunk)s, %(version)s, fresh.text, fresh.digest, %(source)s, true,
       fresh.words, fresh.lexemes::tsvector, %(by)s, now()
  FROM unnest(%(uids)s::text[], %(texts)s::text[], %(digests)s::text[], %(words)s::int[], %(lexemes)s::text[])
       AS fresh (uid, text, digest, words, lexemes)
    ON CONFLICT (chunk_id, digest) DO NOTHING RETURNING id
"""


def add(
    principal: Principal | None, chunk: Chunk, texts: Iterable[str], *, source: str = Origin.HAND
) -> list[ChunkQuestion]:
    """Give a passage (of a leaf: the one it belongs to) questions that it answers; returns those that are new.

    Questions that it has already, in whatever spelling, are left out. `principal` None: the portal itself, for
    generated ones. Raises `Invalid` (question_invalid, too_many_questions) and `Conflict` (not_a_passage).
    """
    wanted = {digest_of(text): text for text in map(checked, texts)}
    if not wanted:
        return []
    with transaction.atomic():
        document, passage = _held(chunk)
        _room(document.base, passage, len(wanted))
        fresh = _insert(principal, document, passage, wanted, source)
        if fresh:
            KnowledgeBase.objects.filter(pk=document.base_id, has_questions=False).update(has_questions=True)
            audit.record(
                principal,
                "question.add",
                document,
                workspace_id=document.base.workspace_id,
                base_ids=[document.base_id],
                chunk=passage.pk,
                source=str(source),
                questions=len(fresh),
            )
            _changed(document)
    return list(ChunkQuestion.objects.filter(pk__in=fresh).order_by("pk"))


def change(principal: Principal, question: ChunkQuestion, text: str) -> ChunkQuestion:
    """Another wording; from then on it counts as written by hand, for the passage as it is now. Raises `Invalid` and
    `Conflict` (question_taken)."""
    text = checked(text)
    with transaction.atomic():
        document, passage = _held(question.chunk)
        row = _locked(question)
        if row.text == text and row.version == passage.version:
            return row
        digest = digest_of(text)
        if ChunkQuestion.objects.filter(chunk=passage, digest=digest).exclude(pk=row.pk).exists():
            raise Conflict("The passage has this question already.", code="question_taken")
        before = row.text
        _forget_elsewhere(document, row)
        tokens = tokenise(text, overlay.held(document.base_id))
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE knowledge_chunkquestion SET text = %s, digest = %s, words = %s, lexemes = %s::tsvector, "
                "version = %s, source = %s WHERE id = %s",
                [text, digest, len(tokens), tsvector_literal(tokens), passage.version, Origin.HAND.value, row.pk],
            )
            if before != text:
                cursor.execute("DELETE FROM knowledge_questionvector WHERE question_id = %s", [row.pk])
        audit.record(principal, "question.change", document, base_ids=[document.base_id], before=before, after=text)
        _changed(document)
    return ChunkQuestion.objects.get(pk=row.pk)


def set_enabled(principal: Principal, question: ChunkQuestion, enabled: bool) -> ChunkQuestion:
    """Let searches use a question, or not."""
    with transaction.atomic():
        document, _ = _held(question.chunk)
        row = _locked(question)
        if row.enabled != enabled:
            row.enabled = enabled
            row.save(update_fields=["enabled"])
            verb = "question.enable" if enabled else "question.disable"
            audit.record(principal, verb, document, base_ids=[document.base_id], question=row.text)
            _changed(document)
    return row


def delete(principal: Principal, question: ChunkQuestion) -> None:
    """Take a question away, from other revisions and removed passages too: no way back brings it back."""
    with transaction.atomic():
        document, _ = _held(question.chunk)
        row = _locked(question)
        _forget_elsewhere(document, row)
        row.delete()
        audit.record(principal, "question.delete", document, base_ids=[document.base_id], question=row.text)
        _changed(document)


def of_passages(chunk_ids: Sequence[int]) -> dict[int, list[ChunkQuestion]]:
    """The questions of passages, in the order in which they were written."""
    found: dict[int, list[ChunkQuestion]] = {}
    for row in ChunkQuestion.objects.filter(chunk_id__in=list(chunk_ids)).defer("lexemes").order_by("pk"):
        found.setdefault(row.chunk_id, []).append(row)
    return found


def of_base(base: KnowledgeBase) -> QuerySet[ChunkQuestion]:
    """The questions of the searchable documents of a base, newest first."""
    return (
        ChunkQuestion.objects.filter(base=base, chunk__level=Chunk.Level.PASSAGE)
        .filter(revision__document__deleted_at__isnull=True)
        .extra(where=["knowledge_chunkquestion.revision_id = knowledge_document.active_revision_id"])
        .defer("lexemes")
        .order_by("-pk")
    )


def checked(text: str) -> str:
    """A question as it is kept. Raises `Invalid` (question_invalid)."""
    cleaned = " ".join(clean(text).split())
    if len(cleaned) > LONGEST or not tokenise(cleaned):
        raise Invalid("A question has 1 to %(n)s characters.", code="question_invalid", n=LONGEST)
    return cleaned


def digest_of(text: str) -> str:
    """The same for two spellings that differ in case, width, blanks or the mark at the end."""
    return sha256("".join(normalise(text).text.split()).rstrip("?？!！.。").encode("utf-8", "replace")).hexdigest()


def _insert(
    principal: Principal | None, document: Document, passage: Chunk, wanted: dict[str, str], source: str
) -> list[int]:
    terms: Terms | None = overlay.held(document.base_id)
    tokens = [tokenise(text, terms) for text in wanted.values()]
    values: dict[str, Any] = {
        "base": document.base_id,
        "revision": passage.revision_id,
        "chunk": passage.pk,
        "version": passage.version,
        "source": str(source),
        "by": principal.user_id if principal else None,
        "uids": [new_uid() for _ in wanted],
        "texts": list(wanted.values()),
        "digests": list(wanted),
        "words": [len(one) for one in tokens],
        "lexemes": [tsvector_literal(one) for one in tokens],
    }
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, values)
        return [row[0] for row in cursor.fetchall()]


def _held(chunk: Chunk) -> tuple[Document, Chunk]:
    """The document, locked, and the passage. Raises `Conflict` (not_a_passage) for one that was removed."""
    pk = chunk.parent_id if chunk.level == Chunk.Level.LEAF and chunk.parent_id else chunk.pk
    document = Document.objects.select_for_update(of=("self",)).select_related("base")
    held = document.get(revisions__chunks=pk)
    passage = Chunk.objects.defer("lexemes").get(pk=pk)
    if passage.level != Chunk.Level.PASSAGE:
        raise Conflict("This passage was removed; restore it first.", code="not_a_passage")
    return held, passage


def _locked(question: ChunkQuestion) -> ChunkQuestion:
    row = ChunkQuestion.objects.select_for_update(of=("self",)).defer("lexemes").filter(pk=question.pk).first()
    if row is None:
        raise Conflict("Somebody has deleted this question meanwhile.", code="question_gone")
    return row


def _room(base: KnowledgeBase, passage: Chunk, more: int) -> None:
    if ChunkQuestion.objects.filter(chunk=passage).count() + more > MOST_OF_PASSAGE:
        raise Invalid("A passage takes at most %(n)s questions.", code="too_many_questions", n=MOST_OF_PASSAGE)
    if base.has_questions and ChunkQuestion.objects.filter(base=base).count() + more > MOST_OF_BASE:
        raise Invalid("A base takes at most %(n)s questions.", code="too_many_questions", n=MOST_OF_BASE)


def _forget_elsewhere(document: Document, row: ChunkQuestion) -> None:
    others = ChunkQuestion.objects.filter(revision__document=document, digest=row.digest).exclude(pk=row.pk)
    # Of this revision, those of passages that were removed or merged into another one: an undo brings them back.
    others.exclude(revision_id=row.revision_id, chunk__level=Chunk.Level.PASSAGE).delete()


def _changed(document: Document) -> None:
    lifecycle.touch(document.base_id)
    events.publish(f"base:{document.base.uid}", {"type": "document.changed", "doc": document.uid})
    embedding.wake()
