"""Vectors of questions: made in the background, for the model that their base has at that moment.

A question is embedded as a query is, because queries are what it is compared with.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
from django.db import connection, transaction
from kombu.exceptions import OperationalError
from numpy.typing import NDArray

from knowledge.ingestion.store import signs
from knowledge.models import KnowledgeBase
from portal.gateway.embedding import embedder_for, space_of
from portal.gateway.models import EmbeddingSpace, ModelEndpoint
from portal.kernel.errors import ArchwayError

logger = logging.getLogger(__name__)

BATCH = 64
_MISSING = """
SELECT q.id, q.text FROM knowledge_chunkquestion q
  JOIN knowledge_document d ON d.active_revision_id = q.revision_id
 WHERE q.base_id = %s AND NOT EXISTS (
   SELECT FROM knowledge_questionvector v WHERE v.question_id = q.id AND v.space_id = %s)
 ORDER BY q.id LIMIT %s
"""
# A question that was reworded or deleted meanwhile gets nothing; one that has its vector keeps it.
_INSERT = """
INSERT INTO knowledge_questionvector (question_id, revision_id, space_id, halfvec, bits)
SELECT q.id, q.revision_id, %s, %s::halfvec, %s::varbit FROM knowledge_chunkquestion q
 WHERE q.id = %s AND q.text = %s FOR KEY SHARE
    ON CONFLICT (question_id, space_id) DO NOTHING
"""


def wake() -> None:
    """Have the missing vectors made, on commit. With the broker away, the clock does it later."""
    transaction.on_commit(_send, robust=True)


def _send() -> None:
    from knowledge import tasks

    try:
        tasks.embed_questions.apply_async(retry=False)
    except (OperationalError, OSError) as error:
        logger.warning("wake-up not sent: %s", type(error).__name__)


def embed_missing(base: KnowledgeBase | None = None, endpoint: ModelEndpoint | None = None) -> int:
    """Make the vectors that are missing, of one base or of all; returns how many. A model that is away is passed over.

    `endpoint`: for a model that the base is about to have.
    """
    bases = [base] if base else KnowledgeBase.objects.filter(has_questions=True, deleted_at__isnull=True)
    made = 0
    for one in bases:
        try:
            made += _embed(one, endpoint or one.embedding)
        except ArchwayError as error:
            logger.warning("questions of base %s wait: %s", one.pk, error.code)
    return made


def _embed(base: KnowledgeBase, endpoint: ModelEndpoint) -> int:
    space, embedder, made = space_of(endpoint), embedder_for(endpoint), 0
    while rows := _missing(base.pk, space.pk):
        vectors = embedder.embed_queries([text for _, text in rows])
        written = write(space, rows, vectors)
        made += written
        if not written:
            break  # all of them changed meanwhile, or somebody else was quicker
    return made


def _missing(base_id: int, space_id: int) -> list[tuple[int, str]]:
    with connection.cursor() as cursor:
        cursor.execute(_MISSING, [base_id, space_id, BATCH])
        return list(cursor.fetchall())


def write(space: EmbeddingSpace, rows: Sequence[tuple[int, str]], vectors: NDArray[np.float32]) -> int:
    """Store one unit vector for each (question, text): float32 of shape (len(rows), space.dimensions)."""
    written = 0
    with transaction.atomic(), connection.cursor() as cursor:
        for place, (pk, text) in enumerate(rows):
            literal = "[" + ",".join(map(str, vectors[place].tolist())) + "]"
            cursor.execute(_INSERT, [space.pk, literal, signs(vectors[place]), pk, text])
            written += int(cursor.rowcount)
    return written
