"""Search by words: candidates of the rarest lexemes first, ranked by BM25 with each base's own statistics.

BM25 as in Robertson and Zaragoza, "The Probabilistic Relevance Framework" (2009), with the idf of
Lucene: sum of ln(1 + (N - n + 0.5) / (n + 0.5)) * f / (f + k1 * (1 - b + b * length / average)),
k1 = 1.2, b = 0.75. N, n and the average are those of the leaf's base. Lexemes are escaped and cast:
no text of a person reaches a tsquery parser.

How often a lexeme stands in a leaf comes from `ts_rank`: for one lexeme with all weights 1 it is the
sum of 1/i² for i = 1..f, times 6/π², from which f is looked up. That reads one entry of the stored
tsvector by binary search; unnesting the whole of it costs fifty times as much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import log, pi
from typing import Any

from django.db import connection

from knowledge import statistics
from knowledge.retrieval.candidates import Candidate
from knowledge.retrieval.permitted import DISABLED_PASSAGES, Permitted
from knowledge.statistics import BaseStatistics
from knowledge.text import tsquery_literal

K1, B = 1.2, 0.75
# Of so few leaves all are scored, straight from the revisions and without the index over all bases.
SMALL = 3_000
# Above so many permitted leaves, reading the revisions' index beside GIN costs more than it saves.
LARGE = 60_000
# How many leaves a round of candidates may hold, by the lexemes' frequencies; the last round is what there is time for.
ROUNDS = (1_500, 6_000)
# The first results that must be certain; further ones only widen the choice of a blend.
CERTAIN = 20
_MAX_COUNT = 255


def _thresholds() -> list[float]:
    """Bounds between the values of `ts_rank` for 0, 1, 2, … occurrences: so many are passed, so often it occurs."""
    sums = [0.0]
    for count in range(1, _MAX_COUNT + 1):
        sums.append(sums[-1] + 6 / (pi * pi * count * count))
    return [(low + high) / 2 for low, high in pairwise(sums)]


_BOUNDS = [round(value, 9) for value in _thresholds()]


@dataclass(frozen=True, slots=True)
class Query:
    """The lexemes of a query with the statistics of the bases searched.

    `lexemes` stand in at least one leaf, rarest first; `frequencies` are their leaves over all bases.
    `ideals` is for each base the sum of all idf, those of lexemes that stand nowhere included: BM25's bound.
    """

    lexemes: tuple[str, ...]
    frequencies: tuple[int, ...]
    bases: dict[int, BaseStatistics]
    ideals: dict[int, float]

    def idf(self, base: int, lexeme: str) -> float:
        return _idf(self.bases[base], lexeme)


def prepare(permitted: Permitted, lexemes: Sequence[str]) -> Query:
    """Look up the statistics of a query's lexemes: one statement."""
    found = statistics.read(permitted.base_ids, lexemes)
    bases = {pk: found.get(pk, BaseStatistics()) for pk in permitted.base_ids}
    totals = {lexeme: sum(base.frequencies.get(lexeme, 0) for base in bases.values()) for lexeme in lexemes}
    known = sorted((lexeme for lexeme in totals if totals[lexeme] > 0), key=lambda lexeme: totals[lexeme])
    ideals = {pk: sum(_idf(base, lexeme) for lexeme in lexemes) for pk, base in bases.items()}
    return Query(tuple(known), tuple(totals[lexeme] for lexeme in known), bases, ideals)


def search(permitted: Permitted, query: Query, k: int, detail: dict[str, Any]) -> list[Candidate]:
    """The k best leaves by BM25 as a share of their base's ideal, best first.

    `detail` tells the plan: which lexemes chose the candidates, and whether the first results are certainly the
    best ones (`exact`).
    """
    if not query.lexemes:
        detail["plan"] = "nothing: no lexeme of the query stands in these bases"
        return []
    if permitted.leaves <= SMALL:
        detail |= {"plan": "all permitted leaves", "exact": True}
        return _scored(permitted, query, query.lexemes, k, by_index=False)
    found: list[Candidate] = []
    used = 0
    for budget in ROUNDS:
        before, used = used, _within(query.frequencies, budget)
        if used == before:
            continue
        found = _scored(permitted, query, query.lexemes[:used], k, by_index=True)
        exact = used == len(query.lexemes) or _is_settled(query, used, found, min(k, CERTAIN))
        detail |= {
            "plan": "index, rarest lexemes first",
            "candidates_from": list(query.lexemes[:used]),
            "leaves_at_most": sum(query.frequencies[:used]),
            "exact": exact,
        }
        if exact:
            break
    return found


