"""Search by words: the leaves worth scoring (`word_plans`), ranked by BM25 with each base's own statistics.

BM25 as in Robertson and Zaragoza, "The Probabilistic Relevance Framework" (2009), with the idf of
Lucene: sum of ln(1 + (N - n + 0.5) / (n + 0.5)) * f / (f + k1 * (1 - b + b * length / average)),
k1 = 1.2, b = 0.75. N, n and the average are those of the leaf's base. Lexemes are escaped and cast:
no text of a person reaches a tsquery parser.

How often a lexeme stands in a leaf comes from `ts_rank`: for one lexeme with all weights 1 it is the
sum of 1/i² for i = 1..f, times 6/π², from which f is looked up. That reads one entry of the stored
tsvector by binary search; unnesting the whole of it costs fifty times as much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from math import log, pi
from typing import Any

import numpy as np
from django.db import connection

from knowledge import statistics
from knowledge.retrieval import word_plans
from knowledge.retrieval.candidates import Candidate
from knowledge.retrieval.permitted import DISABLED_PASSAGES, Permitted
from knowledge.retrieval.wording import Wording
from knowledge.statistics import BaseStatistics
from knowledge.text import tsquery_literal

K1, B = 1.2, 0.75
# Of so few leaves all are scored, straight from the revisions and without the index over all bases.
SMALL = 3_000
# Above so many permitted leaves, reading the revisions' index beside GIN costs more than it saves.
LARGE = 150_000
# How many leaves a round may score, for a query of one lexeme; of many lexemes each leaf costs more.
ROUNDS = (1_500, 6_000)
LEXEMES_AT_ONCE = 4
# How many leaves in which one of the lexemes is strong are scored beside them in the last round.
STRONG = 1_000
FEW_STRONG = 2
# With more lexemes the small first round settles nothing (the bound of what is missing is too high), so it is left out.
FEW = 4
# Of so many leaves in all bases rows are read to find the permitted ones among them.
PASSED = 12_000
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
    `wordings` are those of bases that search the query in words of their own (terms, corrections).
    """

    lexemes: tuple[str, ...]
    frequencies: tuple[int, ...]
    bases: dict[int, BaseStatistics]
    ideals: dict[int, float]
    wordings: Mapping[int, Wording] = field(default_factory=dict)

    def idf(self, base: int, lexeme: str) -> float:
        wording = self.wordings.get(base)
        weight = 1.0 if wording is None else wording.weights.get(lexeme, 0.0)
        return weight * _idf(self.bases[base], lexeme) if weight else 0.0


def prepare(permitted: Permitted, lexemes: Sequence[str], wordings: Mapping[int, Wording] | None = None) -> Query:
    """Look up the statistics of a query's lexemes: one statement. `lexemes` are those of all wordings together."""
    wordings = wordings or {}
    found = statistics.read(permitted.base_ids, lexemes)
    bases = {pk: found.get(pk, BaseStatistics()) for pk in permitted.base_ids}
    totals = {lexeme: sum(base.frequencies.get(lexeme, 0) for base in bases.values()) for lexeme in lexemes}
    known = sorted((lexeme for lexeme in totals if totals[lexeme] > 0), key=lambda lexeme: totals[lexeme])
    ideals = {
        pk: wordings[pk].ideal(partial(_idf, base)) if pk in wordings else sum(_idf(base, lexeme) for lexeme in lexemes)
        for pk, base in bases.items()
    }
    return Query(tuple(known), tuple(totals[lexeme] for lexeme in known), bases, ideals, wordings)


