"""Questions go along to the revision of a document that becomes the searchable one.

A passage of the same text keeps its questions, with their vectors. Those of a passage whose text has changed
go to the passage under the same, unique, heading path: written ones only, marked as not looked at (version 0).
Others stay with the revision that they were written for, and are there again when somebody goes back to it.
Questions that stand in the file itself follow the file.
"""

from __future__ import annotations

from django.db import connection

from knowledge.models import Revision

_PASSAGES = """
passages AS (
  SELECT id, revision_id, sha256, heading_path, version,
         row_number() OVER (PARTITION BY revision_id, sha256 ORDER BY ordinal) AS place,
         count(*) OVER (PARTITION BY revision_id, heading_path) AS alike
    FROM knowledge_chunk WHERE revision_id IN (%(before)s, %(after)s) AND level = 'passage'
), pairs AS (
  SELECT old.id AS old, fresh.id AS fresh, fresh.version AS version, true AS same
    FROM passages old JOIN passages fresh ON fresh.sha256 = old.sha256 AND fresh.place = old.place
   WHERE old.revision_id = %(before)s AND fresh.revision_id = %(after)s
), moved AS (
  SELECT * FROM pairs
  UNION ALL
  SELECT old.id, fresh.id, 0, false
    FROM passages old JOIN passages fresh ON fresh.heading_path = old.heading_path
   WHERE old.revision_id = %(before)s AND fresh.revision_id = %(after)s AND old.alike = 1 AND fresh.alike = 1
     AND cardinality(old.heading_path) > 0 AND NOT EXISTS (SELECT FROM pairs p WHERE p.old = old.id)
)
"""
_QUESTIONS = f"""
WITH {_PASSAGES}
INSERT INTO knowledge_chunkquestion
       (uid, base_id, revision_id, chunk_id, version, text, digest, source, enabled, words, lexemes, created_by_id,
        created_at)
SELECT substr(md5(random()::text || clock_timestamp()::text || q.id), 1, 16), q.base_id, %(after)s, m.fresh, m.version,
       q.text, q.digest, q.source, q.enabled, q.words, q.lexemes, q.created_by_id, q.created_at
  FROM moved m JOIN knowledge_chunkquestion q ON q.chunk_id = m.old
 WHERE CASE q.source WHEN 'generated' THEN m.same
                     -- The file says which there are: of other bytes only the switches of those that it still has.
                     WHEN 'file' THEN m.same AND (%(same_file)s OR EXISTS (
                       SELECT FROM knowledge_chunkquestion f WHERE f.chunk_id = m.fresh AND f.digest = q.digest))
                     ELSE true END
 ORDER BY q.id
    ON CONFLICT (chunk_id, digest) DO UPDATE SET enabled = excluded.enabled
"""  # noqa: S608 (our own text)
_VECTORS = """
INSERT INTO knowledge_questionvector (question_id, revision_id, space_id, halfvec, bits)
SELECT DISTINCT ON (fresh.id, v.space_id) fresh.id, fresh.revision_id, v.space_id, v.halfvec, v.bits
  FROM knowledge_chunkquestion fresh
  JOIN knowledge_chunkquestion old ON old.revision_id = %(before)s AND old.digest = fresh.digest
   AND old.text = fresh.text
  JOIN knowledge_questionvector v ON v.question_id = old.id
 WHERE fresh.revision_id = %(after)s
    ON CONFLICT (question_id, space_id) DO NOTHING
"""


def carry(before: int, after: int) -> int:
    """Carry the questions of one revision to another, in the transaction that lets searches find it; returns how many.

    The caller holds the document.
    """
    same_file = len(set(Revision.objects.filter(pk__in=[before, after]).values_list("sha256", flat=True))) == 1
    values = {"before": before, "after": after, "same_file": same_file}
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM knowledge_chunkquestion WHERE revision_id = %s)", [before])
        if not cursor.fetchone()[0]:
            return 0
        cursor.execute(_QUESTIONS, values)
        carried = int(cursor.rowcount)
        cursor.execute(_VECTORS, values)
    return carried
