"""The one process that holds the local embedding model, for everybody on this machine.

Speaks OpenAI's `POST /v1/embeddings` and `GET /v1/models`, Cohere's `POST /v1/rerank` where the operator
has supplied a cross-encoder, plus `GET /healthz`, on loopback with a bearer token. Beyond OpenAI's, a request
may say `"input_type": "query"` (default `"passage"`), and an answer names the vector `space`. The supervisor starts it:

    python -m portal.gateway.local.server --host 127.0.0.1 --port N

with ARCHWAY_EMBEDDING_TOKEN, ARCHWAY_DATA_DIR and, if wanted, ARCHWAY_EMBEDDING_THREADS and ARCHWAY_RERANK_MODEL.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import hmac
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from portal.gateway.local.lanes import Lane, Lanes
from portal.gateway.local.rerank_route import RerankService
from portal.gateway.local.tokens import PASSAGE, QUERY
from portal.gateway.local.weights import DIMENSIONS, MAX_TOKENS, MODEL, SPACE, Floats
from portal.kernel.errors import ArchwayError, Invalid, NotFound, TooLarge, TooMany, Unauthenticated

MAX_BODY = 16 * 1024 * 1024
MAX_TEXTS = 2048  # as at OpenAI
LIMITS: dict[Lane, int] = {"query": 512, "passage": 4096}

_PREFIXES: dict[Lane, str] = {"query": QUERY, "passage": PASSAGE}
_NAMES = (MODEL, SPACE)
_TYPES = {401: "authentication_error", 429: "rate_limit_error", 503: "server_error", 500: "server_error"}


class Model(Protocol):
    """What the server needs of `E5`."""

    def tokens(self, text: str, prefix: str) -> list[int]: ...

    def vector(self, tokens: Sequence[int]) -> Floats: ...


@dataclass(frozen=True, slots=True)
class EmbeddedText:
    vector: Floats
    tokens: int


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """A checked request body."""

    texts: list[str]
    lane: Lane
    as_base64: bool

    @classmethod
    def parse(cls, body: bytes) -> EmbeddingRequest:
        """Raises `Invalid`, or `NotFound` for a model that is not served here."""
        try:
            data = json.loads(body)
        except (ValueError, RecursionError) as error:  # the latter for deep nesting
            raise Invalid("The body is not JSON.", code="invalid_json") from error
        if not isinstance(data, dict):
            raise Invalid("The body must be a JSON object.", code="invalid_json")
        if data.get("model") not in _NAMES:
            raise NotFound("This model is not served here.", code="model_not_found", param="model")
        if data.get("dimensions") not in (None, DIMENSIONS):
            raise Invalid("This model has %(size)s dimensions.", param="dimensions", size=DIMENSIONS)
        encoding = data.get("encoding_format", "float")
        if encoding not in ("float", "base64"):
            raise Invalid('encoding_format must be "float" or "base64".', param="encoding_format")
        lane = data.get("input_type", "passage")
        if lane not in ("query", "passage"):
            raise Invalid('input_type must be "query" or "passage".', param="input_type")
        return cls(_texts(data.get("input")), lane, encoding == "base64")


def _texts(value: object) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
        raise Invalid("input must be a text or a list of texts, none of them empty.", param="input")
    if len(texts) > MAX_TEXTS:
        raise Invalid("input may hold at most %(count)s texts.", param="input", count=MAX_TEXTS)
    return texts


class EmbeddingService:
    """The three routes, around a model and its lanes."""

    def __init__(self, model: Model, token: str, *, threads: int, limits: dict[Lane, int] | None = None) -> None:
        if not token:
            raise ValueError("the embedding server needs a token")
        self._token = token.encode()
        self._model = model
        self.lanes: Lanes[EmbeddedText] = Lanes(self._embed, threads=threads, limits=limits or LIMITS)

    def _embed(self, text: str, lane: Lane) -> EmbeddedText:
        tokens = self._model.tokens(text, _PREFIXES[lane])
        return EmbeddedText(self._model.vector(tokens), len(tokens))

    async def embeddings(self, request: Request) -> Response:
        self.check_token(request)
        asked = EmbeddingRequest.parse(await _body(request))
        done = await _unless_gone(request, self.lanes.submit(asked.texts, asked.lane))
        count = sum(text.tokens for text in done)
        rows = [
            {"object": "embedding", "index": index, "embedding": _encoded(text.vector, asked.as_base64)}
            for index, text in enumerate(done)
        ]
        usage = {"prompt_tokens": count, "total_tokens": count}
        return JSONResponse({"object": "list", "data": rows, "model": MODEL, "space": SPACE, "usage": usage})

    async def models(self, request: Request) -> Response:
        self.check_token(request)
        model = {
            "id": MODEL,
            "object": "model",
            "created": 0,
            "owned_by": "archway",
            "space": SPACE,
            "dimensions": DIMENSIONS,
            "max_tokens": MAX_TOKENS,
        }
        return JSONResponse({"object": "list", "data": [model]})

    async def health(self, request: Request) -> Response:
        return JSONResponse({"ok": True})

    def check_token(self, request: Request) -> None:
        """Raises `Unauthenticated`."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        # Headers are latin-1 on the wire; compare bytes, so that odd ones do not raise.
        if scheme.lower() != "bearer" or not hmac.compare_digest(token.encode("latin-1"), self._token):
            raise Unauthenticated("The token is missing or wrong.", code="invalid_api_key")


