"""What a provider's failure means: one stable code each, and never a word of the provider's own.

Providers repeat keys, hosts and texts in their messages; people get our sentence, the log the type.
`retryable` of the error says whether another try, or another endpoint, may help.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from portal.kernel.errors import ArchwayError, Invalid, Unavailable

LONGEST_PAUSE = 3600.0  # what a provider may ask for at most

Make = Callable[[str], ArchwayError]


def _auth(model: str) -> ArchwayError:
    return Invalid('The provider of "%(model)s" refuses our key.', code="model_auth_failed", model=model)


def _missing(model: str) -> ArchwayError:
    return Invalid('The provider does not know the model "%(model)s".', code="model_not_found", model=model)


def refused(model: str) -> ArchwayError:
    return Invalid('The provider of "%(model)s" refused the request.', code="model_refused", model=model)


def _busy(model: str) -> ArchwayError:
    return Unavailable('The provider of "%(model)s" asks us to slow down.', code="model_rate_limited", model=model)


def _unpaid(model: str) -> ArchwayError:
    return Invalid(
        'The account at the provider of "%(model)s" is used up or not paid.', code="model_account_empty", model=model
    )


def _too_long(model: str) -> ArchwayError:
    return Invalid('The text is longer than "%(model)s" can read at once.', code="model_context_exceeded", model=model)


def blocked(model: str) -> ArchwayError:
    return Invalid('The provider of "%(model)s" blocked this content.', code="model_content_blocked", model=model)


def _away(model: str) -> ArchwayError:
    return Unavailable('The provider of "%(model)s" does not answer.', code="model_unreachable", model=model)


def _broken(model: str) -> ArchwayError:
    return Unavailable('The provider of "%(model)s" has a problem of its own.', code="model_failed", model=model)


def _cut(model: str) -> ArchwayError:
    return Unavailable('The answer of "%(model)s" broke off.', code="model_cut_off", model=model)


def _untrusted(model: str) -> ArchwayError:
    return Invalid(
        'The certificate of the provider of "%(model)s" is not trusted.', code="model_tls_failed", model=model
    )


_BY_STATUS: dict[int, Make] = {
    400: refused,
    401: _auth,
    402: _unpaid,
    403: _auth,
    404: _missing,
    405: _missing,
    413: _too_long,
    422: refused,
    429: _busy,
}
# Classes of LiteLLM that say more than the status they carry.
_BY_TYPE: dict[str, Make] = {
    "ContextWindowExceededError": _too_long,
    "ContentPolicyViolationError": blocked,
}
# Of httpx and its successor alike: LiteLLM's clients use both.
_CUT = frozenset({"RemoteProtocolError", "ReadError", "IncompleteRead", "ClosedResourceError"})
_UNREACHED = frozenset({"ConnectError", "APIConnectionError", "ConnectionRefusedError"})
_SLOW = frozenset({"ConnectTimeout", "ReadTimeout", "WriteTimeout", "PoolTimeout", "APITimeoutError"})
# What an empty account is called: OpenAI sends it as 429, where waiting does not help.
_EMPTY_ACCOUNT = ("insufficient_quota", "billing_hard_limit", "arrearage", "overdue", "account_overdue")


def failure_of(error: BaseException, model: str, *, sent: bool = True) -> ArchwayError:
    """The member of our family for an exception that LiteLLM, its clients or httpx raised.

    `sent`: whether the request left (`clients.watched_trip`). LiteLLM calls what it can not translate a broken
    connection, which would be tried again and tell others that the provider is away: that is `model_refused`.

    These need a person: `model_auth_failed`, `model_account_empty`, `model_not_found`, `model_refused`,
    `model_context_exceeded`, `model_content_blocked`, `model_tls_failed`, `model_bad_answer`, and what
    `egress.judge` says. These pass: `model_rate_limited`, `model_timeout`, `model_cut_off`, `model_failed`,
    `model_unreachable`, `host_unknown`.
    """
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ArchwayError):
            return cause
    if not sent:
        return refused(model)
    if any(isinstance(cause, json.JSONDecodeError) for cause in causes):
        return bad_answer(model)
    if any(isinstance(cause, ssl.SSLError) or "CERTIFICATE_VERIFY_FAILED" in str(cause) for cause in causes):
        return _untrusted(model)
    names = {type(cause).__name__ for cause in causes}
    for name, make in _BY_TYPE.items():
        if name in names:
            return make(model)
    if not names.isdisjoint(_SLOW):
        return too_slow(model)
    if not names.isdisjoint(_CUT):
        return _cut(model)
    if not names.isdisjoint(_UNREACHED):
        return _away(model)
    return _of_status(error, model)


def _of_status(error: BaseException, model: str) -> ArchwayError:
    status = getattr(error, "status_code", None)
    if status == 429 and _says_empty(error):
        return _unpaid(model)
    if isinstance(status, int) and status >= 500:
        return _broken(model)
    return _BY_STATUS.get(status or 0, _away)(model)


def _says_empty(error: BaseException) -> bool:
    said = " ".join(f"{cause} {getattr(cause, 'code', '')} {getattr(cause, 'body', '')}" for cause in _causes(error))
    return any(word in said.lower() for word in _EMPTY_ACCOUNT)


def bad_answer(model: str) -> ArchwayError:
    return Invalid('The provider of "%(model)s" gave an unusable answer.', code="model_bad_answer", model=model)


def too_slow(model: str) -> ArchwayError:
    return Unavailable('The provider of "%(model)s" took too long.', code="model_timeout", model=model)


def retry_after(error: BaseException) -> float | None:
    """The seconds that the provider asked us to wait (`Retry-After`, a number or a date), if it did."""
    for cause in _causes(error):
        headers: Any = getattr(getattr(cause, "response", None), "headers", None)
        headers = headers or getattr(cause, "headers", None) or getattr(cause, "litellm_response_headers", None)
        text = headers.get("retry-after") if hasattr(headers, "get") else None
        if text and (seconds := _seconds(str(text))) is not None:
            return min(max(seconds, 0.0), LONGEST_PAUSE)
    return None


def _seconds(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError):
        return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    passed: set[int] = set()
    while seen is not None and id(seen) not in passed:
        passed.add(id(seen))
        yield seen
        seen = seen.__cause__ or seen.__context__
