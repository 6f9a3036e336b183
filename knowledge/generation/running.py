"""Working through passages, slice by slice: ask the model, check what it says, keep it by the verbs of its kind."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Protocol

from django.db.models import F
from pydantic import BaseModel, ConfigDict, Field

from knowledge import background, outside
from knowledge.access import access_base
from knowledge.answering import checked, prompting
from knowledge.answering.prompting import Quoted
from knowledge.generation import passages
from knowledge.models import Chunk, ChunkQuestion, EvaluationCase, Generation, KnowledgeBase, Role
from knowledge.quality import cases
from knowledge.questions import verbs as questions
from portal.gateway.accounting import Caller
from portal.gateway.chat_contract import ChatAnswer
from portal.gateway.models import Purpose
from portal.kernel.errors import ArchwayError, Conflict, Invalid, Unavailable
from portal.kernel.principal import Principal

logger = logging.getLogger(__name__)

# Passages looked up at once, and unusable answers in a row after which the model is not fit for it.
FETCH = 20
MOST_UNUSABLE = 5
# Of one passage, not of the model: the next may well go through.
_OF_THE_PASSAGE = frozenset({"model_bad_answer", "model_content_blocked", "model_context_exceeded", "question_invalid"})


class _Questions(BaseModel):
    model_config = ConfigDict(extra="ignore")

    questions: list[str] = Field(max_length=50)


class _Case(BaseModel):
    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)

    question: str = Field(min_length=3, max_length=1_000)


@dataclass(frozen=True, slots=True)
class Asked:
    """One passage to make something of."""

    principal: Principal
    base: KnowledgeBase
    run: Generation
    caller: Caller
    passage: Chunk

    @property
    def quoted(self) -> Quoted:
        chunk = self.passage
        return Quoted(1, chunk.text, chunk.revision.document.name, " › ".join(chunk.heading_path))


class Make(Protocol):
    """Asks the model about a passage and keeps what it says; returns how many were kept, and the answer."""

    def __call__(self, asked: Asked) -> tuple[int, ChatAnswer]: ...


def _make_questions(asked: Asked) -> tuple[int, ChatAnswer]:
    run, most = asked.run, asked.run.each
    messages, schema = prompting.questions_messages(asked.quoted, most), prompting.questions_schema(most)
    found, answer = checked.ask(asked.caller, run.endpoint, messages, schema, _Questions, max_tokens=100 + 120 * most)
    texts = [text for text in map(str.strip, found.questions) if 3 <= len(text) <= questions.LONGEST][:most]
    made = questions.add(asked.principal, asked.passage, texts, source=ChunkQuestion.Origin.GENERATED)
    return len(made), answer


def _make_case(asked: Asked) -> tuple[int, ChatAnswer]:
    messages = prompting.case_messages(asked.quoted)
    found, answer = checked.ask(
        asked.caller, asked.run.endpoint, messages, prompting.CASE_SCHEMA, _Case, max_tokens=300
    )
    target = cases.target_of_chunk(asked.base, asked.passage)
    try:
        cases.add(asked.principal, asked.base, found.question, [target], origin=EvaluationCase.Origin.GENERATED)
    except Conflict:
        return 0, answer  # the set asks the same already
    return 1, answer


_MAKES: dict[str, tuple[Make, str]] = {
    Generation.Kind.QUESTIONS: (_make_questions, Purpose.QUESTIONS),
    Generation.Kind.CASES: (_make_case, Purpose.CASES),
}


def work(generation_id: int) -> bool:
    """One slice of a run; returns whether there is more to do now. Does nothing when somebody else is at it."""
    row = Generation.objects.filter(pk=generation_id).first()
    turn = background.claim(row) if row is not None else None
    return turn is not None and _slice(turn)


def _slice(turn: background.Turn[Generation]) -> bool:
    turn.work = Generation.objects.select_related("base", "endpoint", "created_by").get(pk=turn.work.pk)
    try:
        if _advance(turn):
            background.end(turn.work, Generation.Status.DONE)
            return False
        turn.release()
        return True
    except background.Stopped as stopped:
        background.end(turn.work, Generation.Status.CANCELLED, stopped)
    except Unavailable as error:
        # The sweeper sends somebody again; nothing that was made is lost.
        logger.warning("generation %s waits: %s", turn.work.pk, error.code)
        turn.note(waiting=error.code[:40])
        turn.release()
    except ArchwayError as error:
        if error.code != "claim_lost":
            # A quota that is used up ends it too; started again, it goes on where it stopped.
            background.fail(turn.work, error)
    return False


def _advance(turn: background.Turn[Generation]) -> bool:
    """Returns whether all passages are done; False when the slice is over first."""
    run = turn.work
    principal = background.asker_of(run)
    base = access_base(principal, run.base.uid, Role.OWNER)
    # Permission may have been taken back since the start.
    outside.check([base], run.endpoint)
    make, purpose = _MAKES[run.kind]
    caller = Caller(principal, purpose, run=run.uid, bases=(base.uid,))
    unusable: list[str] = []
    turn.at(run.done, always=True)
    while not run.most or run.done < run.most:
        rows = passages.open_passages(principal, base, run.kind).select_related("revision__document")[:FETCH]
        if not rows:
            return True
        for passage in passages.each_text_once(rows):
            made = _one(turn, Asked(principal, base, run, caller, passage), make)
            unusable = [*unusable, passage.sha256] if made is None else []
            if len(unusable) >= MOST_UNUSABLE:
                # It is the model, not the passages: they are asked about again once there is a better one.
                passages.unmark(base, run.kind, unusable)
                raise Invalid(
                    'The provider of "%(model)s" gave an unusable answer.',
                    code="model_bad_answer",
                    model=run.endpoint.name,
                )
            run.done += 1
            turn.at(run.done, always=True)
            if run.most and run.done >= run.most:
                return True
            if turn.over:
                return False
    return True


def _one(turn: background.Turn[Generation], asked: Asked, make: Make) -> int | None:
    """How many were made of a passage; None when the model's answer was of no use."""
    run = turn.work
    try:
        made, answer = make(asked)
    except ArchwayError as error:
        if error.code not in _OF_THE_PASSAGE:
            raise
        logger.info("nothing was made of a passage: %s", error.code)
        turn.note(skipped=F("skipped") + 1)
        # Marked too, or the run would come back to it for ever.
        passages.mark(asked.base, run.kind, asked.passage.sha256, 0)
        return None
    passages.mark(asked.base, run.kind, asked.passage.sha256, made)
    turn.note(
        made=F("made") + made,
        tokens_in=F("tokens_in") + answer.usage.tokens_in,
        tokens_out=F("tokens_out") + answer.usage.tokens_out,
        cost=F("cost") + answer.cost,
        waiting="",
    )
    return made