def build_app(service: EmbeddingService, rerank_model: str = "") -> Starlette:
    """The program; `rerank_model` is the folder of a cross-encoder."""
    ranking = []
    if rerank_model:
        ranks = RerankService(rerank_model, service.check_token, _body, _disconnected)
        ranking.append(Route("/v1/rerank", ranks.rerank, methods=["POST"]))

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        service.lanes.close()

    return Starlette(
        routes=[
            Route("/v1/embeddings", service.embeddings, methods=["POST"]),
            Route("/v1/models", service.models),
            Route("/healthz", service.health),
            *ranking,
        ],
        exception_handlers={
            ArchwayError: _refused,
            HTTPException: _http_error,
            ClientDisconnect: _gone,
            Exception: _failed,
        },
        lifespan=lifespan,
    )


async def _body(request: Request) -> bytes:
    parts = bytearray()
    async for part in request.stream():
        parts += part
        if len(parts) > MAX_BODY:
            raise TooLarge("The body is larger than %(size)s bytes.", code="body_too_large", size=MAX_BODY)
    return bytes(parts)


async def _unless_gone(request: Request, answer: Future[list[EmbeddedText]]) -> list[EmbeddedText]:
    """Wait for the vectors, and withdraw the request when its client hangs up."""
    waiting = asyncio.wrap_future(answer)
    leaving = asyncio.create_task(_disconnected(request))
    try:
        either: set[asyncio.Future[Any]] = {waiting, leaving}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            raise ClientDisconnect
        return waiting.result()
    finally:
        leaving.cancel()
        waiting.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _encoded(vector: Floats, as_base64: bool) -> str | list[float]:
    if as_base64:
        return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
    numbers: list[float] = vector.tolist()
    return numbers


def _error(status: int, message: str, code: str | None, param: object = None, **headers: str) -> JSONResponse:
    error = {"message": message, "type": _TYPES.get(status, "invalid_request_error"), "param": param, "code": code}
    return JSONResponse({"error": error}, status, headers)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, ArchwayError)
    status = 400 if isinstance(error, Invalid) else error.status
    headers: dict[str, Any] = {"retry-after": str(error.retry_after)} if isinstance(error, TooMany) else {}
    return _error(status, str(error), error.code, error.params.get("param"), **headers)


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(error.status_code, error.detail, None, **dict(error.headers or {}))


async def _gone(_: Request, __: Exception) -> Response:
    return Response(status_code=499)


async def _failed(_: Request, __: Exception) -> Response:
    return _error(500, "The text could not be embedded.", "internal_error")


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve the local embedding model.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    chosen = parser.parse_args()
    token = os.environ.get("ARCHWAY_EMBEDDING_TOKEN", "")
    folder = os.environ.get("ARCHWAY_DATA_DIR", "")
    if not token or not folder:
        sys.exit("ARCHWAY_EMBEDDING_TOKEN and ARCHWAY_DATA_DIR must be set")
    threads = int(os.environ.get("ARCHWAY_EMBEDDING_THREADS") or 2)

    from portal.gateway.local.model import E5

    service = EmbeddingService(E5(Path(folder) / "models"), token, threads=threads)
    uvicorn.run(
        build_app(service, os.environ.get("ARCHWAY_RERANK_MODEL", "")),
        host=chosen.host,
        port=chosen.port,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=3,
    )


if __name__ == "__main__":
    main()
