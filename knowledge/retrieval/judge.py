"""A chat model as a reranker: it scores numbered passages, and its answer is checked before it counts."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from knowledge.answering import checked, prompting
from knowledge.answering.prompting import Quoted
from portal.gateway.accounting import Caller
from portal.gateway.models import ModelEndpoint
from portal.gateway.protocols import Ranked

# Of ten.
_BEST = 10
_SCORE_TOKENS = 24


class _Score(BaseModel):
    model_config = ConfigDict(extra="ignore")

    id: int
    score: float = Field(ge=0, le=_BEST, allow_inf_nan=False)


class _Scores(BaseModel):
    model_config = ConfigDict(extra="ignore")

    scores: list[_Score] = Field(min_length=1)


class JudgingModel:
    """A `Reranker`. Numbers that were not given are passed over; the first score of a passage counts."""

    def __init__(self, endpoint: ModelEndpoint, caller: Caller, seconds: float) -> None:
        self._endpoint = endpoint
        self._caller = caller
        self._seconds = seconds

    def rerank(self, query: str, texts: Sequence[str]) -> list[Ranked]:
        quoted = [Quoted(number, text) for number, text in enumerate(texts, 1)]
        found, _ = checked.ask(
            self._caller,
            self._endpoint,
            prompting.rerank_messages(query, quoted),
            prompting.rerank_schema(len(texts)),
            _Scores,
            max_tokens=100 + _SCORE_TOKENS * len(texts),
            seconds=self._seconds,
        )
        scores: dict[int, float] = {}
        for row in found.scores:
            if 1 <= row.id <= len(texts):
                scores.setdefault(row.id - 1, row.score / _BEST)
        return sorted((Ranked(index, score) for index, score in scores.items()), key=lambda row: -row.score)
