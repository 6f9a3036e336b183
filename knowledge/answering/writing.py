"""Writing an answer: asks the model, passes on what may be shown, and ends with what the answer is.

    async with aclosing(written(prepared)) as events: …   # part by part, for streams
    answer = whole(prepared)                              # at once, for callers of threads

The first event is `answer.start`, the last `answer.done` with the whole answer; in between come `answer.delta`
{text}, `answer.citation` {number} and, when it breaks off, `answer.error` {code, message, retryable}.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

from django.utils.translation import gettext, gettext_noop

from knowledge.answering.citations import CheckedCitations
from knowledge.answering.contract import Answer, Event, Prepared, State
from knowledge.answering.preparing import warned
from knowledge.answering.prompting import NO_BASIS, answer_messages
from knowledge.answering.reuse import reuse_of
from knowledge.asking import NOTHING_FOUND, direct_answer
from portal.gateway import chat
from portal.gateway.chat_contract import ChatAnswer, ChatRequest
from portal.gateway.loops import OwnLoop
from portal.kernel.errors import ArchwayError

_UNCITED = gettext_noop("This answer names no passage that it rests on; compare it with the passages found.")
_CUT = gettext_noop("The answer was cut off at the model's longest length.")
_UNAVAILABLE = gettext_noop("The model could not answer, so these are the passages themselves.")


class Draft:
    """An answer as it grows: citations checked, and the sign of "no basis" kept from people."""

    def __init__(self, prepared: Prepared) -> None:
        self.prepared = prepared
        self.text = ""
        self._citations = CheckedCitations([passage.number for passage in prepared.passages])
        # What came first, while it may still become the sign of "no basis".
        self._beginning: str | None = ""

    def add(self, text: str) -> Iterator[Event]:
        """The events that a piece of the model's makes."""
        if self._beginning is not None:
            self._beginning += text
            if NO_BASIS.startswith(self._beginning.strip()[: len(NO_BASIS)]):
                return
            text, self._beginning = self._beginning, None
        yield from self._shown(text)

    def finish(self) -> Iterator[Event]:
        """The events of what was held back."""
        if self._beginning is not None:
            if self.without_basis:
                return
            rest, self._beginning = self._beginning, None
            yield from self._shown(rest)
        yield from self._shown(None)

    @property
    def without_basis(self) -> bool:
        """Whether the model found no answer in the passages."""
        return self._beginning is not None and self._beginning.strip().startswith(NO_BASIS)

    def _shown(self, piece: str | None) -> Iterator[Event]:
        """What a piece of the model's, or the end of all, lets be shown."""
        known = len(self._citations.cited)
        text = self._citations.end() if piece is None else self._citations.feed(piece)
        if text:
            self.text += text
            yield Event("answer.delta", {"text": text})
        for number in self._citations.cited[known:]:
            yield Event("answer.citation", {"number": number})

    def answer(self, state: State, said: ChatAnswer | None = None, **more: Any) -> Answer:
        """The answer as it stands now."""
        warnings = list(self.prepared.warnings)
        if state == State.DONE and not self._citations.cited:
            warnings.append(warned("answer_uncited", _UNCITED))
        if said is not None and said.finish == "length":
            warnings.append(warned("answer_cut", _CUT))
        about = {}
        if said is not None:
            about = {
                "endpoint": said.endpoint,
                "demo": said.demo,
                "fell_back": said.fell_back,
                "cached": said.cached,
                "tokens_in": said.usage.tokens_in,
                "tokens_out": said.usage.tokens_out,
            }
        endpoint = self.prepared.endpoint
        assert endpoint is not None  # drafts are of models
        given: dict[str, Any] = {
            "text": self.text,
            "citations": tuple(self._citations.cited),
            "model": said.model if said else endpoint.model_name,
            "demo": endpoint.is_demo,
            "removed": self._citations.removed,
            "searched_for": self.prepared.searched_for,
            "warnings": tuple(warnings),
        }
        return Answer("model_opt", state, **{**given, **about, **more})


