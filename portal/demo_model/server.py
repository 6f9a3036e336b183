"""The demo model as an HTTP server (ASGI). Started by the supervisor, by tests and by load runs:

    python -m portal.demo_model.server --host 127.0.0.1 --port N [--token WORD]

Any prefix before the last part of a path is accepted, as base URLs differ: `/v1/chat/completions`,
`/api/v3/chat/completions` (Doubao), `/v2/chat/completions` (Wenxin). A token, when given, must come as
`Authorization: Bearer`, `x-api-key` or `x-goog-api-key`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hmac
import json
import re
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import uvicorn

from portal.demo_model import vectors
from portal.demo_model.answers import answer
from portal.demo_model.behaviour import NAME, Behaviour, read
from portal.demo_model.wire import CHAT, ChatFormat, Frame, openai_failure

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_GEMINI = re.compile(r"/models/(.+):(generateContent|streamGenerateContent|batchEmbedContents)$")
_JSON = (b"content-type", b"application/json")
_HISTORY = 5000


class Cut(Exception):
    """Raised after the head of an answer went out: the server then closes the connection in the middle."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One request: path, headers (lower case), body, and how it ended: done, cut, gone (the caller left), refused."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    ended: str


@dataclass
class Application:
    """The ASGI program. `seen` holds the last requests that have ended; `running` counts those under way."""

    token: str = ""
    seen: deque[Seen] = field(default_factory=lambda: deque(maxlen=_HISTORY))
    running: int = 0
    most_running: int = 0
    on_seen: Callable[[Seen], None] | None = None
    on_begun: Callable[[], None] | None = None
    _times: Counter[str] = field(default_factory=Counter)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        raw = await _body(receive)
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            await _reply(send, 400, openai_failure(400))
            return
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        if self.on_begun:
            self.on_begun()
        ended = "gone"
        try:
            ended = await self._until_left(scope["path"], headers, body, receive, send)
        except Cut:
            ended = "cut"
            raise
        finally:
            self.running -= 1
            self._note(Seen(scope["path"], headers, body, ended))

    def _note(self, seen: Seen) -> None:
        self.seen.append(seen)
        if self.on_seen:
            self.on_seen(seen)

    async def _until_left(
        self, path: str, headers: dict[str, str], body: dict[str, Any], receive: Receive, send: Send
    ) -> str:
        """Answers, unless the caller hangs up first."""
        work = asyncio.ensure_future(self._answer(path, headers, body, send))
        leaving = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else "gone"
        except OSError:
            return "gone"
        finally:
            for task in (work, leaving):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Cut, OSError):
                    await task

    async def _answer(self, path: str, headers: dict[str, str], body: dict[str, Any], send: Send) -> str:
        if path.rstrip("/").endswith("/models"):
            rows = [{"id": NAME, "object": "model", "created": 0, "owned_by": "archway"}]
            names = [{"name": f"models/{NAME}", "displayName": "demo model"}]
            if self._refuses(headers):
                return await _refuse(send, 401, openai_failure(401))
            await _reply(send, 200, {"object": "list", "data": rows, "models": names, "has_more": False})
            return "done"
        gemini = _GEMINI.search(path)
        model = gemini.group(1) if gemini else str(body.get("model") or NAME)
        wire = CHAT["gemini" if gemini else "anthropic" if path.endswith("/messages") else "openai"]
        behaviour = read(model)
        if self._refuses(headers):
            return await _refuse(send, 401, wire.failure(401))
        if behaviour is None:
            return await _refuse(send, 404, wire.failure(404))
        if await self._misbehave(model, behaviour, wire, send):
            return "refused"
        if plain := _plain(path, gemini.group(2) if gemini else "", body, model):
            await asyncio.sleep(behaviour.ttft)
            await _reply(send, 200, plain)
            return "done"
        if not re.search(r"/(chat/completions|messages)$", path) and not gemini:
            return await _refuse(send, 404, wire.failure(404))
        streamed = bool(body.get("stream")) or (gemini is not None and gemini.group(2) == "streamGenerateContent")
        await _chat(wire, model, behaviour, body, streamed, send)
        return "done"

    def _refuses(self, headers: dict[str, str]) -> bool:
        if not self.token:
            return False
        given = [headers.get("authorization", "").removeprefix("Bearer "), headers.get("x-api-key", "")]
        given.append(headers.get("x-goog-api-key", ""))
        return not any(hmac.compare_digest(word.encode(), self.token.encode()) for word in given)

    async def _misbehave(self, model: str, behaviour: Behaviour, wire: ChatFormat, send: Send) -> bool:
        """Whether the request was answered by a failure that its model's name asks for."""
        if behaviour.hang:
            await asyncio.Event().wait()
        self._times[model] += 1
        if behaviour.fail and (behaviour.times is None or self._times[model] <= behaviour.times):
            # OpenAI words a used-up account as 429.
            status = 429 if behaviour.fail == 402 and wire is CHAT["openai"] else behaviour.fail
            await _reply(send, status, wire.failure(behaviour.fail), behaviour.after)
            return True
        if behaviour.badjson or behaviour.html:
            raw = b"<html><body>Bad gateway</body></html>" if behaviour.html else b'{"id": "x", "choices": [{'
            await _head(send, 200, [_JSON])
            await send({"type": "http.response.body", "body": raw})
            return True
        return False


