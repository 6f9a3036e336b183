"""Which open work is next. Fair between people first, then between one person's documents.

A person who has less work running, or was served longer ago, comes first; among their documents the
one that has waited longest since its last slice. So a tiny document never waits behind a huge one.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.db import connection

_CLAIM_LOCK = 0xA4C1

# Parsing can not be cut into slices, so one slot is always kept free of long parses.
HEAVY_BYTES = 5_000_000

_NEXT = """
WITH open AS (
  SELECT id, created_by_id, claimed_by, served_at, queued_at, stage, size
    FROM knowledge_revision
   WHERE status IN ('pending', 'parsing', 'segmenting', 'vectorizing')
), person AS (
  SELECT o.created_by_id, o.running, (
           SELECT max(r.served_at) FROM knowledge_revision r
            WHERE r.created_by_id IS NOT DISTINCT FROM o.created_by_id
              AND r.served_at > clock_timestamp() - interval '1 hour') AS served
    FROM (SELECT created_by_id, count(*) FILTER (WHERE claimed_by <> '') AS running FROM open GROUP BY 1) o
), heavy AS (
  SELECT count(*) AS running FROM open WHERE claimed_by <> '' AND stage = 'parse' AND size > %(heavy)s
)
SELECT r.id
  FROM knowledge_revision r
  JOIN person p ON p.created_by_id IS NOT DISTINCT FROM r.created_by_id
  CROSS JOIN heavy h
 WHERE r.claimed_by = ''
   AND r.status IN ('pending', 'parsing', 'segmenting', 'vectorizing')
   AND (r.not_before IS NULL OR r.not_before <= clock_timestamp())
   AND p.running < %(per_person)s
   AND (r.stage <> 'parse' OR r.size <= %(heavy)s OR h.running < %(heavy_slots)s)
 ORDER BY p.running, p.served NULLS FIRST, r.served_at NULLS FIRST, r.queued_at, r.id
 LIMIT 1
   FOR UPDATE OF r SKIP LOCKED
"""


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much may run at once: claims per person, and long parses on all workers together."""

    per_person: int
    heavy_slots: int

    @classmethod
    def configured(cls) -> Capacity:
        return cls(per_person=settings.ARCHWAY["RUNNING_PER_PERSON"], heavy_slots=settings.ARCHWAY["HEAVY_PARSES"])


def next_revision(capacity: Capacity | None = None) -> int | None:
    """The id of the revision to work on next, its row locked until the transaction ends; None when nothing may run.

    Must be called in a transaction. Claims are taken one after the other (an advisory lock of some
    milliseconds), so that two workers never both count a person as idle.
    """
    capacity = capacity or Capacity.configured()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_CLAIM_LOCK])
        cursor.execute(
            _NEXT,
            {"heavy": HEAVY_BYTES, "per_person": capacity.per_person, "heavy_slots": capacity.heavy_slots},
        )
        row = cursor.fetchone()
    return row[0] if row else None
