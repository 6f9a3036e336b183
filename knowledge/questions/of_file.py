"""Other ways to ask that stand in the file itself: the similar questions of a question-and-answer table.

They are routes to the passage of their row, as questions that people write are, and follow the file: another
revision of it has those that it says. Which a person switched off stays off (`carrying`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connection, transaction

from knowledge.ingestion import store
from knowledge.ingestion.split import Passage
from knowledge.models import Chunk, ChunkQuestion, KnowledgeBase, Revision
from knowledge.questions import verbs
from knowledge.terms import overlay
from knowledge.text import clean, tokenise, tsvector_literal
from portal.kernel.models import new_uid

_BATCH = 500
_INSERT = """
INSERT INTO knowledge_chunkquestion
       (uid, base_id, revision_id, chunk_id, version, text, digest, source, enabled, words, lexemes, created_by_id,
        created_at)
SELECT fresh.uid, %(base)s, %(revision)s, fresh.chunk, 1, fresh.text, fresh.digest, %(source)s, true,
       fresh.words, fresh.lexemes::tsvector, %(by)s, now()
  FROM unnest(%(chunks)s::bigint[], %(uids)s::text[], %(texts)s::text[], %(digests)s::text[], %(words)s::int[],
              %(lexemes)s::text[]) AS fresh (chunk, uid, text, digest, words, lexemes)
    ON CONFLICT (chunk_id, digest) DO NOTHING
"""


def write(revision: Revision, claim_no: int, passages: Sequence[Passage]) -> int:
    """Give the passages that were just written the other questions of their rows; returns how many there are now.

    Run before anything is carried over, while ordinals are those of `passages`. Raises `Conflict` (claim_lost).
    """
    wanted = {one.ordinal: one.questions[1:] for one in passages if len(one.questions) > 1}
    if not wanted:
        return 0
    rows = Chunk.objects.filter(revision=revision, level=Chunk.Level.PASSAGE, ordinal__in=list(wanted))
    chunks = dict(rows.values_list("ordinal", "pk"))
    others = ChunkQuestion.objects.filter(base_id=revision.base_id).exclude(revision=revision).count()
    room = max(0, verbs.MOST_OF_BASE - others)
    found = [
        (chunks[ordinal], " ".join(clean(text).split()))
        for ordinal, texts in wanted.items()
        for text in texts[: verbs.MOST_OF_PASSAGE]
    ]
    usable = [(chunk, text) for chunk, text in found if len(text) <= verbs.LONGEST and tokenise(text)][:room]
    for start in range(0, len(usable), _BATCH):
        with transaction.atomic():
            store.hold_claim(revision.pk, claim_no)
            _insert(revision, usable[start : start + _BATCH])
    KnowledgeBase.objects.filter(pk=revision.base_id, has_questions=False).update(has_questions=True)
    return len(usable)


def _insert(revision: Revision, pairs: Sequence[tuple[int, str]]) -> None:
    terms = overlay.held(revision.base_id)
    tokens = [tokenise(text, terms) for _, text in pairs]
    values: dict[str, Any] = {
        "base": revision.base_id,
        "revision": revision.pk,
        "source": ChunkQuestion.Origin.FILE.value,
        "by": revision.created_by_id,
        "chunks": [chunk for chunk, _ in pairs],
        "uids": [new_uid() for _ in pairs],
        "texts": [text for _, text in pairs],
        "digests": [verbs.digest_of(text) for _, text in pairs],
        "words": [len(one) for one in tokens],
        "lexemes": [tsvector_literal(one) for one in tokens],
    }
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, values)
