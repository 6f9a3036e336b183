"""The terms of a base in the form in which texts and queries are matched: loaded once a version, never half changed.

Whoever writes lexemes asks `held`: it keeps a change of the terms waiting until the caller's transaction ends, so
that the work which follows a change sees every lexeme that was made without it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

from django.db import connection

from knowledge.models import KnowledgeBase, Revision, Term
from knowledge.text import Term as Matched
from knowledge.text import Terms

# First key of the advisory locks, one a base: shared by writers of lexemes, alone for who changes the terms.
LOCK = 0x7E25
# Together so many ways to write a term are kept in memory, some 300 bytes each; of one search at least.
_MOST = 200_000


def overlay(base_id: int, version: int) -> Terms | None:
    """The terms of a base whose `terms_version` this is; None when it has none. No statement for version 0."""
    return overlays([(base_id, version)]).get(base_id)


def overlays(versions: Iterable[tuple[int, int]]) -> dict[int, Terms]:
    """The terms of bases, by the base's id: of pairs of base and its `terms_version`, those that have terms.

    What is not in memory is read in one statement, however many bases there are.
    """
    asked = [pair for pair in versions if pair[1]]
    found, missing = _kept.take(asked)
    if missing:
        read = _read(missing)
        _kept.put(read)
        found |= read
    return {base: terms for (base, _), terms in found.items() if terms}


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


def _read(pairs: list[tuple[int, int]]) -> dict[tuple[int, int], Terms]:
    """The terms of these bases, without any for a base that has none."""
    matched: dict[int, list[Matched]] = {base: [] for base, _ in pairs}
    rows = Term.objects.filter(base_id__in=matched).order_by("pk").values_list("base_id", "text", "synonyms", "weight")
    for base, text, synonyms, weight in rows:
        matched[base].append(Matched(text, tuple(synonyms), weight))
    return {(base, version): Terms(matched[base]) for base, version in pairs}


class _Kept:
    """What was read, the longest unused given up first; safe between threads."""

    def __init__(self) -> None:
        self._terms: OrderedDict[tuple[int, int], Terms] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def take(self, pairs: list[tuple[int, int]]) -> tuple[dict[tuple[int, int], Terms], list[tuple[int, int]]]:
        """What is kept of these, and what is not."""
        found = {}
        with self._lock:
            for pair in pairs:
                if pair in self._terms:
                    self._terms.move_to_end(pair)
                    found[pair] = self._terms[pair]
        return found, [pair for pair in pairs if pair not in found]

    def put(self, read: dict[tuple[int, int], Terms]) -> None:
        with self._lock:
            for pair, terms in read.items():
                self._size -= _size(self._terms.pop(pair, None))
                self._terms[pair] = terms
                self._size += _size(terms)
            while self._size > _MOST and len(self._terms) > 1:
                self._size -= _size(self._terms.popitem(last=False)[1])


def _size(terms: Terms | None) -> int:
    return 0 if terms is None else 1 + len(terms.surfaces)


_kept = _Kept()
