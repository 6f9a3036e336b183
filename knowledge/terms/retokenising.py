"""After a change of terms: the leaves that hold a changed word get their lexemes anew, with their word counts.

Every leaf of the base is looked at, those of earlier revisions too (somebody may go back to one); only those that
hold a changed word are written. Locks are taken in the order document, terms, change, as everywhere else. A copy
of older leaves holds the document too, so it is either made of new ones or waited for, and its number is higher.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from django.db import connection, transaction

from knowledge import background, lifecycle, statistics
from knowledge.ingestion.store import searchable_text
from knowledge.models import Chunk, ChunkQuestion, Document, TermChange
from knowledge.terms import overlay
from knowledge.text import Terms, clean, normalise, tokenise, tsvector_literal
from portal.kernel.errors import ArchwayError, Conflict

BATCH = 1_000
_BLANKS = re.compile(r"\s")

_NEXT = """
SELECT r.id, r.document_id FROM knowledge_revision r
 WHERE r.base_id = %(base)s AND r.id >= %(revision)s AND EXISTS (
   SELECT FROM knowledge_chunk c WHERE c.revision_id = r.id AND c.level = 'leaf'
      AND (r.id > %(revision)s OR c.ordinal > %(leaf)s))
 ORDER BY r.id LIMIT 1
"""
_UPDATE = """
UPDATE knowledge_chunk c SET words = fresh.words, lexemes = fresh.lexemes::tsvector
  FROM unnest(%s::bigint[], %s::int[], %s::text[]) AS fresh (id, words, lexemes) WHERE c.id = fresh.id
"""


@dataclass(frozen=True, slots=True)
class _Place:
    revision: int
    document: int


def work(change_id: int) -> bool:
    """One slice; returns whether there is more to do now. Does nothing when somebody else is at it."""
    change = TermChange.objects.filter(pk=change_id).first()
    turn = background.claim(change) if change is not None else None
    return turn is not None and _slice(turn)


def _slice(turn: background.Turn[TermChange]) -> bool:
    try:
        while True:
            place = _next(TermChange.objects.get(pk=turn.work.pk))
            if place is None:
                if _end(turn):
                    return False
                continue
            turn.at(turn.work.done + _batch(turn, place))
            if turn.over:
                turn.release()
                return True
    except background.Stopped as stopped:
        background.end(turn.work, TermChange.Status.CANCELLED, stopped)
    except ArchwayError as error:
        if error.code != "claim_lost":
            background.fail(turn.work, error)
    return False


def _next(change: TermChange) -> _Place | None:
    with connection.cursor() as cursor:
        cursor.execute(_NEXT, {"base": change.base_id, "revision": change.at_revision, "leaf": change.at_leaf})
        row = cursor.fetchone()
    return _Place(*row) if row else None


@transaction.atomic
def _end(turn: background.Turn[TermChange]) -> bool:
    """End the work; False when a change of terms, or a copy of older leaves, came in between."""
    overlay.alone(turn.work.base_id)
    if _next(_hold(turn)) is not None:
        return False
    change = _hold(turn)
    questions = _questions(change)
    lifecycle.touch(turn.work.base_id)
    background.end(turn.work, TermChange.Status.DONE, changed=change.changed + questions)
    return True


def _questions(change: TermChange) -> int:
    """The questions that hold a changed word, all at once: they are short, and no writer is at them now."""
    holds, terms = _any_of(tuple(change.surfaces)), overlay.held(change.base_id)
    rows = ChunkQuestion.objects.filter(base_id=change.base_id).order_by("pk").values_list("pk", "text")
    touched = [(pk, text) for pk, text in rows.iterator() if holds.search(_BLANKS.sub(" ", normalise(text).text))]
    tokens = [tokenise(text, terms) for _, text in touched]
    with connection.cursor() as cursor:
        cursor.execute(
            _UPDATE.replace("knowledge_chunk c", "knowledge_chunkquestion c"),
            [[pk for pk, _ in touched], [len(one) for one in tokens], [tsvector_literal(one) for one in tokens]],
        )
    return len(touched)


@transaction.atomic
def _batch(turn: background.Turn[TermChange], place: _Place) -> int:
    """The next leaves of a revision; returns how many were looked at."""
    # Held, so that the document is not published, switched or deleted between the two counts.
    document = Document.objects.select_for_update().filter(pk=place.document).first()
    terms = overlay.held(turn.work.base_id)
    change = _hold(turn)
    # A change of terms in between sends the work back to its beginning: this batch is then looked at again.
    after = change.at_leaf if change.at_revision == place.revision else -1
    rows = list(
        Chunk.objects.filter(revision_id=place.revision, level=Chunk.Level.LEAF, ordinal__gt=after)
        .order_by("ordinal")
        .values_list("id", "ordinal", "parent__heading_path", "text")[:BATCH]
    )
    if document is None or document.base_id != change.base_id or not rows or change.at_revision > place.revision:
        return 0
    holds = _any_of(tuple(change.surfaces))
    name = clean(document.name)
    texts = [(pk, searchable_text(name, path, text)) for pk, _, path, text in rows]
    touched = [(pk, text) for pk, text in texts if holds.search(_BLANKS.sub(" ", normalise(text).text))]
    if touched:
        _write(document, place.revision, touched, terms)
    moved = TermChange.objects.filter(pk=change.pk)
    moved.update(at_revision=place.revision, at_leaf=rows[-1][1], changed=change.changed + len(touched))
    return len(rows)


def _write(document: Document, revision: int, touched: list[tuple[int, str]], terms: Terms | None) -> None:
    ids = [pk for pk, _ in touched]
    tokens = [tokenise(text, terms) for _, text in touched]
    counted = document.enabled and document.deleted_at is None and document.active_revision_id == revision
    if counted:
        statistics.append_leaves(document.base_id, revision, ids, sign=-1)
    with connection.cursor() as cursor:
        cursor.execute(_UPDATE, [ids, [len(one) for one in tokens], [tsvector_literal(one) for one in tokens]])
    if counted:
        statistics.append_leaves(document.base_id, revision, ids, sign=1)


def _hold(turn: background.Turn[TermChange]) -> TermChange:
    """The change as it stands, locked. Raises `Conflict` (claim_lost) when it is no longer ours."""
    row = (
        TermChange.objects.select_for_update(of=("self",))
        .filter(pk=turn.work.pk, claim_no=turn.work.claim_no, status=TermChange.Status.RUNNING)
        .first()
    )
    if row is None:
        raise Conflict("Another worker took this over.", code="claim_lost")
    return row


@lru_cache(maxsize=8)
def _any_of(surfaces: tuple[str, ...]) -> re.Pattern[str]:
    """Whether a text in normal form holds one of some words, wherever it stands."""
    return re.compile("|".join(map(re.escape, sorted(surfaces, key=len, reverse=True))))
