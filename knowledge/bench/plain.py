"""What one would write without thinking twice: `ts_rank` over any of the words, and every vector by its distance."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median
from typing import Any

from django.db import connection

from knowledge.bench.questions import Question
from knowledge.retrieval.permitted import Permitted
from knowledge.text import query_lexemes, tsquery_literal

_WORDS = """
SELECT c.id FROM knowledge_chunk c
 WHERE c.lexemes @@ %s::tsquery AND c.level = 'leaf' AND c.enabled
   AND c.revision_id IN (SELECT revision_id FROM ({permitted}) AS permitted (revision_id, base_id))
 ORDER BY ts_rank(c.lexemes, %s::tsquery) DESC LIMIT 10
"""
# Permission is looked at afterwards, as it often is: the distance to every vector is taken.
_VECTORS = "SELECT chunk_id FROM knowledge_chunkvector ORDER BY halfvec <=> %s::halfvec LIMIT 100"


def milliseconds(permitted: Permitted, asked: Sequence[Question]) -> dict[str, float]:
    """Medians of both statements and of the two after one another."""
    words, vectors = [], []
    for question in asked:
        literal = tsquery_literal(query_lexemes(question.text))
        words.append(_timed(_WORDS.format(permitted=permitted.sql), [literal, *permitted.params, literal]))
        vectors.append(_timed(_VECTORS, ["[" + ",".join(map(str, question.vector.tolist())) + "]"]))
    both = [word + vector for word, vector in zip(words, vectors, strict=True)]
    return {
        "keywords": round(median(words), 1),
        "embedding": round(median(vectors), 1),
        "blend": round(median(both), 1),
    }


def _timed(sql: str, params: Sequence[Any]) -> float:
    began = time.perf_counter()
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        cursor.fetchall()
    return (time.perf_counter() - began) * 1000