def search(permitted: Permitted, query: Query, k: int, detail: dict[str, Any]) -> list[Candidate]:
    """The k best leaves by BM25 as a share of their base's ideal, best first.

    `detail` tells the plan: which lexemes chose the candidates, and whether the first results are certainly the
    best ones (`exact`).
    """
    if not query.lexemes:
        detail["plan"] = "nothing: no lexeme of the query stands in these bases"
        return []
    if permitted.leaves <= SMALL:
        why = f"{permitted.leaves} permitted leaves; up to {SMALL} are all scored"
        detail |= {"plan": "all permitted leaves", "why": why, "exact": True}
        return exhaustive(permitted, query, k)
    found: list[Candidate] = []
    mine = None if permitted.leaves > LARGE else permitted.revisions()
    chosen: Chosen | None = None
    before: tuple[tuple[str, ...], ...] | None = None
    for last, budget in zip((False, True), ROUNDS, strict=True):
        chosen = _chosen(permitted, query, budget, last=last)
        if not last and (len(query.lexemes) > FEW or not chosen.family.sets) and not chosen.is_all:
            continue
        if chosen.family.sets == before and chosen.strong is None:
            continue
        before = chosen.family.sets
        found, whole = _scored(permitted, mine, query, k, chosen)
        exact = whole and _is_settled(query, chosen, found, min(k, CERTAIN))
        why = f"{permitted.leaves} permitted leaves; candidates come from the rarest lexemes"
        detail |= {"plan": "index", "why": why, "exact": exact, **chosen.detail}
        if exact:
            return found
    return _with_common(permitted, mine, query, k, found, chosen, detail)


def _with_common(
    permitted: Permitted,
    mine: Sequence[int] | None,
    query: Query,
    k: int,
    found: list[Candidate],
    chosen: Chosen | None,
    detail: dict[str, Any],
) -> list[Candidate]:
    """Where every word is too common for what there is time for: some leaves that hold all of them, or the rarest.

    Which ones is not chosen (the oldest), so the result is no longer certain; better than next to nothing.
    """
    for lexemes in (query.lexemes[: word_plans.MAX_LEXEMES], query.lexemes[:1]):
        if len(found) >= k and (len(query.lexemes) == 1 or (chosen is not None and chosen.family.sets)):
            break
        family = word_plans.together(lexemes)
        more, _ = _scored(permitted, mine, query, k, Chosen(family, None, ROUNDS[0]))
        known = {item.leaf: item for item in (*more, *found)}
        found = sorted(known.values(), key=lambda item: (-(item.words_share or 0.0), item.leaf))[:k]
        detail |= {"exact": False, "also_from": " & ".join(lexemes)}
        if len(found) >= k:
            break
    return found


