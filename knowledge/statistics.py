"""Term statistics of BM25, per base: appended by writers, folded by one folder, added up by readers.

A writer inserts one row and waits for nobody; a query reads the folded table and the rows not yet
folded in one statement, so it sees each revision exactly once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db import connection, transaction

# Key of the advisory lock under which rows are folded: one folder at a time.
_FOLD_LOCK = 0xA4C2
_FOLD_ROWS = 500


def _append(column: str) -> str:
    """The statement that counts the leaves of one revision or of one passage (`column`) into a new row."""
    return f"""
INSERT INTO knowledge_revisionterms (base_id, revision_id, sign, chunks, words, lexemes, counts, at)
SELECT %(base)s, %(revision)s, %(sign)s, leaves.chunks, leaves.words, terms.lexemes, terms.counts, now()
  FROM (SELECT count(*) AS chunks, coalesce(sum(words), 0) AS words
          FROM knowledge_chunk WHERE {column} = %(of)s AND level = 'leaf') leaves,
       (SELECT coalesce(array_agg(word), '{{}}') AS lexemes, coalesce(array_agg(ndoc), '{{}}') AS counts
          FROM ts_stat(format('SELECT lexemes FROM knowledge_chunk WHERE {column} = %%s AND level = ''leaf''',
                              %(of)s::bigint))) terms
"""  # noqa: S608 (one of the two columns below)


_OF_REVISION, _OF_PASSAGE = _append("revision_id"), _append("parent_id")
_OF_LEAVES = """
INSERT INTO knowledge_revisionterms (base_id, revision_id, sign, chunks, words, lexemes, counts, at)
SELECT %(base)s, %(revision)s, %(sign)s, leaves.chunks, leaves.words, terms.lexemes, terms.counts, now()
  FROM (SELECT count(*) AS chunks, coalesce(sum(words), 0) AS words
          FROM knowledge_chunk WHERE id = ANY(%(ids)s)) leaves,
       (SELECT coalesce(array_agg(word), '{}') AS lexemes, coalesce(array_agg(ndoc), '{}') AS counts
          FROM ts_stat(format('SELECT lexemes FROM knowledge_chunk WHERE id = ANY(%%L::bigint[])',
                              %(ids)s::bigint[]))) terms
"""


@dataclass(frozen=True, slots=True)
class BaseStatistics:
    """Of one base: leaves, the sum of their lengths in tokens, and how many leaves hold each lexeme asked for."""

    chunks: int = 0
    words: int = 0
    frequencies: dict[str, int] = field(default_factory=dict)

    @property
    def average_length(self) -> float:
        """Mean length of a leaf in tokens; 1 when there is none."""
        return self.words / self.chunks if self.chunks > 0 and self.words > 0 else 1.0


def append(base_id: int, revision_id: int, *, sign: int) -> None:
    """Add (+1) a revision that becomes searchable, or take away (−1) one that ceases to be.

    Called in the transaction of that change. The counts come from the revision's leaves as they are now.
    """
    with connection.cursor() as cursor:
        cursor.execute(_OF_REVISION, {"base": base_id, "revision": revision_id, "sign": sign, "of": revision_id})


def append_passage(base_id: int, revision_id: int, passage_id: int, *, sign: int) -> None:
    """The same for the leaves of one passage of a searchable revision: before (−1) and after (+1) they change."""
    with connection.cursor() as cursor:
        cursor.execute(_OF_PASSAGE, {"base": base_id, "revision": revision_id, "sign": sign, "of": passage_id})


def append_leaves(base_id: int, revision_id: int, ids: Sequence[int], *, sign: int) -> None:
    """The same for some leaves of a searchable revision: before (−1) and after (+1) their lexemes change."""
    with connection.cursor() as cursor:
        cursor.execute(_OF_LEAVES, {"base": base_id, "revision": revision_id, "sign": sign, "ids": list(ids)})


def read(base_ids: Sequence[int], lexemes: Sequence[str]) -> dict[int, BaseStatistics]:
    """The statistics of bases for some lexemes; a base without any leaf is left out."""
    wanted = ["", *lexemes]
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT base_id, lexeme, sum(chunks)::bigint, sum(words)::bigint FROM (
              SELECT base_id, lexeme, chunks, words FROM knowledge_baseterm
               WHERE base_id = ANY(%(bases)s) AND lexeme = ANY(%(wanted)s)
              UNION ALL
              SELECT base_id, '', sign * chunks, sign * words FROM knowledge_revisionterms
               WHERE base_id = ANY(%(bases)s)
              UNION ALL
              SELECT r.base_id, t.lexeme, r.sign * t.chunks, 0
                FROM knowledge_revisionterms r, unnest(r.lexemes, r.counts) AS t(lexeme, chunks)
               WHERE r.base_id = ANY(%(bases)s) AND t.lexeme = ANY(%(wanted)s)
            ) parts GROUP BY base_id, lexeme
            """,
            {"bases": list(base_ids), "wanted": wanted},
        )
        rows = cursor.fetchall()
    totals = {base: (int(chunks), int(words)) for base, lexeme, chunks, words in rows if lexeme == ""}
    found = {base: BaseStatistics(chunks, words, {}) for base, (chunks, words) in totals.items() if chunks > 0}
    for base, lexeme, chunks, _ in rows:
        if lexeme and chunks > 0 and base in found:
            found[base].frequencies[lexeme] = int(chunks)
    return found