def _plain(path: str, method: str, body: dict[str, Any], model: str) -> Any:
    """The answer of everything that is no chat; None for chat."""
    if path.endswith("/embeddings"):
        return vectors.openai_embeddings(body, model)
    if method == "batchEmbedContents":
        return vectors.gemini_embeddings(body)
    if path.endswith("/rerank"):
        return vectors.ranked_by_tei(body) if "texts" in body else vectors.ranked(body)
    return None


async def _chat(
    wire: ChatFormat, model: str, behaviour: Behaviour, body: dict[str, Any], streamed: bool, send: Send
) -> None:
    given = answer(wire.read(body), behaviour)
    if not streamed:
        await asyncio.sleep(behaviour.ttft + behaviour.gap * max(len(given.tokens) - 1, 0))
        if behaviour.cut is not None:
            await _head(send, 200, [_JSON, (b"content-length", b"100000")])
            await send({"type": "http.response.body", "body": b'{"id": "', "more_body": True})
            raise Cut
        await _reply(send, 200, wire.whole(model, given, behaviour))
        return
    await _head(send, 200, [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")])
    asked = bool((body.get("stream_options") or {}).get("include_usage"))
    await _stream(wire.frames(model, given, behaviour, asked), behaviour, send)
    await send({"type": "http.response.body", "body": b""})


async def _stream(frames: Iterable[Frame], behaviour: Behaviour, send: Send) -> None:
    clock = asyncio.get_running_loop()
    due = clock.time() + behaviour.ttft
    sent = 0
    for kind, data in frames:
        if kind != "other":
            if behaviour.cut is not None and sent >= behaviour.cut:
                raise Cut
            if behaviour.stall is not None and sent >= behaviour.stall:
                await asyncio.Event().wait()
            # Due times, not sleeps: a late token does not delay all that follow.
            if (wait := due - clock.time()) > 0:
                await asyncio.sleep(wait)
            due += behaviour.gap
            sent += 1
        await send({"type": "http.response.body", "body": data, "more_body": True})
    if behaviour.cut is not None and sent >= behaviour.cut:
        raise Cut


async def _live(receive: Receive, send: Send) -> None:
    while (await receive())["type"] != "lifespan.shutdown":
        await send({"type": "lifespan.startup.complete"})
    await send({"type": "lifespan.shutdown.complete"})


async def _body(receive: Receive) -> bytes:
    parts = bytearray()
    while True:
        message = await receive()
        parts += message.get("body", b"")
        if not message.get("more_body"):
            return bytes(parts)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _head(send: Send, status: int, headers: list[tuple[bytes, bytes]]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _reply(send: Send, status: int, body: Any, retry_after: str = "") -> None:
    raw = json.dumps(body, ensure_ascii=False).encode()
    headers = [_JSON, (b"content-length", str(len(raw)).encode())]
    if retry_after:
        headers.append((b"retry-after", retry_after.encode()))
    await _head(send, status, headers)
    await send({"type": "http.response.body", "body": raw})


async def _refuse(send: Send, status: int, body: Any) -> str:
    await _reply(send, status, body)
    return "refused"


def configured(application: Application, **options: Any) -> uvicorn.Server:
    """A uvicorn server for the program, quiet: a cut connection is meant, and no error to report."""
    return uvicorn.Server(
        uvicorn.Config(application, log_level="critical", access_log=False, timeout_graceful_shutdown=1, **options)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="The demo model.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--token", default="")
    given = parser.parse_args()
    configured(Application(given.token), host=given.host, port=given.port).run()


if __name__ == "__main__":
    main()
