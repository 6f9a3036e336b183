"""From leaves to what people read: passages with their place, highlights and neighbours, without near-copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from knowledge.images import places
from knowledge.images.places import Pictured
from knowledge.retrieval.blend import Ranked
from knowledge.retrieval.permitted import Permitted
from knowledge.text import Terms, highlight_spans, tokenise

# Two passages that share so much of their words count as one, unless they differ in a number or in what was asked.
SAME_SHARE = 0.95
# Texts are taken apart into words only when they share so much of their pairs of characters, which is quick to see.
SAME_PAIRS = 0.8

# The rules of access stand in a part of their own: planning them together with the other tables took 5 ms.
_LOAD = """
WITH {permitted},
allowed AS MATERIALIZED (
  SELECT * FROM permitted WHERE revision_id IN (SELECT revision_id FROM knowledge_chunk WHERE id = ANY(%s))
), asked (passage_id, leaf_id) AS (SELECT * FROM unnest(%s::bigint[], %s::bigint[]))
SELECT c.id, l.id, c.sha256, c.text, c.prefix, c.heading_path, c.page, c.sheet, c.row_first, c.row_last, c.slide,
       c.start, c."end", l.start, l."end", c.revision_id, c.ordinal,
       r.uid, r.number, d.uid, d.name, d.folder, p.base_id, c.version, coalesce(o.url, '')
  FROM asked a
  JOIN knowledge_chunk c ON c.id = a.passage_id AND c.enabled
  JOIN knowledge_chunk l ON l.id = a.leaf_id AND l.enabled
  JOIN allowed p ON p.revision_id = c.revision_id
  JOIN knowledge_revision r ON r.id = c.revision_id AND r.status = 'indexed'
  JOIN knowledge_document d ON d.active_revision_id = r.id
  LEFT JOIN knowledge_origin o ON o.document_id = d.id
"""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A passage as stored, with its document and the leaf that matched."""

    chunk: int
    leaf: int
    sha256: str
    text: str
    prefix: str
    heading_path: tuple[str, ...]
    page: int | None
    sheet: str | None
    rows: tuple[int, int] | None
    slide: int | None
    start: int
    end: int
    leaf_start: int
    leaf_end: int
    revision_id: int
    ordinal: int
    revision: str
    revision_number: int
    document: str
    document_name: str
    folder: str
    base_id: int
    version: int
    origin: str


def load(permitted: Permitted, ranked: Sequence[Ranked]) -> dict[int, Loaded]:
    """The passages by id. What is no longer permitted or enabled at this very moment is missing."""
    if not ranked:
        return {}
    chunks, leaves = [item.candidate.passage for item in ranked], [item.candidate.leaf for item in ranked]
    with connection.cursor() as cursor:
        cursor.execute(
            _LOAD.format(permitted=permitted.lookup),
            [*permitted.params, chunks, chunks, leaves],
        )
        return {row[0]: _loaded(row) for row in cursor.fetchall()}


def without_copies(
    ranked: Sequence[Ranked], loaded: dict[int, Loaded], lexemes: Collection[str], limit: int, per_document: int = 0
) -> list[Ranked]:
    """The first `limit` passages of which none nearly repeats an earlier one, at most `per_document` of each document.

    0: as many of a document as there are.
    """
    documents: Counter[str] = Counter()
    kept: list[Ranked] = []
    digests: set[str] = set()
    known: list[tuple[frozenset[tuple[str, str]], str]] = []
    asked = frozenset(lexemes)
    for item in ranked:
        if len(kept) == limit:
            break
        passage = loaded.get(item.candidate.passage)
        if passage is None or passage.sha256 in digests:
            continue
        if per_document and documents[passage.document] >= per_document:
            continue
        pairs = frozenset(zip(passage.text, passage.text[1:], strict=False))
        if any(_overlap(pairs, other) > SAME_PAIRS and _same(passage.text, text, asked) for other, text in known):
            continue
        kept.append(item)
        documents[passage.document] += 1
        digests.add(passage.sha256)
        known.append((pairs, passage.text))
    return kept


def neighbours(
    permitted: Permitted, passages: Collection[Loaded], reach: int
) -> dict[int, tuple[tuple[str, ...], tuple[str, ...]]]:
    """The texts of up to `reach` passages before and after each, in reading order, by the passage's id."""
    if reach < 1 or not passages:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH {permitted.lookup}, asked (revision_id, ordinal) AS "  # noqa: S608 (compiled by Django, values bound)
            "(SELECT * FROM unnest(%s::bigint[], %s::bigint[])) "
            "SELECT DISTINCT c.revision_id, c.ordinal, c.text FROM asked a JOIN permitted p USING (revision_id) "
            "JOIN knowledge_chunk c ON c.revision_id = a.revision_id AND c.level = 'passage' AND c.enabled "
            "AND c.ordinal BETWEEN a.ordinal - %s AND a.ordinal + %s",
            [
                *permitted.params,
                [passage.revision_id for passage in passages],
                [passage.ordinal for passage in passages],
                reach,
                reach,
            ],
        )
        texts = {(revision, ordinal): text for revision, ordinal, text in cursor.fetchall()}
    found = {}
    for passage in passages:
        places = range(passage.ordinal - reach, passage.ordinal + reach + 1)
        around = [
            (place, texts[passage.revision_id, place]) for place in places if (passage.revision_id, place) in texts
        ]
        found[passage.chunk] = (
            tuple(text for place, text in around if place < passage.ordinal),
            tuple(text for place, text in around if place > passage.ordinal),
        )
    return found


def pictures(passages: Collection[Loaded]) -> dict[int, Pictured]:
    """What of the passages, which are permitted, is pictured, by the passage's id; the others are missing."""
    return places.pictured([(passage.chunk, passage.revision_id, passage.start, passage.end) for passage in passages])


def highlights(text: str, lexemes: Collection[str], terms: Terms | None = None) -> tuple[tuple[int, int], ...]:
    """Where the passage holds the query's words, or a base's term for them: offsets into `text`."""
    return tuple(highlight_spans(text, lexemes, terms)) if lexemes else ()


def _overlap(one: frozenset[Any], other: frozenset[Any]) -> float:
    """Jaccard's measure; 0 when both are empty."""
    return len(one & other) / (len(one | other) or 1)


def _same(text: str, known: str, asked: frozenset[str]) -> bool:
    words = frozenset(token.lexeme for token in tokenise(text))
    other = frozenset(token.lexeme for token in tokenise(known))
    if _overlap(words, other) < SAME_SHARE:
        return False
    differing = words ^ other
    # "TH-01" and "TH-02" differ in one word, and are two answers.
    return differing.isdisjoint(asked) and not any(char.isdigit() for lexeme in differing for char in lexeme)


def _loaded(row: tuple[Any, ...]) -> Loaded:
    (chunk, leaf, sha256, text, prefix, path, page, sheet, first, last, slide, *rest) = row
    rows = (first, last) if first is not None and last is not None else None
    return Loaded(chunk, leaf, sha256, text, prefix, tuple(path), page, sheet, rows, slide, *rest)
