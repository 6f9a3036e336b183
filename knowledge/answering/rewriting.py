"""Follow-up questions made to stand for themselves, so that a search understands them."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from knowledge.answering import checked, prompting
from knowledge.answering.prompting import Exchange
from portal.gateway.accounting import Caller
from portal.gateway.models import ModelEndpoint

# A person waits for it: after that the question is searched as it was typed.
SECONDS = 8.0


class _Rewritten(BaseModel):
    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)

    standalone_question: str = Field(min_length=1, max_length=1_000)


def standalone(caller: Caller, endpoint: ModelEndpoint, question: str, history: Sequence[Exchange]) -> str:
    """The question without its conversation. Raises what `checked.ask` raises."""
    messages = prompting.rewrite_messages(question, history)
    found, _ = checked.ask(
        caller, endpoint, messages, prompting.REWRITE_SCHEMA, _Rewritten, max_tokens=400, seconds=SECONDS
    )
    return found.standalone_question
