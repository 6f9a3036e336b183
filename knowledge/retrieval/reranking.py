"""The best candidates in their final order, by a model that reads query and text together. Off unless asked for.

Alone decides who reranks, what is sent where, and what happens when that fails: the order of the search stays, with
a warning. A passage counts as much as its best piece, since rerankers read only so much at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_noop

from knowledge import outside
from knowledge.base_settings import BaseSettings, Reranking
from knowledge.models import KnowledgeBase
from knowledge.retrieval import passages
from knowledge.retrieval.blend import Ranked
from knowledge.retrieval.contract import RerankBy, RetrievalRequest
from knowledge.retrieval.judge import JudgingModel
from knowledge.retrieval.passages import Loaded
from knowledge.retrieval.permitted import Permitted
from knowledge.retrieval.trace import Trace
from portal.gateway import local_rerank
from portal.gateway.accounting import Caller
from portal.gateway.endpoints import chat_endpoint, rerank_endpoint, visible_endpoints
from portal.gateway.models import ModelEndpoint, Purpose
from portal.gateway.protocols import Reranker
from portal.gateway.rerank import reranker_for
from portal.kernel.errors import ArchwayError, Denied, Invalid
from portal.kernel.principal import Principal

# Candidates for each hit that is wanted, and the most of all.
PER_HIT = 3
MOST = 100
# Characters that a reranker reads of a piece, and pieces of a passage.
PIECE = 1_200
PIECES = 4

_KEPT = gettext_noop("The results could not be reranked, so they are in the order of the search.")
_STAYS = gettext_noop(
    "Text of a sensitive base is not sent to this reranker without its owners' permission, so the results are in the "
    "order of the search."
)
_LOCAL = gettext_noop("Text of a sensitive base stays here: the results were reranked on this installation.")
_LEFT = gettext_noop("The passages were sent to a model outside of this installation.")


@dataclass(frozen=True, slots=True)
class Reordered:
    """The new order, and the score (mostly 0 to 1) of each passage that was reranked, by its id."""

    ranked: tuple[Ranked, ...]
    scores: dict[int, float]


def rerank(
    principal: Principal,
    request: RetrievalRequest,
    permitted: Permitted,
    query: str,
    ranked: Sequence[Ranked],
    top_k: int,
    trace: Trace,
) -> Reordered:
    """The ranking with its best candidates reordered; unchanged where nobody reranks, or whoever does fails."""
    unchanged = Reordered(tuple(ranked), {})
    settings = (permitted.bases[0].settings if permitted.bases else BaseSettings()).reranking
    by = request.rerank or settings.by
    if by == "off" or not ranked:
        return unchanged
    with trace.step("rerank") as detail:
        detail["by"] = by
        first = ranked[: min(PER_HIT * top_k, MOST)]
        loaded = passages.load(permitted, first)
        here = [item for item in first if item.candidate.passage in loaded]
        texts = [loaded[item.candidate.passage] for item in here]
        detail["candidates"] = len(here)
        if not here:
            return unchanged
        used = {passage.base_id for passage in texts}
        sources = [item.base for item in permitted.bases if item.base.pk in used]
        try:
            reranker = _reranker(principal, request, settings, by, sources, trace, detail)
            scores = _scores(reranker, query, texts, detail)
        except Denied as error:
            trace.warn(error.code, _STAYS)
            detail["failed"] = error.code
            return unchanged
        except ArchwayError as error:
            if request.rerank_endpoint and error.code == "endpoint_unknown":
                raise
            trace.warn("rerank_failed", _KEPT)
            detail["failed"] = error.code
            return unchanged
        found = _in_order(ranked, scores)
        detail["moved"] = sum(before is not after for before, after in zip(ranked, found.ranked, strict=True))
    return found


def _reranker(
    principal: Principal,
    request: RetrievalRequest,
    settings: Reranking,
    by: RerankBy,
    sources: list[KnowledgeBase],
    trace: Trace,
    detail: dict[str, Any],
) -> Reranker:
    """Who reranks these bases' text. Raises `Denied` (text_stays_in_house) and what the endpoints raise."""
    if by == "local":
        return local_rerank.LocalReranker(settings.seconds)
    wanted = request.rerank_endpoint or (settings.endpoint if request.rerank in (None, settings.by) else "")
    endpoint = _endpoint(principal, by, wanted)
    detail["endpoint"] = endpoint.name
    if outside.forbidding(sources, endpoint):
        if not local_rerank.available():
            outside.check(sources, endpoint)
        trace.warn("reranked_in_house", _LOCAL)
        detail["by"] = "local"
        return local_rerank.LocalReranker(settings.seconds)
    if outside.leaves_house(endpoint):
        trace.warn("text_left_house", _LEFT)
    caller = Caller(principal, Purpose.RERANK, bases=tuple(base.uid for base in sources))
    if by == "model":
        return JudgingModel(endpoint, caller, settings.seconds)
    return reranker_for(endpoint, caller, seconds=settings.seconds)


def _endpoint(principal: Principal, by: RerankBy, uid: str) -> ModelEndpoint:
    if by == "model":
        return chat_endpoint(principal, uid)
    if uid:
        return rerank_endpoint(principal, uid)
    first = visible_endpoints(principal, ModelEndpoint.Kind.RERANK).first()
    if first is None:
        raise Invalid("There is no such rerank model.", code="endpoint_unknown")
    return first


def _scores(reranker: Reranker, query: str, texts: Sequence[Loaded], detail: dict[str, Any]) -> dict[int, float]:
    """The score of each passage: that of its best piece. Passages that were left out have none."""
    pieces: list[str] = []
    owners: list[int] = []
    for passage in texts:
        cut = pieces_of(passage)
        pieces += cut
        owners += [passage.chunk] * len(cut)
    detail["pieces"] = len(pieces)
    best: dict[int, float] = {}
    for row in reranker.rerank(query, pieces):
        owner = owners[row.index]
        best[owner] = max(row.score, best.get(owner, row.score))
    return best


def pieces_of(passage: Loaded) -> list[str]:
    """A passage under its headings, in pieces of whole lines that a reranker can read; a long one's first few."""
    head = " › ".join(passage.heading_path)
    pieces: list[str] = []
    for line in passage.text.split("\n"):
        for at in range(0, max(len(line), 1), PIECE):
            part = line[at : at + PIECE]
            if pieces and len(pieces[-1]) + len(part) < PIECE:
                pieces[-1] += "\n" + part
            else:
                pieces.append(part)
    return [f"{head}\n{piece}" if head else piece for piece in pieces[:PIECES]]


def _in_order(ranked: Sequence[Ranked], scores: dict[int, float]) -> Reordered:
    """Reranked passages by their new score, equal ones as they were; then the others as they were."""
    known = [item for item in ranked if item.candidate.passage in scores]
    known.sort(key=lambda item: -scores[item.candidate.passage])
    rest = [item for item in ranked if item.candidate.passage not in scores]
    return Reordered((*known, *rest), scores)
