"""From a question to what an answer is written from: whether a model answers, which one, and from which passages.

Alone decides when the passages themselves are the answer: where that is wanted, where no model may or can be
asked, and where nothing relevant was found. Each time but the first a warning says so.
"""

from __future__ import annotations

from dataclasses import replace

from django.utils.translation import gettext_noop

from knowledge import outside
from knowledge.access import visible_bases
from knowledge.answering import prompting, rewriting
from knowledge.answering.contract import AnswerRequest, Earlier, Prepared, Processing, Warned
from knowledge.answering.prompting import Exchange, Quoted
from knowledge.base_settings import Answering, BaseSettings, read
from knowledge.models import KnowledgeBase
from knowledge.retrieval import retrieve
from knowledge.retrieval.contract import Hit, RetrievalRequest, RetrievalResult
from portal.gateway.accounting import Caller
from portal.gateway.endpoints import chat_endpoint
from portal.gateway.models import ModelEndpoint, Purpose
from portal.kernel.errors import ArchwayError, Denied, Invalid
from portal.kernel.principal import Principal

# Earlier turns that a model is told of, and characters of each answer.
HISTORY = 4
HISTORY_TEXT = 1_200
# An endpoint whose size nobody has set carries the default; it reads this much at least.
UNSET_CONTEXT = 512
ASSUMED_CONTEXT = 8_000
MOST_TOKENS = 24_000
_ROOM = 800  # rules, question and the frames of passages


def prepare(principal: Principal, request: AnswerRequest) -> Prepared:
    """Rewrite, retrieve, and choose who answers. Raises `Invalid` for an endpoint that was asked for and is unknown.

    Not inside a transaction: a rewrite asks a model.
    """
    bases = _bases(principal, request.retrieval)
    settings = (read(bases[0].config) if bases else BaseSettings()).answering
    processing: Processing = request.processing or settings.processing
    warnings: list[Warned] = []
    endpoint = _endpoint(principal, request, settings, processing, warnings)
    question = request.retrieval.query
    searched_for = _rewritten(principal, request, settings, bases, endpoint, warnings)
    retrieval = replace(request.retrieval, query=searched_for) if searched_for else request.retrieval
    result = retrieve(principal, retrieval)
    prepared = Prepared(
        question=question,
        result=result,
        processing="direct",
        warnings=tuple(warnings),
        base_ids=tuple(base.pk for base in bases if base.uid in {hit.base for hit in result.hits}),
        searched_for=searched_for,
    )
    if processing == "direct" or endpoint is None:
        return prepared
    return _with_model(principal, prepared, request, settings, bases, endpoint)


def _bases(principal: Principal, retrieval: RetrievalRequest) -> list[KnowledgeBase]:
    """The visible bases of a request, in the order that decides whose settings hold."""
    rows = visible_bases(principal)
    if not retrieval.base_uids:
        return list(rows.order_by("pk"))
    order = {uid: at for at, uid in enumerate(retrieval.base_uids)}
    return sorted(rows.filter(uid__in=order), key=lambda base: order[base.uid])


def _endpoint(
    principal: Principal, request: AnswerRequest, settings: Answering, processing: Processing, warnings: list[Warned]
) -> ModelEndpoint | None:
    """The chat model that answers or rewrites; None with a warning where there is none."""
    rewrites = settings.rewrite if request.rewrite is None else request.rewrite
    if processing == "direct" and not (rewrites and request.history):
        return None
    if request.endpoint:
        return chat_endpoint(principal, request.endpoint)
    try:
        return chat_endpoint(principal, settings.endpoint)
    except Invalid as error:
        warnings.append(warned(error.code, _FALLS_BACK.get(error.code, _NO_MODEL)))
        return None


_NO_MODEL = gettext_noop("No chat model has been set up yet, so these are the passages themselves.")
_FALLS_BACK = {
    "endpoint_unknown": gettext_noop(
        "The chat model of this base is not available, so these are the passages themselves."
    ),
}
_STAYS = gettext_noop(
    "Text of a sensitive base is not sent to this model without its owners' permission: these are the passages."
)
_LEAVES = gettext_noop("The passages were sent to a model outside of this installation.")


def warned(code: str, message: str) -> Warned:
    """A warning as results carry them."""
    return {"code": code, "message": message}


def _rewritten(
    principal: Principal,
    request: AnswerRequest,
    settings: Answering,
    bases: list[KnowledgeBase],
    endpoint: ModelEndpoint | None,
    warnings: list[Warned],
) -> str:
    """The question as it is searched for where that differs; empty where it is searched as it stands."""
    rewrites = settings.rewrite if request.rewrite is None else request.rewrite
    if not rewrites or not request.history or endpoint is None:
        return ""
    history = _history(principal, request.history, endpoint)
    try:
        # The question itself is about these bases, so it goes where their text may go.
        outside.check(bases, endpoint)
        caller = Caller(principal, Purpose.REWRITE, bases=tuple(base.uid for base in bases[:20]))
        found = rewriting.standalone(caller, endpoint, request.retrieval.query, [item.exchange for item in history])
    except Denied as error:
        warnings.append(warned(error.code, _STAYS))
        return ""
    except ArchwayError as error:
        message = gettext_noop(
            "The follow-up question could not be completed from the conversation: searched as typed."
        )
        warnings.append(warned("rewrite_failed", message) | {"cause": error.code})
        return ""
    return found if found.strip() != request.retrieval.query.strip() else ""


def _with_model(
    principal: Principal,
    prepared: Prepared,
    request: AnswerRequest,
    settings: Answering,
    bases: list[KnowledgeBase],
    endpoint: ModelEndpoint,
) -> Prepared:
    """The same with the model that answers and what it is given; without passages there is no basis."""
    result = prepared.result
    if not result.hits or max(hit.relevance for hit in result.hits) < settings.least_relevance:
        return replace(prepared, processing="model_opt", endpoint=endpoint)
    sources = [base for base in bases if base.pk in prepared.base_ids]
    if outside.forbidding(sources, endpoint):
        stays = warned("text_stays_in_house", _STAYS)
        return replace(prepared, warnings=(*prepared.warnings, stays))
    history = _history(principal, request.history, endpoint)
    known = tuple(dict.fromkeys([*prepared.base_ids, *(pk for item in history for pk in item.base_ids)]))
    told = tuple(item.exchange for item in history)
    warnings = prepared.warnings
    if outside.leaves_house(endpoint):
        warnings = (*warnings, warned("text_left_house", _LEAVES))
    return replace(
        prepared,
        processing="model_opt",
        endpoint=endpoint,
        caller=Caller(principal, Purpose.ASK, bases=tuple(base.uid for base in sources)),
        passages=tuple(prompting.fitting(_quoted(result), _room(endpoint, told))),
        history=told,
        base_ids=known,
        warnings=warnings,
    )


def _history(principal: Principal, history: tuple[Earlier, ...], endpoint: ModelEndpoint) -> list[Earlier]:
    """The last turns, without those that hold text which may not go to this model."""
    recent = history[-HISTORY:]
    ids = {pk for item in recent for pk in item.base_ids}
    rows = list(visible_bases(principal).filter(pk__in=ids)) if ids else []
    good = {base.pk for base in rows} - {base.pk for base in outside.forbidding(rows, endpoint)}
    return [
        replace(item, exchange=Exchange(item.exchange.question[:1_000], item.exchange.answer[:HISTORY_TEXT]))
        for item in recent
        if good.issuperset(item.base_ids)
    ]


def _quoted(result: RetrievalResult) -> list[Quoted]:
    return [Quoted(hit.rank, _text(hit), hit.document_name, hit.place) for hit in result.hits]


def _text(hit: Hit) -> str:
    return "\n".join([*hit.before, hit.text, *hit.after])


def _room(endpoint: ModelEndpoint, history: tuple[Exchange, ...]) -> int:
    """Tokens that the passages may take."""
    size = endpoint.context_size if endpoint.context_size > UNSET_CONTEXT else ASSUMED_CONTEXT
    # The answer needs room too, but never more than a third: a large limit must not push out all passages.
    used = (
        _ROOM
        + min(endpoint.max_output_tokens, size // 3)
        + prompting.worded(prompting.answer_messages("", [], history))
    )
    return max(min(size - used, MOST_TOKENS), size // 4)
