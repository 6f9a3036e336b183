"""A mail server on loopback that keeps what it is given (the commands of RFC 5321 that a client needs)."""

from __future__ import annotations

import email
import email.policy
import socketserver
import threading
from email.message import EmailMessage
from types import TracebackType


class MailServer:
    """`with MailServer() as server:` takes mail at `server.port`; `wait_for(n)` returns the first n messages."""

    def __init__(self) -> None:
        self._messages: list[EmailMessage] = []
        self._arrived = threading.Condition()
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def wait_for(self, count: int, seconds: float = 60) -> list[EmailMessage]:
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self._messages) >= count, seconds), "no mail came"
            return list(self._messages)

    def __enter__(self) -> MailServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _keep(self, data: bytes) -> None:
        message = email.message_from_bytes(data, policy=email.policy.default)
        assert isinstance(message, EmailMessage)
        with self._arrived:
            self._messages.append(message)
            self._arrived.notify_all()

    def _handler(self) -> type[socketserver.StreamRequestHandler]:
        server = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.wfile.write(b"220 ready\r\n")
                for line in self.rfile:
                    command = line[:4].upper()
                    if command == b"QUIT":
                        break
                    if command == b"DATA":
                        self.wfile.write(b"354 go on\r\n")
                        server._keep(b"".join(iter(self.rfile.readline, b".\r\n")))
                    self.wfile.write(b"250 done\r\n")
                self.wfile.write(b"221 bye\r\n")

        return Handler
