"""A web site of a test's own on loopback: what it answers can be changed while it runs, and what was asked is kept."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Answer:
    """What one path answers."""

    body: bytes = b""
    status: int = 200
    kind: str = "text/html; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)


class Site:
    """Pages by path. Asking for a path that is not there gives 404; an ETag that fits gives 304."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.pages: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.agents: set[str] = set()
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def put(self, path: str, body: str | bytes, **more: object) -> None:
        data = body.encode() if isinstance(body, str) else body
        self.pages[path] = Answer(data, **more)  # type: ignore[arg-type]

    def page(self, path: str, title: str, text: str, *links: str, **more: object) -> None:
        """An ordinary page: menu with `links`, heading, text, foot."""
        menu = "".join(f'<li><a href="{link}">Menu {link}</a></li>' for link in links)
        self.put(
            path,
            f"<!doctype html><html lang='en'><head><title>{title}</title></head><body><nav><ul>{menu}</ul></nav>"
            f"<main><h1>{title}</h1><p>{text}</p></main><footer>Imprint of the site</footer></body></html>",
            **more,
        )


@contextmanager
def website() -> Iterator[Site]:
    """A running site."""
    site = Site(0)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(site))
    site.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()


def _handler_of(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with site.lock:
                site.at_once += 1
                site.most_at_once = max(site.most_at_once, site.at_once)
                site.asked.append(self.path)
                site.agents.add(self.headers.get("User-Agent", ""))
            try:
                self._answer(site.pages.get(self.path) or Answer(b"no", 404))
            finally:
                with site.lock:
                    site.at_once -= 1

        def _answer(self, answer: Answer) -> None:
            etag = answer.headers.get("ETag")
            if etag and self.headers.get("If-None-Match") == etag:
                self.send_response(304)
                self.end_headers()
                return
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(len(answer.body)))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *args: object) -> None:
            """Quiet."""

    return Handler
