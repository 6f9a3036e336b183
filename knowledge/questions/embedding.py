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
from portal.gateway.accounting import Caller
from portal.gateway.embedding import embedder_for, space_of
from portal.gateway.models import EmbeddingSpace, ModelEndpoint, Purpose
from portal.gateway.protocols import Embedder
from portal.kernel.errors import ArchwayError, TooMany
from portal.kernel.principal import for_nobody, on_behalf_of

logger = logging.getLogger(__name__)

BATCH = 64
_MISSING = """
  FROM knowledge_chunkquestion q
  JOIN knowledge_document d ON d.active_revision_id = q.revision_id
 WHERE q.base_id = %(base)s AND NOT EXISTS (
   SELECT FROM knowledge_questionvector v WHERE v.question_id = q.id AND v.space_id = %(space)s)
"""
_TEXTS = f"""
SELECT q.id, q.text {_MISSING} AND (%(all)s OR q.created_by_id IS NOT DISTINCT FROM %(author)s)
 ORDER BY q.id LIMIT %(limit)s
"""  # noqa: S608
_AUTHORS = f"SELECT DISTINCT q.created_by_id {_MISSING} ORDER BY q.created_by_id"
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


def embed_missing(
    base: KnowledgeBase | None = None, endpoint: ModelEndpoint | None = None, *, payer: Caller | None = None
) -> int:
    """Make the vectors that are missing, of one base or of all; returns how many. A model that is away is passed over.

    `endpoint`: for a model that the base is about to have. Without a `payer` everybody pays for the questions they
    wrote, and a quota that is used up stops nobody else's.
    """
    bases = [base] if base else KnowledgeBase.objects.filter(has_questions=True, deleted_at__isnull=True)
    made = 0
    for one in bases:
        model = endpoint or one.embedding
        try:
            space = space_of(model, payer or Caller(for_nobody(one.workspace_id), Purpose.MEASURE))
            for author, caller in [(None, payer)] if payer else _payers(one, space):
                wanted = {"base": one.pk, "space": space.pk, "all": payer is not None, "author": author}
                try:
                    made += _embed(embedder_for(model, caller), space, wanted)
                except TooMany as error:
                    logger.warning("questions of base %s wait: %s", one.pk, error.code)
        except ArchwayError as error:
            logger.warning("questions of base %s wait: %s", one.pk, error.code)
    return made


def _payers(base: KnowledgeBase, space: EmbeddingSpace) -> list[tuple[int | None, Caller]]:
    """Who wrote the questions that wait, and who pays for them: the workspace, for those whose author has left."""
    with connection.cursor() as cursor:
        cursor.execute(_AUTHORS, {"base": base.pk, "space": space.pk})
        authors = [row[0] for row in cursor.fetchall()]
    return [
        (author, Caller(on_behalf_of(author, base.workspace_id), Purpose.QUESTION_VECTORS, bases=(base.uid,)))
        for author in authors
    ]


def _embed(embedder: Embedder, space: EmbeddingSpace, wanted: dict[str, int | None]) -> int:
    made = 0
    while rows := _missing(wanted):
        vectors = embedder.embed_queries([text for _, text in rows])
        written = write(space, rows, vectors)
        made += written
        if not written:
            break  # all of them changed meanwhile, or somebody else was quicker
    return made


def _missing(wanted: dict[str, int | None]) -> list[tuple[int, str]]:
    with connection.cursor() as cursor:
        cursor.execute(_TEXTS, wanted | {"limit": BATCH})
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
