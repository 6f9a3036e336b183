"""The one error family, and the only place that says which HTTP status an error has.

An error carries a stable `code` for programs, one plain sentence for people and says whether
trying again can help. The sentence is a gettext message id with named placeholders; a door calls
`sentence()` to get it in the reader's language. Parsers raise these in a child process that has
no Django, so this module imports nothing of Django at import time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar


def sentence_of(message: str, params: Mapping[str, object]) -> str:
    """An error that was kept, in the reader's language; empty when there is none.

    A sentence that does not fit what was kept with it is told as it stands: a reason is never a reason to fail.
    """
    from django.utils.translation import gettext

    if not message:
        return ""
    try:
        return gettext(message) % params if params else gettext(message)
    except (KeyError, TypeError, ValueError):
        return gettext(message)


class ArchwayError(Exception):
    """Base of the family. `message` may hold `%(name)s` placeholders that `params` fills."""

    status: ClassVar[int] = 400
    default_code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, code: str | None = None, **params: object) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.params = params

    def sentence(self) -> str:
        """The message in the active language, placeholders filled."""
        return sentence_of(self.message, self.params)

    def __str__(self) -> str:
        return self.message % self.params if self.params else self.message


class Unauthenticated(ArchwayError):
    """Nobody is signed in, or the key is unknown, expired or revoked."""

    status = 401
    default_code = "unauthenticated"


class NotFound(ArchwayError):
    """Absent, or not visible to the asker: the two look alike."""

    status = 404
    default_code = "not_found"


class Denied(ArchwayError):
    """The thing is visible to the asker, but their role or key is too small for the verb."""

    status = 403
    default_code = "denied"


class Invalid(ArchwayError):
    """The input can not be used; the sentence says what to change."""

    status = 422
    default_code = "invalid"


class Unreadable(Invalid):
    """A request that no program of good will sends: characters or numbers that no column holds."""

    status = 400
    default_code = "bad_request"

    def __init__(self) -> None:
        super().__init__("This request can not be understood.")


class Conflict(ArchwayError):
    """The thing has moved on since the caller looked (lost claim, duplicate, concurrent edit)."""

    status = 409
    default_code = "conflict"


class Unmet(ArchwayError):
    """The caller asks under terms that this server does not meet (another version of a protocol)."""

    status = 412
    default_code = "precondition_failed"


class WrongMedia(ArchwayError):
    """The body is of a type that this address does not take."""

    status = 415
    default_code = "unsupported_media_type"


class TooLarge(ArchwayError):
    """More bytes than the limit of this path or file type."""

    status = 413
    default_code = "too_large"


class TooMany(ArchwayError):
    """A rate limit or quota is used up; `retry_after` is in seconds."""

    status = 429
    default_code = "rate_limited"
    retryable = True

    def __init__(self, message: str, *, retry_after: int, code: str | None = None, **params: object) -> None:
        super().__init__(message, code=code, **params)
        self.retry_after = retry_after


class Unavailable(ArchwayError):
    """Something we depend on is away for now; trying again helps."""

    status = 503
    default_code = "unavailable"
    retryable = True


class ParseError(Invalid):
    """A document that can not be read. `code` is one of the codes listed in docs/errors.md."""

    default_code = "unreadable"
