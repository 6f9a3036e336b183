"""Our error family in OpenAI's shape: `{"error": {"message", "type", "param", "code"}}`.

Programs look at OpenAI's own codes where it has one (`context_length_exceeded`, `model_not_found`, …); the others
are ours, from docs/errors.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse, JsonResponse

from portal.kernel.errors import ArchwayError, Denied, Invalid, NotFound, TooMany, Unauthenticated

REQUEST, SERVER, PERMISSION, REQUESTS = "invalid_request_error", "server_error", "permission_error", "requests"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a program sees of an error: status, OpenAI's type, and the code it goes by there."""

    status: int
    type: str
    code: str


# By our code, where the class alone says too little.
_SHAPES: dict[str, Shape] = {
    "no_such_model": Shape(404, REQUEST, "model_not_found"),
    "quota_exceeded": Shape(429, "insufficient_quota", "insufficient_quota"),
    "model_rate_limited": Shape(429, REQUESTS, "rate_limit_exceeded"),
    "model_rate_reached": Shape(429, REQUESTS, "rate_limit_exceeded"),
    "model_busy": Shape(429, REQUESTS, "rate_limit_exceeded"),
    "model_context_exceeded": Shape(400, REQUEST, "context_length_exceeded"),
    "model_content_blocked": Shape(400, REQUEST, "content_filter"),
    "model_timeout": Shape(504, SERVER, "model_timeout"),
    "model_refused": Shape(400, REQUEST, "model_refused"),
    # What is wrong with our own set-up is no fault of the request, and asking again does not help.
    **{
        code: Shape(502, SERVER, code)
        for code in (
            "model_auth_failed",
            "model_account_empty",
            "model_not_found",
            "model_tls_failed",
            "model_bad_answer",
            "url_forbidden",
            "base_url_missing",
            "provider_mismatch",
        )
    },
}


class Refused(Invalid):
    """A request whose parameter `param` can not be taken as it is; `param` is written as OpenAI does."""

    default_code = "parameter_invalid"

    def __init__(self, message: str, *, param: str, code: str | None = None, **params: object) -> None:
        super().__init__(message, code=code, **params)
        self.param = param


def shape_of(error: ArchwayError) -> Shape:
    """Status, type and code for an error of the family."""
    if error.code in _SHAPES:
        return _SHAPES[error.code]
    if error.code.startswith("credential_"):
        return Shape(502, SERVER, error.code)
    if isinstance(error, Unauthenticated):
        return Shape(401, REQUEST, "invalid_api_key")
    if isinstance(error, Denied):
        return Shape(403, PERMISSION, error.code)
    if isinstance(error, NotFound):
        return Shape(404, REQUEST, error.code)
    if isinstance(error, TooMany):
        return Shape(429, REQUESTS, "rate_limit_exceeded")
    if error.status >= 500:
        return Shape(error.status, SERVER, error.code)
    return Shape(400 if error.status == 422 else error.status, REQUEST, error.code)


def body_of(error: ArchwayError) -> dict[str, Any]:
    """The JSON of an error, also for one that comes in the middle of a stream."""
    shape = shape_of(error)
    param = getattr(error, "param", None)
    return {"error": {"message": error.sentence(), "type": shape.type, "param": param, "code": shape.code}}


def response_of(error: ArchwayError) -> HttpResponse:
    """The whole answer. `x-should-retry` is what OpenAI's clients ask before they try again."""
    shape = shape_of(error)
    response = JsonResponse(body_of(error), status=shape.status)
    if isinstance(error, TooMany):
        response.headers["Retry-After"] = str(error.retry_after)
    if shape.status == 401:
        response.headers["WWW-Authenticate"] = 'Bearer realm="archway"'
    if shape.status == 429 or shape.status >= 500:
        again = error.retryable and error.code != "quota_exceeded"
        response.headers["x-should-retry"] = "true" if again else "false"
    return response