def complete(query: Query, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The same candidates, each with its BM25: 0 where no lexeme matches. They come from a permitted search."""
    missing = [item for item in candidates if item.words is None]
    if not missing:
        return list(candidates)
    if not query.lexemes:
        return [item if item.words is not None else replace(item, words=0.0, words_share=0.0) for item in candidates]
    weights, weight_params = weights_of(query)
    score, score_params = score_of(query)
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH asked (id, base_id) AS (SELECT * FROM unnest(%s::bigint[], %s::bigint[])), {weights} "  # noqa: S608
            f"SELECT c.id, {score} / w.ideal, w.ideal FROM asked a JOIN knowledge_chunk c ON c.id = a.id "
            "JOIN weights w ON w.base_id = a.base_id CROSS JOIN counting n",
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


@dataclass(frozen=True, slots=True)
class Chosen:
    """The leaves of a round: those of a family of lexeme sets, and in the last round the strong ones."""

    family: word_plans.Family
    strong: word_plans.Strong | None
    budget: int

    @property
    def is_all(self) -> bool:
        """Whether every leaf that matches at all is chosen."""
        return not self.family.missing.any()

    @property
    def detail(self) -> dict[str, Any]:
        """For the trace."""
        sets = [" & ".join(one) for one in self.family.sets]
        return {
            "candidates_from": sets,
            "leaves_expected": self.family.expected,
            "strong": sorted({element.split(word_plans.TIER_MARK)[0] for element in self.strong.elements})
            if self.strong
            else [],
        }


def _chosen(permitted: Permitted, query: Query, budget: int, *, last: bool) -> Chosen:
    total = max(sum(base.chunks for base in query.bases.values()), 1)
    share = min(permitted.leaves / total, 1.0)
    frequencies = [max(round(count * share), 1) for count in query.frequencies]
    idfs = [log(1 + (max(total - count, 0) + 0.5) / (count + 0.5)) for count in query.frequencies]
    size = budget * LEXEMES_AT_ONCE // max(len(query.lexemes), LEXEMES_AT_ONCE)
    if permitted.leaves > LARGE:
        size = min(size, int(PASSED * share))
    family = word_plans.conjunctions(query.lexemes, frequencies, idfs, permitted.leaves, size)
    strong = None
    # Of few permitted leaves nearly all that match are scored anyway, and the strong ones are looked up in all bases.
    if last and family.missing.any() and (permitted.leaves > LARGE or len(query.lexemes) <= FEW_STRONG):
        shares = [count / total for count in query.frequencies]
        average = sum(base.words for base in query.bases.values()) / total
        strong = word_plans.strong(query.lexemes, frequencies, shares, average, STRONG // len(query.lexemes), family)
    return Chosen(family, strong, size)


def _is_settled(query: Query, chosen: Chosen, found: Sequence[Candidate], k: int) -> bool:
    """Whether no leaf outside of what was scored can be among the first k.

    Such a leaf holds one of the missing sets of lexemes at most, each below its bound of strength. The shares
    of the bases' ideals are compared, because leaves of different bases are.
    """
    if chosen.is_all:
        return True
    if len(found) < k:
        return False
    worst = found[k - 1].words_share or 0.0
    below = chosen.strong.below if chosen.strong else np.ones(len(query.lexemes))
    for pk, base in query.bases.items():
        bound = word_plans.saturation_bound(below, base.average_length)
        idfs = [query.idf(pk, lexeme) if base.frequencies.get(lexeme) else 0.0 for lexeme in query.lexemes]
        if float((chosen.family.missing @ (bound * idfs)).max()) > worst * (query.ideals[pk] or 1.0):
            return False
    return True


def weights_of(query: Query) -> tuple[str, list[Any]]:
    """A table of one row a base: what a leaf's length is multiplied with, the ideal score, the idf of each lexeme;
    and one of the bounds by which occurrences are counted."""
    rows = ", ".join(["(%s::bigint, %s::float8, %s::float8, %s::float8[])"] * len(query.bases))
    params: list[Any] = []
    for pk, base in query.bases.items():
        idfs = [query.idf(pk, lexeme) for lexeme in query.lexemes]
        params += [pk, K1 * B / base.average_length, query.ideals[pk] or 1.0, idfs]
    return (
        f"weights (base_id, slope, ideal, idf) AS MATERIALIZED (VALUES {rows}), "
        "counting (bounds) AS MATERIALIZED (VALUES (%s::float8[]))",
        [*params, _BOUNDS],
    )


def score_of(query: Query) -> tuple[str, list[Any]]:
    """BM25 of leaf `c` with weights `w` and bounds `n`. f / (f + n) is written as 1 - n / (n + f), so that f is
    computed once."""
    length = f"({K1 * (1 - B)} + w.slope * c.words)"
    terms = [
        f"w.idf[{place}] * (1 - {length} / ({length} + "
        "width_bucket(ts_rank('{1,1,1,1}', c.lexemes, %s::tsquery)::float8, n.bounds)))"
        for place in range(1, len(query.lexemes) + 1)
    ]
    return f"({' + '.join(terms)})", [tsquery_literal([lexeme]) for lexeme in query.lexemes]


_LEAF = f"c.level = 'leaf' AND c.enabled AND c.parent_id NOT IN ({DISABLED_PASSAGES})"
_COLUMNS = "c.id, c.parent_id, c.revision_id, c.words, c.lexemes"
# The same with a long tsvector fetched from outside of its row once, not once for each lexeme that is scored.
_FLAT = _COLUMNS.replace("c.lexemes", "setweight(c.lexemes, 'D') AS lexemes")


def exhaustive(permitted: Permitted, query: Query, k: int) -> list[Candidate]:
    """Every permitted leaf that matches: read from the revisions' index (`IS TRUE` is never answered by GIN)."""
    # Revision by revision: PostgreSQL takes the permitted ones for more than they are, and would read the whole table.
    matched = (
        f"SELECT c.*, p.base_id FROM permitted p CROSS JOIN LATERAL (SELECT {_COLUMNS} FROM knowledge_chunk c "  # noqa: S608
        f"WHERE c.revision_id = p.revision_id AND (c.lexemes @@ %s::tsquery) IS TRUE AND {_LEAF} OFFSET 0) c"
    )
    found, _ = _ranked(permitted.cte, matched, [tsquery_literal(query.lexemes)], permitted, query, k)
    return found


def _scored(
    permitted: Permitted, mine: Sequence[int] | None, query: Query, k: int, chosen: Chosen
) -> tuple[list[Candidate], bool]:
    """The k best of the chosen leaves, and whether all of these were scored: more than twice as many as planned are
    not. `mine` are the permitted revisions, unless they are many."""
    limit = 2 * chosen.budget
    parts: list[str] = []
    params: list[Any] = []
    narrowing = [] if mine is None else [list(mine)]
    if chosen.family.tsquery:
        parts.append(_by_index(permitted, query, "c.lexemes @@ %s::tsquery", limit, narrowed=True))
        params += [chosen.family.tsquery, *narrowing]
    if chosen.strong and chosen.strong.elements:
        match = "knowledge_strong(c.lexemes, c.words) && %s::text[]"
        params.append(list(chosen.strong.elements))
        if chosen.family.tsquery:
            match += " AND NOT c.lexemes @@ %s::tsquery"
            params.append(chosen.family.tsquery)
        parts.append(_by_index(permitted, query, match, limit, narrowed=False))
        params += narrowing
    if not parts:
        return [], False
    matched = " UNION ALL ".join(parts)
    if mine is None:
        return _ranked(permitted.lookup, matched, params, permitted, query, k, limit=limit)
    # `IS TRUE` keeps the check from becoming a join: where the permitted set is taken for one row, it would be gone
    # through for each leaf.
    checked = (
        f"SELECT c.*, r.base_id FROM ({matched}) c CROSS JOIN LATERAL "  # noqa: S608 (our own text)
        "(SELECT base_id FROM knowledge_revision WHERE id = c.revision_id OFFSET 0) r "
        "WHERE (c.revision_id IN (SELECT revision_id FROM permitted)) IS TRUE"
    )
    return _ranked(permitted.cte, checked, params, permitted, query, k, limit=limit)


def _by_index(permitted: Permitted, query: Query, match: str, limit: int, *, narrowed: bool) -> str:
    """Leaves by an index over all bases, of the permitted revisions.

    Few of these are named one by one, because PostgreSQL can not estimate the rules of access: knowing how many there
    are it finds out whether the revisions' index helps (`narrowed`) or GIN alone is quicker. Whether they are still
    permitted is asked of what matches. Of many, each match is looked up in the permitted set. `+ 0` hides the
    revisions' index, whose entries are as many as the permitted leaves.
    """
    columns = _FLAT if len(query.lexemes) > 1 else _COLUMNS
    if permitted.leaves > LARGE:
        return (
            f"(SELECT {columns}, p.base_id FROM knowledge_chunk c JOIN permitted p "  # noqa: S608
            f"ON p.revision_id = c.revision_id + 0 WHERE {match} AND {_LEAF} LIMIT {limit})"
        )
    column = "c.revision_id" if narrowed else "c.revision_id + 0"
    return (
        f"(SELECT {columns} FROM knowledge_chunk c "  # noqa: S608
        f"WHERE {match} AND {_LEAF} AND {column} = ANY (%s::bigint[]) LIMIT {limit})"
    )


def _ranked(
    head: str, matched: str, params: list[Any], permitted: Permitted, query: Query, k: int, limit: int | None = None
) -> tuple[list[Candidate], bool]:
    """Score the leaves of the statement `matched`; whether it gave fewer than `limit`."""
    weights, weight_params = weights_of(query)
    score, score_params = score_of(query)
    sql = f"""
        WITH {head}, {weights}, matched AS MATERIALIZED ({matched})
        SELECT c.id, c.parent_id, c.base_id, {score} / w.ideal AS share, w.ideal, (SELECT count(*) FROM matched)
          FROM matched c JOIN weights w ON w.base_id = c.base_id CROSS JOIN counting n
         ORDER BY share DESC, c.id
         LIMIT %s
    """  # noqa: S608 (our own text; every value is bound)
    with connection.cursor() as cursor:
        cursor.execute(sql, [*permitted.params, *weight_params, *params, *score_params, k])
        rows = cursor.fetchall()
    found = [
        Candidate(leaf, passage, base, words=float(share * ideal), words_share=float(share))
        for leaf, passage, base, share, ideal, _ in rows
        if share > 0  # a lexeme that only another base asks for
    ]
    return found, limit is None or not rows or rows[0][-1] < limit
