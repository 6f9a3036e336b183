"""The embedding server on a real socket, in a thread of the test."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import uvicorn

from portal.gateway.local.server import EmbeddingService, build_app

TOKEN = "token-of-the-tests"


@contextlib.contextmanager
def serving(service: EmbeddingService, rerank_model: str = "") -> Iterator[str]:
    """Yields the server's URL. The socket listens from the start, so nobody has to wait for it."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        server = uvicorn.Server(
            uvicorn.Config(
                build_app(service, rerank_model), log_level="warning", access_log=False, timeout_graceful_shutdown=1
            )
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
