"""How many Archways a question has passed: two that name each other as provider would otherwise ask for ever.

Whoever asks another Archway says how many there were before; the door of the one that is asked counts, and refuses
at the limit. The number belongs to the request: calls made while it is answered carry it on.
"""

from __future__ import annotations

from contextvars import ContextVar

from portal.gateway.models import ModelEndpoint
from portal.kernel.errors import Invalid

HEADER = "X-Archway-Hops"
MOST = 4
# Another Archway may also have been entered as an ordinary OpenAI-compatible server.
_TOLD = frozenset({ModelEndpoint.Provider.ARCHWAY, ModelEndpoint.Provider.OPENAI_COMPATIBLE})
_passed: ContextVar[int] = ContextVar("archways_passed", default=0)


def arrived(header: str) -> None:
    """A request has come with this header. Raises `Invalid` (remote_loop)."""
    passed = int(header) if header.isascii() and header.isdigit() and len(header) < 6 else 0
    if passed >= MOST:
        raise Invalid(
            "This question has passed %(count)s Archways; two of them probably name each other as provider.",
            code="remote_loop",
            count=passed,
        )
    _passed.set(passed)


def headers_for(endpoint: ModelEndpoint) -> dict[str, str]:
    """What a call to this endpoint says of the way so far."""
    return {HEADER: str(_passed.get() + 1)} if endpoint.provider in _TOLD else {}
