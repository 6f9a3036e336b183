"""A small provider of embeddings on loopback that speaks OpenAI's protocol, and misbehaves on request."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

DIMENSIONS = 4
SECRET = "sk-very-secret"


class EmbeddingProvider:
    """`with EmbeddingProvider() as provider:` serves at `provider.url`.

    `fault`: "" | an HTTP status | "hang" | "not json" | "no rows" | "words" | "shuffled" | "zero".
    `most_texts` is the largest request it takes; larger ones get a 400.
    """

    def __init__(self, fault: str = "", *, dimensions: int = DIMENSIONS, most_texts: int = 2048) -> None:
        self.fault = fault
        self.dimensions = dimensions
        self.most_texts = most_texts
        self.requests: list[dict[str, Any]] = []
        self.tokens: list[str] = []
        self.released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> EmbeddingProvider:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def vector(self, text: str) -> list[float]:
        """Not of length 1, and another for each text."""
        number = sum(text.encode()) % 97 + 1
        return [float(number), 2.0, *([0.5] * (self.dimensions - 2))]

    def answer(self, body: dict[str, Any]) -> tuple[int, str]:
        texts = body["input"]
        if self.fault.isdigit():
            return int(self.fault), json.dumps({"error": {"message": f"no, {SECRET}", "code": "x", "type": "y"}})
        if len(texts) > self.most_texts or not texts or not all(texts):
            return 400, json.dumps({"error": {"message": "too many or empty", "code": "x", "type": "y"}})
        if self.fault == "not json":
            return 200, "<html>"
        rows: list[dict[str, Any]] = [
            {"object": "embedding", "index": index, "embedding": self.vector(text)} for index, text in enumerate(texts)
        ]
        if self.fault == "no rows":
            rows = []
        if self.fault == "words":
            rows[0]["embedding"] = ["a", "b"]
        if self.fault == "zero":
            rows[0]["embedding"] = [0.0] * self.dimensions
        if self.fault == "shuffled":
            rows.reverse()
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return 200, json.dumps({"object": "list", "data": rows, "model": body["model"], "usage": usage})

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                provider.requests.append(body)
                provider.tokens.append(self.headers.get("Authorization", ""))
                if provider.fault == "hang":
                    provider.released.wait()
                    self.close_connection = True
                    return
                status, text = provider.answer(body)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler
