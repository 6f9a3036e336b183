"""Kept answers: the record of a question that a model answers, its moves, and what a model is told of it again.

waiting → writing → done | no_basis | stopped | failed | interrupted. Each move asks for the state before it, so an
answer is written once, whoever opens its page.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from knowledge import asking
from knowledge.access import searchable_passages
from knowledge.answering.contract import Answer, AnswerRequest, Earlier, Prepared, State
from knowledge.answering.prompting import WITHDRAWN, Exchange, Quoted
from knowledge.models import QueryRecord
from knowledge.retrieval.contract import RetrievalResult
from knowledge.threads import Turn
from portal.gateway.accounting import Caller
from portal.gateway.endpoints import chat_endpoint
from portal.kernel.models import json_safe
from portal.kernel.principal import Principal

OPEN = (State.WAITING, State.WRITING)
# Of a turn without a model's answer so much of its best passage stands for the answer.
_BEST_PASSAGE = 600


def keep(
    principal: Principal,
    request: AnswerRequest,
    prepared: Prepared,
    *,
    kind: QueryRecord.Kind,
    thread: str = "",
    state: State,
    answer: Answer | None = None,
) -> QueryRecord | None:
    """The record of a question and its answer (if there is one yet), where the bases allow it."""
    if prepared.processing == "direct" and answer is None:
        written: dict[str, Any] = {}
    else:
        written = {"answering": state, "answer": answer.as_json() if answer else _to_write(prepared)}
    asked = request.retrieval
    return asking.keep(principal, asked, prepared.result, kind=kind, thread=thread, copied=prepared.base_ids, **written)


def _to_write(prepared: Prepared) -> dict[str, Any]:
    """All that the writer needs besides the passages found: it may be another process."""
    assert prepared.endpoint is not None  # nobody waits for an answer of no model
    return dict(
        json_safe(
            {
                "endpoint": prepared.endpoint.uid,
                "model": prepared.endpoint.model_name,
                "demo": prepared.endpoint.is_demo,
                "searched_for": prepared.searched_for,
                "warnings": list(prepared.warnings),
                "passages": [[item.number, item.text, item.document, item.place] for item in prepared.passages],
                "history": [[item.question, item.answer] for item in prepared.history],
                "bases": list(prepared.caller.bases) if prepared.caller else [],
            }
        )
    )


def claim(principal: Principal, record: QueryRecord) -> Prepared | None:
    """Take an answer that waits, to write it; None when somebody else has. Raises `Invalid` (endpoint_unknown)."""
    rows = QueryRecord.objects.filter(pk=record.pk, answering=State.WAITING)
    if rows.update(answering=State.WRITING) != 1:
        return None
    given = record.answer
    result = record.result
    chunks = {hit["rank"]: hit["chunk"] for hit in result["hits"]}
    there = _still_found(principal, chunks.values())
    return Prepared(
        question=record.query,
        result=RetrievalResult(
            query=result["query"], mode=result["mode"], hits=(), searched=result["searched"],
            below_threshold=result["below_threshold"], milliseconds=0.0, base_ids=tuple(record.base_ids),
        ),
        processing="model_opt",
        warnings=tuple(given["warnings"]),
        base_ids=tuple(record.base_ids),
        searched_for=given["searched_for"],
        endpoint=chat_endpoint(principal, given["endpoint"]),
        caller=Caller(principal, "ask", bases=tuple(given["bases"])),
        passages=tuple(Quoted(*item) for item in given["passages"] if chunks.get(item[0]) in there),
        history=tuple(Exchange(*item) for item in given["history"]),
    )  # fmt: skip


def finish(record: QueryRecord, answer: Answer) -> bool:
    """The answer's end; returns whether it was still being written."""
    written = QueryRecord.objects.filter(pk=record.pk, answering__in=OPEN)
    return written.update(answering=answer.state, answer=json_safe(answer.as_json())) == 1


def interrupt(record: QueryRecord, text: str, citations: list[int], code: str) -> bool:
    """End an answer whose writer is gone, with what it had written."""
    given = record.answer
    answer = Answer(
        "model_opt",
        State.INTERRUPTED,
        text,
        tuple(citations),
        model=given.get("model", ""),
        endpoint=given.get("endpoint", ""),
        demo=bool(given.get("demo")),
        searched_for=given.get("searched_for", ""),
        code=code,
        warnings=tuple(given.get("warnings", ())),
    )
    return finish(record, answer)


def earlier(principal: Principal, turns: list[Turn]) -> tuple[Earlier, ...]:
    """The turns of a thread as a model may be told of them: only those that their person still may read.

    An answer whose passages a search would not find any more is not told: it would come back in the next one.
    """
    readable = [turn.record for turn in turns if turn.readable and turn.record.answering not in OPEN]
    told = [(record, *_said(record)) for record in readable]
    there = _still_found(principal, (chunk for _, _, chunks in told for chunk in chunks))
    return tuple(
        Earlier(Exchange(record.query, text if there.issuperset(chunks) else WITHDRAWN), tuple(record.base_ids))
        for record, text, chunks in told
    )


def _said(record: QueryRecord) -> tuple[str, set[int]]:
    """What was answered, and the passages that it rests on: those cited, or all where none is."""
    hits = record.result.get("hits") or []
    if text := str(record.answer.get("text") or ""):
        cited = set(record.answer.get("citations") or ())
        return text, {hit["chunk"] for hit in hits if not cited or hit["rank"] in cited}
    return (str(hits[0]["text"])[:_BEST_PASSAGE], {hits[0]["chunk"]}) if hits else ("", set())


def _still_found(principal: Principal, chunks: Iterable[int]) -> set[int]:
    wanted = set(chunks)
    return set(searchable_passages(principal).filter(pk__in=wanted).values_list("pk", flat=True)) if wanted else set()