def leaves(base_ids: Sequence[int]) -> dict[int, int]:
    """How many leaves a search may find in each base; bases that hold none are left out."""
    return {base: found.chunks for base, found in read(base_ids, []).items()}


def fold(max_rows: int = _FOLD_ROWS) -> int:
    """Merge up to `max_rows` appended rows into the folded table; return how many. 0 when another folder works."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_FOLD_LOCK])
        if not cursor.fetchone()[0]:
            return 0
        # The rows' ids are fixed first: what writers append meanwhile waits for the next turn.
        cursor.execute("SELECT id FROM knowledge_revisionterms ORDER BY id LIMIT %s", [max_rows])
        ids = [row[0] for row in cursor.fetchall()]
        if not ids:
            return 0
        cursor.execute(
            """
            WITH gone AS (
              DELETE FROM knowledge_revisionterms WHERE id = ANY(%(ids)s) RETURNING *
            ), parts AS (
              SELECT base_id, '' AS lexeme, sign * chunks AS chunks, sign * words AS words FROM gone
              UNION ALL
              SELECT g.base_id, t.lexeme, g.sign * t.chunks, 0
                FROM gone g, unnest(g.lexemes, g.counts) AS t(lexeme, chunks)
            )
            INSERT INTO knowledge_baseterm AS kept (base_id, lexeme, chunks, words)
            SELECT base_id, lexeme, sum(chunks), sum(words) FROM parts
             GROUP BY base_id, lexeme HAVING sum(chunks) <> 0 OR sum(words) <> 0
             ORDER BY base_id, lexeme
            ON CONFLICT (base_id, lexeme)
            DO UPDATE SET chunks = kept.chunks + excluded.chunks, words = kept.words + excluded.words
            """,
            {"ids": ids},
        )
        cursor.execute("DELETE FROM knowledge_baseterm WHERE chunks = 0 AND words = 0")
    return len(ids)


def fold_all() -> int:
    """Fold until nothing waits (or another folder is at work); return how many rows were merged."""
    total = 0
    while folded := fold():
        total += folded
    return total


_RECOUNT = """
SELECT '' AS lexeme, count(*) AS chunks, coalesce(sum(c.words), 0) AS words
  FROM knowledge_chunk c WHERE c.level = 'leaf' AND c.revision_id IN ({revisions})
UNION ALL
SELECT word, ndoc, 0 FROM ts_stat(
  'SELECT lexemes FROM knowledge_chunk WHERE level = ''leaf'' AND revision_id IN ({revisions})')
"""
# Documents that are switched off or lie in the recycle bin do not count: nothing of them can be found.
_REVISIONS = (
    "SELECT active_revision_id FROM knowledge_document "
    "WHERE base_id = {base} AND active_revision_id IS NOT NULL AND enabled AND deleted_at IS NULL"
)


def recount(base_id: int) -> dict[str, tuple[int, int]]:
    """(leaves, words) of every lexeme of a base, counted from the leaves; the totals stand under the empty lexeme."""
    revisions = _REVISIONS.format(base=int(base_id))
    with connection.cursor() as cursor:
        cursor.execute(_RECOUNT.format(revisions=revisions))
        return {lexeme: (int(chunks), int(words)) for lexeme, chunks, words in cursor.fetchall() if chunks or words}


def stored(base_id: int) -> dict[str, tuple[int, int]]:
    """(leaves, words) of every lexeme of a base as queries see them: folded and appended together."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT lexeme, sum(chunks)::bigint, sum(words)::bigint FROM (
              SELECT lexeme, chunks, words FROM knowledge_baseterm WHERE base_id = %(base)s
              UNION ALL
              SELECT '', sign * chunks, sign * words FROM knowledge_revisionterms WHERE base_id = %(base)s
              UNION ALL
              SELECT t.lexeme, r.sign * t.chunks, 0
                FROM knowledge_revisionterms r, unnest(r.lexemes, r.counts) AS t(lexeme, chunks)
               WHERE r.base_id = %(base)s
            ) parts GROUP BY lexeme HAVING sum(chunks) <> 0 OR sum(words) <> 0
            """,
            {"base": base_id},
        )
        return {lexeme: (int(chunks), int(words)) for lexeme, chunks, words in cursor.fetchall()}


def repair(base_id: int) -> bool:
    """Replace a base's statistics by a recount; return whether they differed. Waits for a running fold.

    Publishing takes the base's documents one by one, so a document published during the recount is
    held back until it ends (its rows are locked here).
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_FOLD_LOCK])
        cursor.execute("LOCK TABLE knowledge_revisionterms IN SHARE ROW EXCLUSIVE MODE")
        wanted = recount(base_id)
        if wanted == stored(base_id):
            return False
        cursor.execute("DELETE FROM knowledge_revisionterms WHERE base_id = %s", [base_id])
        cursor.execute("DELETE FROM knowledge_baseterm WHERE base_id = %s", [base_id])
        cursor.execute(
            "INSERT INTO knowledge_baseterm (base_id, lexeme, chunks, words) "
            "SELECT %s, * FROM unnest(%s::text[], %s::bigint[], %s::bigint[])",
            [base_id, list(wanted), [pair[0] for pair in wanted.values()], [pair[1] for pair in wanted.values()]],
        )
    return True
