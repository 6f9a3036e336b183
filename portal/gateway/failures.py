"""What a provider's failure means: one stable code each, and never a word of the provider's own.

Providers repeat keys, hosts and texts in their messages; people get our sentence, the log the type.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from portal.kernel.errors import ArchwayError, Invalid, Unavailable

_AUTH, _MISSING, _BUSY = frozenset({401, 403}), frozenset({404}), frozenset({429})
_REFUSED = frozenset({400, 413, 422})


def failure_of(error: BaseException, model: str) -> ArchwayError:
    """The member of our family for an exception that LiteLLM, its clients or httpx raised.

    Codes: `model_auth_failed`, `model_not_found`, `model_refused`, `model_bad_answer` (these need a
    person), `model_rate_limited`, `model_unreachable` (these pass).
    """
    if any(isinstance(cause, json.JSONDecodeError) for cause in _causes(error)):
        return bad_answer(model)
    status = getattr(error, "status_code", None)
    if status in _AUTH:
        return Invalid('The provider of "%(model)s" refuses our key.', code="model_auth_failed", model=model)
    if status in _MISSING:
        return Invalid('The provider does not know the model "%(model)s".', code="model_not_found", model=model)
    if status in _REFUSED:
        return Invalid('The provider of "%(model)s" refused the request.', code="model_refused", model=model)
    if status in _BUSY:
        return Unavailable('The provider of "%(model)s" asks us to slow down.', code="model_rate_limited", model=model)
    return Unavailable('The provider of "%(model)s" does not answer.', code="model_unreachable", model=model)


def bad_answer(model: str) -> ArchwayError:
    return Invalid('The provider of "%(model)s" gave an unusable answer.', code="model_bad_answer", model=model)


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