def without_model(prepared: Prepared) -> Answer:
    """The answer where no model is asked: the passages, or that there is no basis."""
    written = prepared.processing == "model_opt"
    state = State.NO_BASIS if written or not prepared.result.hits else State.DONE
    return Answer(
        prepared.processing,
        state,
        gettext(NOTHING_FOUND) if state == State.NO_BASIS else direct_answer(prepared.result),
        citations=() if state == State.NO_BASIS else tuple(hit.rank for hit in prepared.result.hits),
        searched_for=prepared.searched_for,
        warnings=prepared.warnings,
    )


def request_of(prepared: Prepared) -> ChatRequest:
    """What the model is asked."""
    return ChatRequest(messages=answer_messages(prepared.question, prepared.passages, prepared.history))


async def written(prepared: Prepared) -> AsyncGenerator[Event]:
    """The events of an answer. Closing it cancels the call at the provider."""
    yield Event("answer.start", start_of(prepared))
    if not prepared.asks_model:
        answer = without_model(prepared)
        yield Event("answer.delta", {"text": answer.text})
        yield Event("answer.done", answer.as_json())
        return
    assert prepared.caller is not None and prepared.endpoint is not None  # `asks_model` says so
    draft = Draft(prepared)
    said: ChatAnswer | None = None
    try:
        reuse = await OwnLoop().database(lambda: reuse_of(prepared))
        asked = chat.astream(prepared.caller, prepared.endpoint, request_of(prepared), reuse=reuse)
        async with aclosing(asked) as parts:
            async for part in parts:
                said = part.answer or said
                for event in draft.add(part.text) if part.text else ():
                    yield event
    except ArchwayError as error:
        for event in draft.finish():
            yield event
        sentence = error.sentence()
        yield Event("answer.error", {"code": error.code, "message": sentence, "retryable": error.retryable})
        yield Event("answer.done", failed(draft, error, sentence).as_json())
        return
    for event in draft.finish():
        yield event
    answer = _ended(draft, said)
    if answer.state == State.NO_BASIS:
        yield Event("answer.delta", {"text": answer.text})
    yield Event("answer.done", answer.as_json())


def whole(prepared: Prepared) -> Answer:
    """The answer at once; a model that fails leaves the passages, with a warning. Not from a running event loop."""
    if not prepared.asks_model:
        return without_model(prepared)
    assert prepared.caller is not None and prepared.endpoint is not None  # `asks_model` says so
    draft = Draft(prepared)
    try:
        said = chat.complete(prepared.caller, prepared.endpoint, request_of(prepared), reuse=reuse_of(prepared))
    except ArchwayError as error:
        return failed(draft, error, error.sentence())
    for _ in draft.add(said.text):
        pass
    for _ in draft.finish():
        pass
    return _ended(draft, said)


def start_of(prepared: Prepared) -> dict[str, Any]:
    """What is known before the first word."""
    endpoint = prepared.endpoint if prepared.asks_model else None
    return {
        "mode": prepared.processing,
        "model": endpoint.model_name if endpoint else "",
        "demo": bool(endpoint and endpoint.is_demo),
        "searched_for": prepared.searched_for,
        "warnings": list(prepared.warnings),
    }


def failed(draft: Draft, error: ArchwayError, sentence: str) -> Answer:
    """An answer that broke off keeps its text; one that never began leaves the passages."""
    if draft.text:
        return draft.answer(State.INTERRUPTED, code=error.code, message=sentence)
    prepared = draft.prepared
    return Answer(
        "direct",
        State.FAILED,
        direct_answer(prepared.result),
        citations=tuple(hit.rank for hit in prepared.result.hits),
        searched_for=prepared.searched_for,
        code=error.code,
        message=sentence,
        warnings=(*prepared.warnings, warned("model_unavailable", _UNAVAILABLE) | {"cause": error.code}),
    )


def _ended(draft: Draft, said: ChatAnswer | None) -> Answer:
    if draft.without_basis:
        return draft.answer(State.NO_BASIS, said, text=gettext(NOTHING_FOUND))
    return draft.answer(State.DONE, said)
