"""The terms of a base in the form in which texts and queries are matched: loaded once a version, never half changed.

Whoever writes lexemes asks `held`: it keeps a change of the terms waiting until the caller's transaction ends, so
that the work which follows a change sees every lexeme that was made without it.
"""

from __future__ import annotations

from functools import lru_cache

from django.db import connection

from knowledge.models import KnowledgeBase, Revision, Term
from knowledge.text import Term as Matched
from knowledge.text import Terms

# First key of the advisory locks, one a base: shared by writers of lexemes, alone for who changes the terms.
LOCK = 0x7E25
_CACHED = 64


def overlay(base_id: int, version: int) -> Terms | None:
    """The terms of a base whose `terms_version` this is; None when it has none. No statement for version 0."""
    return _loaded(base_id, version) if version else None


def held(base_id: int) -> Terms | None:
    """The same for a writer of lexemes: in a transaction, and the terms do not change until it ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock_shared(%s, %s)", [LOCK, key_of(base_id)])
    version = KnowledgeBase.objects.filter(pk=base_id).values_list("terms_version", flat=True).first()
    return overlay(base_id, version or 0)


def held_for_revision(revision_id: int) -> Terms | None:
    """As `held`, for the base of a revision."""
    return held(Revision.objects.values_list("base_id", flat=True).get(pk=revision_id))


def alone(base_id: int) -> None:
    """Wait until nobody writes lexemes in a base, and keep all others waiting until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [LOCK, key_of(base_id)])


def key_of(base_id: int) -> int:
    """The base as second key of an advisory lock, an integer of four bytes."""
    return base_id % 2**31


@lru_cache(maxsize=_CACHED)
def _loaded(base_id: int, version: int) -> Terms | None:
    rows = Term.objects.filter(base_id=base_id).order_by("pk").values_list("text", "synonyms", "weight")
    found = Terms(Matched(text, tuple(synonyms), weight) for text, synonyms, weight in rows)
    return found or None
