"""Questions of passages that are merged, cut, or brought back by an undo, in the transaction of the act.

- A passage that is merged into another hands on its questions as copies; the originals wait with it, where no search
  finds them, and are back with it when the merge is undone. The copies then go.
- A passage that is cut keeps the questions that the rest answers best; the others move to the new passage. A
  question that fits both alike stays.

Those that were up to date with the text before the act are up to date with it after: neither act changes a word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db import connection

from knowledge.models import Chunk, ChunkQuestion
from knowledge.terms import overlay
from knowledge.text import tokenise

# A copy's uid follows from that of the question it was made of: so an undo finds it again.
_COPY_OF = "substr(md5('merged:' || {original}.uid), 1, 16)"
_COPIES = f"""
INSERT INTO knowledge_chunkquestion
       (uid, base_id, revision_id, chunk_id, version, text, digest, source, enabled, words, lexemes, created_by_id,
        created_at)
SELECT {_COPY_OF.format(original="q")}, q.base_id, q.revision_id, kept.id,
       CASE WHEN q.version = gone.version THEN kept.version ELSE 0 END,
       q.text, q.digest, q.source, q.enabled, q.words, q.lexemes, q.created_by_id, q.created_at
  FROM knowledge_chunkquestion q JOIN knowledge_chunk gone ON gone.id = q.chunk_id
  JOIN knowledge_chunk kept ON kept.id = %(kept)s
 WHERE q.chunk_id = ANY(%(gone)s)
 ORDER BY q.id
    ON CONFLICT DO NOTHING
"""  # noqa: S608 (our own text)
_VECTORS = f"""
INSERT INTO knowledge_questionvector (question_id, revision_id, space_id, halfvec, bits)
SELECT copy.id, copy.revision_id, v.space_id, v.halfvec, v.bits
  FROM knowledge_chunkquestion q JOIN knowledge_questionvector v ON v.question_id = q.id
  JOIN knowledge_chunkquestion copy ON copy.uid = {_COPY_OF.format(original="q")} AND copy.text = q.text
 WHERE q.chunk_id = ANY(%(gone)s) AND copy.chunk_id = %(kept)s
    ON CONFLICT (question_id, space_id) DO NOTHING
"""  # noqa: S608 (our own text)
_TAKEN_BACK = f"""
DELETE FROM knowledge_chunkquestion copy USING knowledge_chunkquestion q
 WHERE copy.chunk_id = %(kept)s AND q.chunk_id = ANY(%(back)s) AND copy.uid = {_COPY_OF.format(original="q")}
"""  # noqa: S608 (our own text)
_NEARNESS = """
SELECT q.id, leaf.parent_id, max(-(lv.halfvec <#> qv.halfvec))
  FROM knowledge_chunkquestion q JOIN knowledge_questionvector qv ON qv.question_id = q.id
  JOIN knowledge_chunk leaf ON leaf.parent_id = ANY(%(parts)s) AND leaf.level = 'leaf'
  JOIN knowledge_chunkvector lv ON lv.chunk_id = leaf.id AND lv.space_id = qv.space_id
 WHERE q.chunk_id = %(passage)s
 GROUP BY 1, 2
"""


def follow(kept: int, gone: Sequence[int], back: Sequence[int], fresh: Sequence[int], seen: Mapping[int, int]) -> None:
    """Let the questions of one act's passages follow it; the caller holds the document.

    `kept` stays a passage, `gone` were merged into it, `back` came out of it again, `fresh` were cut off it. `seen`
    are the versions of all of them before the act, as far as they were there.
    """
    for chunk, version in seen.items():
        now = Chunk.objects.values_list("version", flat=True).get(pk=chunk)
        ChunkQuestion.objects.filter(chunk_id=chunk, version=version).update(version=now)
    with connection.cursor() as cursor:
        if gone:
            cursor.execute(_COPIES, {"kept": kept, "gone": list(gone)})
            cursor.execute(_VECTORS, {"kept": kept, "gone": list(gone)})
        if back:
            cursor.execute(_TAKEN_BACK, {"kept": kept, "back": list(back)})
    for part in fresh:
        _share(kept, part)


def _share(kept: int, part: int) -> None:
    """Move to a part that was cut off the questions that fit it better than what is left."""
    questions = list(ChunkQuestion.objects.filter(chunk_id=kept).only("pk", "text", "version", "base_id"))
    if not questions:
        return
    rows = Chunk.objects.defer("lexemes").in_bulk([kept, part])
    terms = overlay.held(questions[0].base_id)
    words = {pk: {token.lexeme for token in tokenise(row.text, terms)} for pk, row in rows.items()}
    near: dict[tuple[int, int], float] = {}
    with connection.cursor() as cursor:
        cursor.execute(_NEARNESS, {"passage": kept, "parts": [kept, part]})
        near = {(question, chunk): float(cosine) for question, chunk, cosine in cursor.fetchall()}
    for question in questions:
        asked = {token.lexeme for token in tokenise(question.text, terms)}
        # Words that both parts hold do not tell them apart.
        fits = {
            pk: len(asked & words[pk] - words[other]) / (len(asked) or 1) + near.get((question.pk, pk), 0.0)
            for pk, other in ((kept, part), (part, kept))
        }
        if fits[part] > fits[kept]:
            current = question.version == rows[kept].version
            version = rows[part].version if current else 0
            ChunkQuestion.objects.filter(pk=question.pk).update(chunk_id=part, version=version)
