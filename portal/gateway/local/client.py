"""How our other processes ask the embedding process."""

from __future__ import annotations

import base64
import json
import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import numpy as np

from portal.gateway.local.weights import DIMENSIONS, MAX_TOKENS, MODEL, SPACE
from portal.gateway.protocols import Vectors
from portal.kernel.errors import ArchwayError, Invalid, Unavailable

logger = logging.getLogger(__name__)

# Texts in one request: a second or two of work, so that a claim's heartbeat and a cancel come through.
_BATCH = 64
_CONNECT_SECONDS = 1.0
_QUERY_SECONDS = 10.0
_PASSAGES_SECONDS = 120.0


class RemoteE5:
    """The local model in the embedding process, over HTTP on loopback.

    `address` is asked for the server's URL at each new connection ("" when nobody serves); a restarted
    server may have another. Safe to share between threads and to carry over a fork.
    """

    space = SPACE
    dimensions = DIMENSIONS
    max_tokens = MAX_TOKENS

    def __init__(self, address: Callable[[], str], token: str) -> None:
        self._address = address
        self._token = token
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None
        self._owner = 0

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        parts = [
            self._embed(texts[start : start + _BATCH], "passage", _PASSAGES_SECONDS)
            for start in range(0, len(texts), _BATCH)
        ]
        return np.concatenate(parts) if parts else np.empty((0, DIMENSIONS), np.float32)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self._embed(texts, "query", _QUERY_SECONDS) if texts else np.empty((0, DIMENSIONS), np.float32)

    def close(self) -> None:
        with self._lock:
            if self._client is not None and self._owner == os.getpid():
                self._client.close()
            self._client = None

    def _embed(self, texts: Sequence[str], lane: str, seconds: float) -> Vectors:
        body = {
            "model": MODEL,
            # The protocol knows no empty text; a space has the same tokens.
            "input": [text or " " for text in texts],
            "input_type": lane,
            "encoding_format": "base64",
        }
        answer = self._post(body, seconds)
        if answer.status_code == httpx.codes.BAD_REQUEST:
            raise Invalid("The embedding server refused the text.", code="embedding_refused")
        if answer.status_code != httpx.codes.OK:
            raise _away(f"status {answer.status_code}")
        return _vectors(answer, len(texts))

    def _post(self, body: dict[str, Any], seconds: float) -> httpx.Response:
        address = self._address().rstrip("/")
        if not address:
            raise _away("not started")
        timeout = httpx.Timeout(seconds, connect=_CONNECT_SECONDS)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        url = f"{address}/v1/embeddings"
        content = json.dumps(body)  # escaped, so that a lone surrogate passes too
        for attempt in (1, 2):
            try:
                return self._connection().post(url, content=content, headers=headers, timeout=timeout)
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError) as error:
                # A kept connection whose other end was restarted meanwhile: a new one may well work.
                if attempt == 2:
                    raise _away(type(error).__name__) from error
            except (httpx.TransportError, httpx.InvalidURL) as error:
                raise _away(type(error).__name__) from error
        raise AssertionError("unreachable")

    def _connection(self) -> httpx.Client:
        """This process's own client: sockets inherited over a fork would mix up two processes' answers."""
        with self._lock:
            if self._client is None or self._owner != os.getpid():
                self._client = httpx.Client(trust_env=False)
                self._owner = os.getpid()
            return self._client


def _vectors(answer: httpx.Response, count: int) -> Vectors:
    try:
        data = answer.json()
        if data["space"] != SPACE:
            raise Unavailable("The embedding server serves another model.", code="embedding_space_mismatch")
        rows = [np.frombuffer(base64.b64decode(row["embedding"]), "<f4") for row in data["data"]]
    except (ValueError, KeyError, TypeError) as error:
        raise _away("unreadable answer") from error
    if len(rows) != count or any(len(row) != DIMENSIONS for row in rows):
        raise _away("unreadable answer")
    return np.stack(rows).astype(np.float32)


def _away(reason: str) -> ArchwayError:
    logger.info("the embedding server is away: %s", reason)
    return Unavailable("The embedding model is away.", code="embedding_unavailable")
