"""Bases that answer as a model: the question is the last message, what was said before is its history.

What answers is what answers on the ask page (`knowledge.answering`): a chat model from numbered passages where the
base says so, the passages themselves otherwise. Rules of the caller (system messages) are not taken: an answer of a
base holds to its passages.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from knowledge.answering import records, writing
from knowledge.answering.contract import Answer, AnswerRequest, Earlier, Prepared, State
from knowledge.answering.preparing import prepare
from knowledge.answering.prompting import Exchange
from knowledge.models import QueryRecord
from knowledge.retrieval.contract import Hit, RetrievalRequest
from portal.gateway.accounting import TokenUsage
from portal.gateway.chat_contract import ChatPart, Message
from portal.kernel.errors import Unavailable
from portal.openai_api.completion_input import CompletionInput
from portal.openai_api.contract import Citation, Finished, Pieces
from portal.openai_api.door import Asked, on_database
from portal.openai_api.messages import text_of
from portal.openai_api.targets import Bases


async def pieces(asked: Asked, bases: Bases, given: CompletionInput) -> Pieces:
    """The answer of some bases, piece by piece. Raises `Unavailable` when a model breaks off in the middle."""
    request = AnswerRequest(
        RetrievalRequest(query=given.question, base_uids=bases.uids),
        history=_earlier(given.messages[:-1]),
    )
    prepared = await on_database(lambda: prepare(asked.principal, request))
    said = ""
    async with aclosing(writing.written(prepared)) as events:
        async for event in events:
            if event.name == "answer.delta":
                said += event.data["text"]
                yield ChatPart(event.data["text"])
            elif event.name == "answer.done":
                answer = _Answer(event.data)
                if answer.state == State.INTERRUPTED:
                    message, code = answer.data["message"], answer.data["code"]
                    raise Unavailable(message, code=code)
                if not said:
                    # The model failed before its first word: the passages stand in for it.
                    yield ChatPart(answer.text)
                await on_database(lambda answer=answer: _keep(asked, request, prepared, answer))  # type: ignore[misc]
                yield _finished(asked, prepared, answer)


@dataclass(frozen=True, slots=True)
class _Answer:
    """The data of `answer.done`."""

    data: dict[str, Any]

    @property
    def state(self) -> State:
        return State(self.data["state"])

    @property
    def text(self) -> str:
        return str(self.data["text"])


def _keep(asked: Asked, request: AnswerRequest, prepared: Prepared, answer: _Answer) -> None:
    whole = Answer(
        **{
            **answer.data,
            "state": answer.state,
            "citations": tuple(answer.data["citations"]),
            "warnings": tuple(answer.data["warnings"]),
        }
    )
    records.keep(asked.principal, request, prepared, kind=QueryRecord.Kind.API, state=answer.state, answer=whole)


def _finished(asked: Asked, prepared: Prepared, answer: _Answer) -> Finished:
    data = answer.data
    cited = set(data["citations"])
    more = {
        name: data[name]
        for name in ("processing", "state", "demo", "fell_back", "cached", "searched_for", "warnings", "endpoint")
    }
    return Finished(
        answer.text,
        usage=TokenUsage(data["tokens_in"], data["tokens_out"]),
        citations=tuple(_citation(asked, hit) for hit in prepared.result.hits if hit.rank in cited),
        more=more,
    )


def _earlier(messages: Sequence[Message]) -> tuple[Earlier, ...]:
    """Questions and the answers that followed them, oldest first."""
    found: list[Earlier] = []
    question = ""
    for message in messages:
        if message["role"] == "user":
            question = text_of(message)
        elif message["role"] == "assistant" and question.strip() and (answer := text_of(message)).strip():
            found.append(Earlier(Exchange(question, answer)))
            question = ""
    return tuple(found)


def _citation(asked: Asked, hit: Hit) -> Citation:
    """A passage as answers name it."""
    return Citation(
        number=hit.rank,
        title=" › ".join(part for part in (hit.document_name, hit.place) if part),
        url=asked.address(hit.citation),
        base=hit.base,
        document=hit.document,
        revision=hit.revision,
        chunk=hit.chunk,
        version=hit.version,
        sha256=hit.sha256,
        place=hit.place,
        text=hit.text,
    )
