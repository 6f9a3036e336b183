"""To which models text may be sent: that of a sensitive base leaves the house only as its owners allowed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from knowledge import base_settings
from knowledge.models import KnowledgeBase
from portal.gateway.models import ModelEndpoint
from portal.kernel.errors import Denied

# The built-in model and the demo model are processes of this very installation.
_IN_THE_HOUSE = frozenset({ModelEndpoint.Provider.LOCAL, ModelEndpoint.Provider.DEMO})


def leaves_house(endpoint: ModelEndpoint) -> bool:
    """Whether texts go to another server with this model, or with one that may stand in for it."""
    return any(one.provider not in _IN_THE_HOUSE for one in _who_may_answer(endpoint))


def forbidding(bases: Iterable[KnowledgeBase], endpoint: ModelEndpoint) -> list[KnowledgeBase]:
    """Of the bases those whose text must not be sent to this model."""
    asked = [one.uid for one in _who_may_answer(endpoint) if one.provider not in _IN_THE_HOUSE]
    return [
        base
        for base in bases
        if base.sensitive and not set(base_settings.read(base.config).outside.endpoints).issuperset(asked)
    ]


def check(bases: Iterable[KnowledgeBase], endpoint: ModelEndpoint) -> None:
    """Raises `Denied` (text_stays_in_house) when text of one of the bases must not go to this model."""
    refusing = forbidding(bases, endpoint)
    if refusing:
        raise Denied(
            'The base "%(base)s" is sensitive, and its owners have not allowed its text to go to "%(model)s".',
            code="text_stays_in_house",
            base=refusing[0].name,
            model=endpoint.name,
        )


def _who_may_answer(endpoint: ModelEndpoint) -> Iterator[ModelEndpoint]:
    yield endpoint
    for row in endpoint.fallback_rows.all():
        if row.fallback.enabled and row.fallback.kind == endpoint.kind:
            yield row.fallback
