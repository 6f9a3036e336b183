"""A query's vectors: one for each embedding space of the bases searched; a model that is away is left out, visibly."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from django.utils.translation import gettext_noop

from knowledge.retrieval import vectors
from knowledge.retrieval.candidates import Candidate
from knowledge.retrieval.permitted import Permitted, SearchedBase
from knowledge.retrieval.trace import Trace
from knowledge.retrieval.vectors import Asked
from portal.gateway.accounting import Caller
from portal.gateway.embedding import embedder_for, space_of
from portal.gateway.models import ModelEndpoint, Purpose
from portal.kernel.errors import Invalid, TooMany, Unavailable
from portal.kernel.principal import Principal

logger = logging.getLogger(__name__)

_OTHER_MODEL = gettext_noop(
    "The documents here have no vectors of the base's embedding model; change the model of the base, or re-index."
)

# A query in the space of an endpoint's model. Raises `Unavailable` or `Invalid` when the model is away.
Embed = Callable[[ModelEndpoint, str], Asked]


def paid_by(principal: Principal) -> Embed:
    """The query as the endpoint's own model embeds it; providers' calls are the asker's in the account book."""
    caller = Caller(principal, Purpose.SEARCH)

    def embedded(endpoint: ModelEndpoint, query: str) -> Asked:
        vector = embedder_for(endpoint, caller).embed_queries([query])[0]
        return Asked(space_of(endpoint, caller), vector)

    return embedded


def ask(permitted: Permitted, query: str, trace: Trace, embed: Embed) -> list[tuple[Asked, Permitted]]:
    """The query in each space, with the permitted set cut to the bases of that space."""
    asked = []
    for endpoint, bases in _by_endpoint(permitted.bases):
        with trace.step("embed the query") as detail:
            detail["model"] = endpoint.name
            try:
                question = embed(endpoint, query)
            except (Unavailable, Invalid, TooMany) as error:
                logger.warning("query embedding is away: %s", error.code)
                detail["away"] = error.code
                trace.warn("embedding_away", "The embedding model is away; this was searched by words only.")
                continue
            asked.append((question, _cut(permitted, bases)))
    return asked


def search(asked: Sequence[tuple[Asked, Permitted]], k: int, trace: Trace) -> list[Candidate]:
    """The k nearest leaves of each space, nearest first within it."""
    found: list[Candidate] = []
    for question, part in asked:
        with trace.step("search by meaning") as detail:
            near = vectors.search(part, question, k, detail)
            detail["candidates"] = len(near)
            if not near and part.leaves and not vectors.there_are_any(part, question.space):
                trace.warn("vectors_missing", _OTHER_MODEL)
            found += near
    return sorted(found, key=lambda item: -(item.cosine or 0.0))[: max(k, 1)] if len(asked) > 1 else found


def complete(asked: Sequence[tuple[Asked, Permitted]], candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates with their cosines, as far as their spaces were asked."""
    found = list(candidates)
    for question, part in asked:
        found = vectors.complete(question, found, set(part.base_ids))
    return found


def space_keys(asked: Sequence[tuple[Asked, Permitted]]) -> dict[int, str]:
    """The key of each base's space, for those that were asked."""
    return {base: question.space.key for question, part in asked for base in part.base_ids}


def _by_endpoint(bases: Sequence[SearchedBase]) -> list[tuple[ModelEndpoint, list[SearchedBase]]]:
    groups: dict[int, tuple[ModelEndpoint, list[SearchedBase]]] = {}
    for item in bases:
        groups.setdefault(item.base.embedding_id, (item.base.embedding, []))[1].append(item)
    return list(groups.values())


def _cut(permitted: Permitted, bases: Sequence[SearchedBase]) -> Permitted:
    if len(bases) == len(permitted.bases):
        return permitted
    ids = [item.base.pk for item in bases]
    return replace(
        permitted,
        sql=f"SELECT * FROM ({permitted.sql}) AS documents (revision_id, base_id) WHERE base_id = ANY(%s)",  # noqa: S608
        params=(*permitted.params, ids),
        bases=tuple(bases),
    )
