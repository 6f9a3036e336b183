"""Search by the questions of passages: by their words and by their meaning, as leaves are searched.

A question that matches stands for its passage. It comes with both scores, made by the same formulas with the same
statistics, so that it can be put among the leaves. What may be found is joined anew in every statement: the permitted
revisions, the passage (there and enabled, with a leaf that is), the question's own switch; a generated question holds
for the text that it was made from only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import connection

from knowledge.ingestion.store import signs
from knowledge.models import ChunkQuestion
from knowledge.retrieval.candidates import Candidate
from knowledge.retrieval.permitted import Permitted
from knowledge.retrieval.vectors import Asked
from knowledge.retrieval.words import Query, score_of, weights_of
from knowledge.statistics import BaseStatistics
from knowledge.text import tsquery_literal

# Questions whose words are scored, and those that are compared exactly after the pass over signs.
MATCHED = 5_000
RERANKED = 1_000
# From so many questions on, signs are compared first.
MANY = 20_000
# A lexeme in a larger share of the leaves chooses no candidates, unless all are so common.
COMMON = 0.05
COUNTED = 10_000

_LIVE = (
    "JOIN knowledge_chunk passage ON passage.id = q.chunk_id AND passage.level = 'passage' AND passage.enabled "
    "WHERE q.enabled AND (q.source <> 'generated' OR q.version = passage.version) AND EXISTS ("
    "SELECT FROM knowledge_chunk leaf WHERE leaf.parent_id = passage.id AND leaf.level = 'leaf' AND leaf.enabled)"
)


@dataclass(frozen=True, slots=True)
class _Found:
    """A question that matched: its passage and base, and its scores."""

    passage: int
    base: int
    words: float | None = None
    share: float | None = None
    cosine: float | None = None


def search(
    permitted: Permitted,
    query: Query,
    lexemes: Sequence[str],
    spaces: Sequence[tuple[Asked, Permitted]],
    k: int,
    detail: dict[str, Any],
    *,
    by_words: bool,
) -> list[Candidate]:
    """The passages of the k best questions by words (when `by_words`) and of each space's k nearest ones."""
    asking = [item.base.pk for item in permitted.bases if item.base.has_questions]
    own = _with_questions(query, lexemes, asking)
    found: dict[int, _Found] = {}
    if by_words and lexemes:
        found = _by_words(permitted, own, k)
        detail["by_words"] = len(found)
    near = 0
    for asked, part in spaces:
        for pk, item in _by_meaning(part, asked, k).items():
            known = found.get(pk)
            found[pk] = replace(known, cosine=item.cosine) if known else item
            near += 1
    detail["by_meaning"] = near
    if by_words:
        found = _complete_words(permitted, own, found)
        for asked, part in spaces:
            found = _complete_cosines(asked, set(part.base_ids), found)
    return _candidates(found, by_words=by_words)


def texts(ids: Sequence[int]) -> dict[int, str]:
    """The wording of questions by id."""
    return dict(ChunkQuestion.objects.filter(pk__in=list(ids)).values_list("pk", "text")) if ids else {}


def _with_questions(query: Query, lexemes: Sequence[str], base_ids: list[int]) -> Query:
    """The query with every lexeme, those included that stand in questions only, and counted there."""
    unknown = [lexeme for lexeme in lexemes if lexeme not in query.lexemes]
    counts: dict[int, dict[str, int]] = {}
    if unknown and base_ids:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT q.base_id, asked.lexeme, count(*) FROM unnest(%s::text[], %s::text[]) AS asked (lexeme, query) "
                "CROSS JOIN LATERAL (SELECT base_id FROM knowledge_chunkquestion "
                "WHERE lexemes @@ asked.query::tsquery AND base_id = ANY(%s) LIMIT %s) q GROUP BY 1, 2",
                [unknown, [tsquery_literal([lexeme]) for lexeme in unknown], base_ids, COUNTED],
            )
            for base, lexeme, count in cursor.fetchall():
                counts.setdefault(base, {})[lexeme] = int(count)
    bases = {
        pk: BaseStatistics(base.chunks, base.words, {**base.frequencies, **counts.get(pk, {})})
        for pk, base in query.bases.items()
    }
    order = {lexeme: sum(base.frequencies.get(lexeme, 0) for base in bases.values()) for lexeme in lexemes}
    held = sorted((lexeme for lexeme in order if order[lexeme]), key=lambda lexeme: order[lexeme])
    whole = Query(tuple(held), tuple(order[lexeme] for lexeme in held), bases, {}, query.wordings)
    for pk in bases:
        beside = query.wordings[pk].beside if pk in query.wordings else frozenset()
        whole.ideals[pk] = sum(whole.idf(pk, lexeme) for lexeme in lexemes if lexeme not in beside)
    return whole