def complete(query: Query, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The same candidates, each with its BM25: 0 where no lexeme matches. They come from a permitted search."""
    missing = [item for item in candidates if item.words is None]
    if not missing:
        return list(candidates)
    if not query.lexemes:
        return [item if item.words is not None else replace(item, words=0.0, words_share=0.0) for item in candidates]
    weights, weight_params = _weights(query)
    score, score_params = _score(query)
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH asked (id, base_id) AS (SELECT * FROM unnest(%s::bigint[], %s::bigint[])), {weights} "  # noqa: S608
            f"SELECT c.id, {score} / w.ideal, w.ideal FROM asked a JOIN knowledge_chunk c ON c.id = a.id "
            "JOIN weights w ON w.base_id = a.base_id",
            [
                *([item.leaf for item in missing], [item.base for item in missing]),
                *weight_params,
                *score_params,
            ],
        )
        scores = {pk: (float(share * ideal), float(share)) for pk, share, ideal in cursor.fetchall()}
    return [
        item
        if item.words is not None
        else replace(item, words=scores.get(item.leaf, (0.0, 0.0))[0], words_share=scores.get(item.leaf, (0.0, 0.0))[1])
        for item in candidates
    ]


def _idf(base: BaseStatistics, lexeme: str) -> float:
    count = base.frequencies.get(lexeme, 0)
    return log(1 + (max(base.chunks - count, 0) + 0.5) / (count + 0.5))


def _within(frequencies: Sequence[int], budget: int) -> int:
    """How many of the rarest lexemes stand in at most `budget` leaves together; at least one."""
    total = 0
    for place, frequency in enumerate(frequencies):
        total += frequency
        if total > budget and place > 0:
            return place
    return len(frequencies)


def _is_settled(query: Query, used: int, found: Sequence[Candidate], k: int) -> bool:
    """Whether no leaf without the first `used` lexemes can be among the first k: all the others weigh too little.

    The shares of the bases' ideals are compared, because leaves of different bases are.
    """
    if len(found) < k:
        return False
    worst = found[k - 1].words_share or 0.0
    rest = query.lexemes[used:]
    bound = max(sum(query.idf(base, lexeme) for lexeme in rest) / query.ideals[base] for base in query.bases)
    return worst >= bound


def _weights(query: Query) -> tuple[str, list[Any]]:
    """A table of one row a base: what a leaf's length is multiplied with, the ideal score, the idf of each lexeme,
    and the bounds by which occurrences are counted."""
    rows = ", ".join(["(%s::bigint, %s::float8, %s::float8, %s::float8[], %s::float8[])"] * len(query.bases))
    params: list[Any] = []
    for pk, base in query.bases.items():
        idfs = [query.idf(pk, lexeme) for lexeme in query.lexemes]
        params += [pk, K1 * B / base.average_length, query.ideals[pk] or 1.0, idfs, _BOUNDS]
    return f"weights (base_id, slope, ideal, idf, bounds) AS MATERIALIZED (VALUES {rows})", params


def _score(query: Query) -> tuple[str, list[Any]]:
    """BM25 of leaf `c` with weights `w`. f / (f + n) is written as 1 - n / (n + f), so that f is computed once."""
    length = f"({K1 * (1 - B)} + w.slope * c.words)"
    terms = [
        f"w.idf[{place}] * (1 - {length} / ({length} + "
        "width_bucket(ts_rank('{1,1,1,1}', c.lexemes, %s::tsquery)::float8, w.bounds)))"
        for place in range(1, len(query.lexemes) + 1)
    ]
    return f"({' + '.join(terms)})", [tsquery_literal([lexeme]) for lexeme in query.lexemes]


def _scored(permitted: Permitted, query: Query, chosen: Sequence[str], k: int, *, by_index: bool) -> list[Candidate]:
    weights, weight_params = _weights(query)
    score, score_params = _score(query)
    sql = f"""
        WITH {permitted.cte}, {weights}, matched AS MATERIALIZED (
          SELECT c.id, c.parent_id, c.revision_id, c.words, c.lexemes
            FROM knowledge_chunk c
           WHERE {_where(permitted, by_index=by_index)}
             AND c.level = 'leaf' AND c.enabled AND c.parent_id NOT IN ({DISABLED_PASSAGES})
        )
        SELECT c.id, c.parent_id, p.base_id, {score} / w.ideal AS share, w.ideal
          FROM matched c
          JOIN permitted p ON p.revision_id = c.revision_id
          JOIN weights w ON w.base_id = p.base_id
         ORDER BY share DESC, c.id
         LIMIT %s
    """  # noqa: S608 (our own text; every value is bound)
    params = [*permitted.params, *weight_params, tsquery_literal(chosen), *score_params, k]
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        rows = cursor.fetchall()
    return [
        Candidate(leaf, passage, base, words=float(share * ideal), words_share=float(share))
        for leaf, passage, base, share, ideal in rows
    ]


def _where(permitted: Permitted, *, by_index: bool) -> str:
    """The match and the permitted revisions, written so that the right index is used.

    The permitted set is evaluated once into an array of this very statement: joined, it made PostgreSQL scan the GIN
    index once for each revision. Of few leaves the revisions' index gives all (`IS TRUE` is never answered by GIN);
    of many, GIN alone is used (`+ 0` hides the other index, whose entries are as many as the permitted leaves).
    """
    revisions = "ANY (ARRAY(SELECT revision_id FROM permitted))"
    if not by_index:
        return f"(c.lexemes @@ %s::tsquery) IS TRUE AND c.revision_id = {revisions}"
    if permitted.leaves > LARGE:
        return f"c.lexemes @@ %s::tsquery AND c.revision_id + 0 = {revisions}"
    return f"c.lexemes @@ %s::tsquery AND c.revision_id = {revisions}"
