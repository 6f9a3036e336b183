"""The outside world of model providers: the demo model's server, in a thread or in a process of its own."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from types import TracebackType

from portal.demo_model.server import Application, Seen, configured
from portal.embedded import locations

PATIENCE = 60.0


class ModelServer:
    """`with ModelServer() as models:` serves every provider's format at `models.url` (OpenAI's at `models.v1`)."""

    def __init__(self, token: str = "") -> None:
        self._changed = threading.Condition()
        self.application = Application(token, on_seen=self._wake, on_begun=self._wake)
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(512)
        self._server = configured(self.application)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    @property
    def v1(self) -> str:
        return f"{self.url}/v1"

    @property
    def seen(self) -> list[Seen]:
        return list(self.application.seen)

    def wait_for(self, condition: Callable[[list[Seen]], bool], seconds: float = PATIENCE) -> list[Seen]:
        """The requests that ended, once `condition` of them holds; fails when it never does."""
        with self._changed:
            if not self._changed.wait_for(lambda: condition(self.seen), seconds):
                raise AssertionError([(seen.path, seen.ended) for seen in self.seen])
        return self.seen

    def wait_until_running(self, count: int, seconds: float = PATIENCE) -> None:
        """Returns once `count` requests are being answered at the same time."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.application.running >= count, seconds), "nobody asked"

    def _wake(self, _: Seen | None = None) -> None:
        with self._changed:
            self._changed.notify_all()

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(10)
        self._socket.close()


@contextlib.contextmanager
def in_a_process() -> Iterator[str]:
    """The same as a process of its own, for load: yields the URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "portal.demo_model.server", "--port", str(port)]
    with subprocess.Popen(command, cwd=locations.REPOSITORY) as process:
        try:
            _wait(port, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    pause = threading.Event()
    for _ in range(int(PATIENCE / 0.05)):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if process.poll() is not None:
            break
        pause.wait(0.05)  # another process's port can only be asked again
    raise AssertionError("the model server did not start")
