"""`retrieve`: from a question to cited passages, in the order of DESIGN: permit, search, blend, judge, load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Literal

from knowledge.base_settings import BaseSettings
from knowledge.images.places import Pictured
from knowledge.retrieval import (
    beside,
    blend,
    diversity,
    explaining,
    languages,
    meaning,
    passages,
    questions,
    reranking,
    words,
)
from knowledge.retrieval.blend import Ranked
from knowledge.retrieval.candidates import Candidate
from knowledge.retrieval.contract import Hit, HitImage, Mode, Part, RetrievalRequest, RetrievalResult
from knowledge.retrieval.corrections import in_words, put_right
from knowledge.retrieval.passages import Loaded
from knowledge.retrieval.permitted import Permitted, resolve
from knowledge.retrieval.relevance import relevance
from knowledge.retrieval.trace import Step, Trace
from knowledge.retrieval.understanding import Understood, understand
from knowledge.retrieval.vectors import Asked
from knowledge.terms import overlay
from knowledge.text import clean, normalise, query_kind, query_lexemes
from portal.kernel.principal import Principal

# Of a longer question only the beginning is searched.
MAX_QUERY = 1_000
# Leaves taken from each search before they are blended: several leaves may belong to one passage.
POOL = 100
POOL_PER_HIT = 4
MAX_TOP_K = 100
MAX_NEIGHBOURS = 3
_SCALES: dict[Mode, str] = {"keywords": "bm25", "embedding": "cosine", "blend": "blend"}


@dataclass(frozen=True, slots=True)
class Completed:
    """The request with every default filled in."""

    query: str
    lexemes: tuple[str, ...]
    mode: Mode
    top_k: int
    threshold: float
    weight: float
    fusion: Literal["convex", "rrf"]
    neighbours: int
    per_document: int = 0
    diversity: float = 0.0

    @property
    def pool(self) -> int:
        return max(POOL, POOL_PER_HIT * self.top_k)


@dataclass(frozen=True, slots=True)
class Found:
    """A ranking of passages and all that it was made of. `space_keys` are those of the bases asked by meaning."""

    asked: Completed
    permitted: Permitted
    query: words.Query | None
    candidates: tuple[Candidate, ...]
    ranked: tuple[Ranked, ...]
    space_keys: dict[int, str]
    understood: Understood | None = None
    reranked: dict[int, float] = field(default_factory=dict)

    def relevance(self, item: Ranked) -> float:
        """See `knowledge.retrieval.relevance`."""
        return relevance(item.candidate, self.asked.mode, self.space_keys.get(item.candidate.base))


def retrieve(
    principal: Principal,
    request: RetrievalRequest,
    embed: meaning.Embed | None = None,
    settings: BaseSettings | None = None,
) -> RetrievalResult:
    """The passages that answer a question, best first, among exactly what the asker may see.

    Odd queries (empty, punctuation only, very long) give an answer or an empty list, never an error.
    `embed` makes a query's vector; measurements hand in their own. `settings` are tried instead of those that
    the bases have.
    """
    trace = Trace()
    found = _reranked(principal, request, search(principal, request, trace, embed, settings), trace)
    good = [item for item in found.ranked if found.relevance(item) >= found.asked.threshold]
    hits: list[Hit] = []
    if good:
        with trace.step("load passages"):
            loaded, kept = _kept(found, good, trace)
            hits = _hits(found, loaded, kept)
    return _result(found, trace, hits, len(found.ranked) - len(good))


def _reranked(principal: Principal, request: RetrievalRequest, found: Found, trace: Trace) -> Found:
    asked = found.asked
    order = reranking.rerank(principal, request, found.permitted, asked.query, found.ranked, asked.top_k, trace)
    return replace(found, ranked=order.ranked, reranked=order.scores)


def search(
    principal: Principal,
    request: RetrievalRequest,
    trace: Trace,
    embed: meaning.Embed | None = None,
    settings: BaseSettings | None = None,
) -> Found:
    """The ranking before anything is loaded or cut off."""
    with trace.step("what may be searched") as detail:
        permitted = resolve(principal, request)
        if settings is not None:
            for item in permitted.bases:
                item.base.config = settings.model_dump(mode="json")
        detail |= {"bases": len(permitted.bases), "leaves": permitted.leaves}
    asked = _filled_in(request, permitted)
    if not asked.query.strip() or not permitted.bases:
        return Found(asked, permitted, None, (), (), {})
    understood = understand(permitted, asked.query, asked.lexemes, trace)
    query, asked = understood.query, replace(asked, lexemes=understood.lexemes)
    spaces: Sequence[tuple[Asked, Permitted]] = ()
    if asked.mode != "keywords":
        spaces = meaning.ask(permitted, understood.meant, trace, embed or meaning.paid_by(principal))
        if not spaces:
            asked = replace(asked, mode="keywords")
    candidates = _candidates(permitted, asked, query, spaces, trace)
    with trace.step("blend") as detail:
        ranked = _ranked(asked, candidates)
        detail |= {"leaves": len(candidates), "passages": len(ranked)}
        if asked.mode == "blend":
            detail |= {"fusion": asked.fusion, "weight": round(asked.weight, 3)}
    keys = meaning.space_keys(spaces)
    return Found(asked, permitted, query, tuple(candidates), tuple(ranked), keys, understood)


def _filled_in(request: RetrievalRequest, permitted: Permitted) -> Completed:
    """None in the request means: as the first base is set."""
    settings = (permitted.bases[0].settings if permitted.bases else BaseSettings()).searching
    query = clean(request.query[: 2 * MAX_QUERY])[:MAX_QUERY]
    top_k = settings.top_k if request.top_k is None else request.top_k
    reach = settings.neighbours if request.neighbours is None else request.neighbours
    return Completed(
        query=query,
        lexemes=tuple(query_lexemes(query)),
        mode=request.mode or settings.mode,
        top_k=min(max(top_k, 1), MAX_TOP_K),
        threshold=settings.threshold if request.threshold is None else request.threshold,
        weight=blend.weight_for(request.weight, settings.weight, query_kind(query)),
        fusion=request.fusion or settings.fusion,
        neighbours=min(max(reach, 0), MAX_NEIGHBOURS),
        per_document=settings.per_document if request.per_document is None else max(request.per_document, 0),
        diversity=settings.diversity if request.diversity is None else min(max(request.diversity, 0.0), 1.0),
    )


def _candidates(
    permitted: Permitted,
    asked: Completed,
    query: words.Query,
    spaces: Sequence[tuple[Asked, Permitted]],
    trace: Trace,
) -> list[Candidate]:
    """The leaves of the searches that the mode wants; in a blend each with both scores."""
    by_words: Callable[[], list[Candidate]] = list
    if asked.mode != "embedding":
        by_words = partial(_by_words, permitted, query, asked.pool, trace.step("search by words"))
        # Of few leaves each search is quicker than what it takes to run both at once.
        if asked.mode == "blend" and permitted.leaves > words.SMALL:
            by_words = beside.start(by_words)
    near = [] if asked.mode == "keywords" else meaning.search(spaces, asked.pool, trace)
    found = {item.leaf: item for item in by_words()}
    for item in near:
        known = found.get(item.leaf)
        found[item.leaf] = replace(known, cosine=item.cosine) if known else item
    by_question = _by_question(permitted, asked, query, spaces, trace)
    if asked.mode != "blend":
        return [*found.values(), *by_question]
    with trace.step("complete the scores") as detail:
        complete = [*meaning.complete(spaces, words.complete(query, list(found.values()))), *by_question]
        return languages.with_expected(asked.query, complete, detail)


def _by_words(permitted: Permitted, query: words.Query, pool: int, step: Step) -> list[Candidate]:
    with step as detail:
        found = words.search(permitted, query, pool, detail)
        detail["candidates"] = len(found)
        return found


def _by_question(
    permitted: Permitted,
    asked: Completed,
    query: words.Query,
    spaces: Sequence[tuple[Asked, Permitted]],
    trace: Trace,
) -> list[Candidate]:
    """Passages by their questions; no step where no base ever had any."""
    if not any(item.base.has_questions for item in permitted.bases):
        return []
    with trace.step("search by questions") as detail:
        return questions.search(
            permitted, query, asked.lexemes, spaces, asked.pool, detail, by_words=asked.mode != "embedding"
        )


def _ranked(asked: Completed, candidates: Sequence[Candidate]) -> list[Ranked]:
    if asked.mode == "blend":
        return blend.best_leaves(candidates, blend.fuse(candidates, asked.weight, asked.fusion))
    if asked.mode == "keywords":
        order = blend.best_leaves(candidates, [item.words_share or 0.0 for item in candidates])
        return [Ranked(item.candidate, item.candidate.words or 0.0) for item in order]
    order = blend.best_leaves(candidates, [item.cosine or -1.0 for item in candidates])
    return [Ranked(item.candidate, item.candidate.cosine or 0.0) for item in order]


def _kept(found: Found, good: Sequence[Ranked], trace: Trace) -> tuple[dict[int, Loaded], list[Ranked]]:
    """What is shown of the good passages, in its order."""
    asked = found.asked
    # Some more than asked for: copies are dropped, and what ceased to be permitted meanwhile is missing.
    most = (2 if not asked.per_document else 6) * asked.top_k + 10
    first = good[: max(most, diversity.pool(asked.top_k)) if asked.diversity else most]
    loaded = passages.load(found.permitted, first)
    if asked.diversity:
        with trace.step("diversify") as detail:
            first = diversity.diversified(first, loaded, asked.diversity, asked.top_k, found.reranked, detail)
    return loaded, passages.without_copies(first, loaded, asked.lexemes, asked.top_k, asked.per_document)


def _hits(found: Found, loaded: dict[int, Loaded], kept: Sequence[Ranked]) -> list[Hit]:
    asked, permitted = found.asked, found.permitted
    shown = [loaded[item.candidate.passage] for item in kept]
    around = passages.neighbours(permitted, shown, asked.neighbours)
    pictured = passages.pictures(shown)
    word_ranks = blend.ranks([(item.passage, item.words) for item in found.candidates if item.words])
    reranks = blend.ranks(list(found.reranked.items()))
    near_ranks = blend.ranks([(item.passage, item.cosine) for item in found.candidates if item.cosine is not None])
    names = {item.base.pk: (item.base.uid, item.base.name) for item in permitted.bases}
    asked_as = questions.texts([item.candidate.question for item in kept if item.candidate.question is not None])
    shown_in = {passage.base_id for passage in shown}
    terms = overlay.overlays(
        (item.base.pk, item.base.terms_version) for item in permitted.bases if item.base.pk in shown_in
    )
    hits = []
    for rank, (item, passage) in enumerate(zip(kept, shown, strict=True), 1):
        parts = {}
        if item.candidate.words and passage.chunk in word_ranks:
            parts["keywords"] = Part(word_ranks[passage.chunk], item.candidate.words, "bm25")
        if item.candidate.cosine is not None and passage.chunk in near_ranks:
            parts["embedding"] = Part(near_ranks[passage.chunk], item.candidate.cosine, "cosine")
        judged = found.reranked.get(passage.chunk)
        if judged is not None:
            parts["rerank"] = Part(reranks[passage.chunk], judged, "rerank")
        worth = found.relevance(item)
        before, after = around.get(passage.chunk, ((), ()))
        hit = _hit(rank, item, passage, asked, worth, names[passage.base_id], parts, before, after)
        if judged is not None:
            hit = replace(hit, score=judged, scale="rerank")
        hit = replace(
            hit,
            question=asked_as.get(item.candidate.question or 0, ""),
            highlights=passages.highlights(passage.text, asked.lexemes, terms.get(passage.base_id)),
        )
        hits.append(_with_pictures(hit, pictured.get(passage.chunk)))
    return hits


def _with_pictures(hit: Hit, found: Pictured | None) -> Hit:
    if found is None:
        return hit
    images = tuple(HitImage(**asdict(image)) for image in found.images)
    return replace(hit, images=images, recognised=found.recognised)


def _hit(
    rank: int,
    item: Ranked,
    passage: Loaded,
    asked: Completed,
    worth: float,
    base: tuple[str, str],
    parts: dict[str, Part],
    before: tuple[str, ...],
    after: tuple[str, ...],
) -> Hit:
    scale = "rrf" if asked.mode == "blend" and asked.fusion == "rrf" else _SCALES[asked.mode]
    return Hit(
        rank=rank,
        score=item.score,
        scale=scale,
        relevance=round(worth, 4),
        base=base[0],
        base_name=base[1],
        document=passage.document,
        document_name=passage.document_name,
        folder=passage.folder,
        revision=passage.revision,
        revision_number=passage.revision_number,
        chunk=passage.chunk,
        leaf=passage.leaf,
        sha256=passage.sha256,
        text=passage.text,
        prefix=passage.prefix,
        heading_path=passage.heading_path,
        page=passage.page,
        sheet=passage.sheet,
        rows=passage.rows,
        slide=passage.slide,
        start=passage.start,
        end=passage.end,
        leaf_start=passage.leaf_start,
        leaf_end=passage.leaf_end,
        highlights=(),
        parts=parts,
        before=before,
        after=after,
        version=passage.version,
        origin=passage.origin,
    )


def _result(found: Found, trace: Trace, hits: list[Hit], below: int) -> RetrievalResult:
    asked, permitted, query = found.asked, found.permitted, found.query
    frequencies = dict(zip(query.lexemes, query.frequencies, strict=True)) if query else {}
    understood = found.understood
    corrections = in_words(understood.corrections, hits) if understood else []
    fixed = [{"kind": one.kind, "said": one.said, "meant": one.meant} for one in corrections]
    plans = [step.detail["plan"] for step in trace.steps if "plan" in step.detail]
    return RetrievalResult(
        query=asked.query,
        mode=asked.mode,
        hits=tuple(hits),
        searched=permitted.leaves,
        below_threshold=below,
        milliseconds=trace.milliseconds,
        base_ids=permitted.base_ids,
        warnings=tuple(trace.warnings),
        corrections=tuple(fixed),
        meant=put_right(asked.query, corrections) if corrections else "",
        trace={
            "query": normalise(asked.query).text,
            "kind": query_kind(asked.query),
            "lexemes": [{"lexeme": lexeme, "chunks": frequencies.get(lexeme, 0)} for lexeme in asked.lexemes],
            "terms": list(understood.terms) if understood else [],
            "corrections": fixed,
            "plan": plans,
            "weight": round(asked.weight, 3) if asked.mode == "blend" else None,
            "fused": explaining.fused(
                found.ranked,
                found.candidates,
                found.reranked,
                {item.candidate.passage: found.relevance(item) for item in found.ranked[: explaining.TOLD]},
                asked.threshold,
                {hit.chunk for hit in hits},
            ),
            "steps": trace.as_json(),
        },
    )
