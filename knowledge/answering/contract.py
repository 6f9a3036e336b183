"""The shapes of answering: what is asked for, what is ready to be written, and the answer."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from knowledge.answering.prompting import Exchange, Quoted
from knowledge.models import QueryRecord
from knowledge.retrieval.contract import RetrievalRequest, RetrievalResult
from portal.gateway.accounting import Caller
from portal.gateway.models import ModelEndpoint

Processing = Literal["direct", "model_opt"]
PROCESSINGS: tuple[Processing, ...] = ("direct", "model_opt")
State = QueryRecord.Answering
Warned = dict[str, str]


@dataclass(frozen=True, slots=True)
class Earlier:
    """A question before this one, and the bases whose text stands in its answer."""

    exchange: Exchange
    base_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """A question. None means: as the base's settings say (several bases: the first one's), as in a retrieval.

    `endpoint` is the uid of a chat endpoint; `history` is oldest first.
    """

    retrieval: RetrievalRequest
    processing: Processing | None = None
    endpoint: str = ""
    rewrite: bool | None = None
    history: tuple[Earlier, ...] = ()


@dataclass(frozen=True, slots=True)
class Prepared:
    """A question with its passages, ready to be answered. Without an `endpoint` the passages are the answer.

    `passages` are those that go to the model; `base_ids` names the bases whose text may stand in the answer.
    """

    question: str
    result: RetrievalResult
    processing: Processing
    warnings: tuple[Warned, ...]
    base_ids: tuple[int, ...]
    searched_for: str = ""
    endpoint: ModelEndpoint | None = None
    caller: Caller | None = None
    passages: tuple[Quoted, ...] = ()
    history: tuple[Exchange, ...] = ()

    @property
    def asks_model(self) -> bool:
        """Whether a model is asked; not when there is no basis to answer from."""
        return self.endpoint is not None and bool(self.passages)


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered. `citations` are the numbers of passages, in the order of their first mention.

    `demo`: the demo model's, to be shown as such. `code` and `message` say why there is no (whole) answer.
    `removed` counts citations of passages that the model had not been given.
    """

    processing: Processing
    state: State
    text: str = ""
    citations: tuple[int, ...] = ()
    model: str = ""
    endpoint: str = ""
    demo: bool = False
    fell_back: bool = False
    cached: bool = False
    tokens_in: int = 0
    tokens_out: int = 0
    removed: int = 0
    searched_for: str = ""
    code: str = ""
    message: str = ""
    warnings: tuple[Warned, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**asdict(self), "state": str(self.state), "citations": list(self.citations)}

    @classmethod
    def of(cls, data: dict[str, Any]) -> Answer:
        """An answer from what `as_json` made of it."""
        return cls(**{**data, "state": State(data["state"]), "citations": tuple(data["citations"])})

    def ended(self, state: State, **changes: Any) -> Answer:
        """The same, ended otherwise."""
        return replace(self, state=state, **changes)


@dataclass(frozen=True, slots=True)
class Event:
    """A step of an answer: `answer.start`, `answer.delta`, `answer.citation`, `answer.error` or `answer.done`."""

    name: str
    data: dict[str, Any]
