"""Bases that answer as a model: the question is the last message, what was said before is its history."""

from __future__ import annotations

from knowledge import asking
from knowledge.models import QueryRecord
from knowledge.retrieval.contract import Hit, RetrievalRequest
from portal.gateway.chat_contract import ChatPart
from portal.openai_api.completion_input import CompletionInput
from portal.openai_api.contract import Citation, Finished, Pieces
from portal.openai_api.door import Asked, on_database
from portal.openai_api.targets import Bases


async def pieces(asked: Asked, bases: Bases, given: CompletionInput) -> Pieces:
    """The answer of some bases, passage by passage."""
    request = RetrievalRequest(query=given.question, base_uids=bases.uids)
    result, _ = await on_database(lambda: asking.ask(asked.principal, request, kind=QueryRecord.Kind.API))
    text = await on_database(lambda: asking.direct_answer(result))
    yield ChatPart(text)
    more = {"mode": "direct", "warnings": list(result.warnings)}
    yield Finished(text, citations=tuple(cited(asked, hit) for hit in result.hits), more=more)


def cited(asked: Asked, hit: Hit) -> Citation:
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