def _by_words(permitted: Permitted, query: Query, k: int) -> dict[int, _Found]:
    if not query.lexemes:
        return {}
    total = max(sum(base.chunks for base in query.bases.values()), 1)
    rare = [
        lexeme for lexeme, count in zip(query.lexemes, query.frequencies, strict=True) if count <= COMMON * total
    ] or list(query.lexemes[:3])
    if total <= MATCHED:
        rare = list(query.lexemes)
    return _scored(permitted, query, "q.lexemes @@ %s::tsquery", [tsquery_literal(rare)], k)


def _scored(permitted: Permitted, query: Query, match: str, params: list[Any], k: int) -> dict[int, _Found]:
    weights, weight_params = weights_of(query)
    score, score_params = score_of(query)
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH {permitted.lookup}, {weights}, matched AS MATERIALIZED ("  # noqa: S608 (our own text)
            "SELECT q.id, q.chunk_id, q.words, q.lexemes, p.base_id FROM knowledge_chunkquestion q "
            f"JOIN permitted p ON p.revision_id = q.revision_id {_LIVE} AND {match} LIMIT {MATCHED}) "
            f"SELECT c.id, c.chunk_id, c.base_id, {score} / w.ideal AS share, w.ideal FROM matched c "
            "JOIN weights w ON w.base_id = c.base_id CROSS JOIN counting n ORDER BY share DESC, c.id LIMIT %s",
            [*permitted.params, *weight_params, *params, *score_params, k],
        )
        return {
            pk: _Found(passage, base, words=float(share * ideal), share=min(float(share), 1.0))
            for pk, passage, base, share, ideal in cursor.fetchall()
            if share > 0
        }


def _complete_words(permitted: Permitted, query: Query, found: dict[int, _Found]) -> dict[int, _Found]:
    missing = [pk for pk, item in found.items() if item.words is None]
    scored: dict[int, _Found] = {}
    if missing and query.lexemes:
        scored = _scored(permitted, query, "q.id = ANY(%s)", [missing], len(missing))
    whole = dict(found)
    for pk in missing:
        known = scored.get(pk)
        whole[pk] = replace(found[pk], words=known.words if known else 0.0, share=known.share if known else 0.0)
    return whole


def _by_meaning(permitted: Permitted, asked: Asked, k: int) -> dict[int, _Found]:
    source = (
        "FROM permitted p JOIN knowledge_questionvector v ON v.revision_id = p.revision_id AND v.space_id = %s "
        f"JOIN knowledge_chunkquestion q ON q.id = v.question_id {_LIVE}"
    )
    params: list[Any] = []
    head = ""
    if _is_large(permitted):
        first = (
            f"near AS MATERIALIZED (SELECT v.id {source} ORDER BY v.bits <~> %s::varbit LIMIT {max(RERANKED, 2 * k)}), "
        )
        head, params = first, [asked.space.pk, signs(asked.vector)]
        source = (
            "FROM near JOIN knowledge_questionvector v ON v.id = near.id "
            "JOIN knowledge_chunkquestion q ON q.id = v.question_id WHERE v.space_id = %s"
        )
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH {permitted.cte}, {head} nearest AS MATERIALIZED ("  # noqa: S608 (our own text)
            f"SELECT q.id, q.chunk_id, q.base_id, v.halfvec {source} ORDER BY v.halfvec <#> %s::halfvec LIMIT %s) "
            "SELECT id, chunk_id, base_id, -(halfvec <#> %s::halfvec) FROM nearest",
            [*permitted.params, *params, asked.space.pk, asked.literal, k, asked.literal],
        )
        return {pk: _Found(passage, base, cosine=cosine) for pk, passage, base, cosine in cursor.fetchall()}


def _is_large(permitted: Permitted) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM (SELECT FROM knowledge_chunkquestion WHERE base_id = ANY(%s) LIMIT %s) AS listed",
            [list(permitted.base_ids), MANY + 1],
        )
        return int(cursor.fetchone()[0]) > MANY


def _complete_cosines(asked: Asked, base_ids: set[int], found: dict[int, _Found]) -> dict[int, _Found]:
    missing = [pk for pk, item in found.items() if item.cosine is None and item.base in base_ids]
    if not missing:
        return found
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT question_id, -(halfvec <#> %s::halfvec) "
            "FROM knowledge_questionvector WHERE space_id = %s AND question_id = ANY(%s)",
            [asked.literal, asked.space.pk, missing],
        )
        return found | {pk: replace(found[pk], cosine=cosine) for pk, cosine in cursor.fetchall()}


def _candidates(found: dict[int, _Found], *, by_words: bool) -> list[Candidate]:
    """As leaves are handed on, each with the first leaf of its passage that is enabled."""
    passages = list({item.passage for item in found.values()})
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT ON (parent_id) parent_id, id FROM knowledge_chunk "
            "WHERE parent_id = ANY(%s) AND level = 'leaf' AND enabled ORDER BY parent_id, ordinal",
            [passages],
        )
        leaves = dict(cursor.fetchall())
    return [
        Candidate(
            leaves[item.passage],
            item.passage,
            item.base,
            words=item.words if by_words else None,
            words_share=item.share if by_words else None,
            cosine=item.cosine,
            question=pk,
        )
        for pk, item in found.items()
        if item.passage in leaves
    ]
