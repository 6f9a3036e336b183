"""What the gateway costs over calling LiteLLM directly: fifty streams at once, in one process, against a real server.

    python -m tests.bench.gateway_load [--streams 50] [--rounds 3] [--calls 2000] [--json]

Rounds of direct calls and of calls through the gateway take turns, so that both meet the same machine. Starts
its own PostgreSQL, Redis and model server (first token 300 ms, 40 ms a token, 200 tokens). Ends with 1 when a
call failed or its record is missing; the figures are for reading, as they depend on who else is at work.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

MODEL = "demo+ttft=300+gap=40+tokens=200"
TOKENS = 200
QUIET_SECONDS = 5
SHORT = "demo+tokens=5"


@dataclass(frozen=True)
class Timed:
    """One stream: seconds to the first token, and seconds a token after it."""

    first: float
    each: float


def p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1] if len(values) > 1 else values[0]


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def timed(open_stream: Callable[[], Any]) -> Timed:
    began = time.perf_counter()
    first = last = 0.0
    count = 0
    async for text in open_stream():
        if text:
            last = time.perf_counter()
            first = first or last
            count += 1
    if count != TOKENS:
        raise AssertionError(f"{count} tokens instead of {TOKENS}")
    return Timed(first - began, (last - first) / (count - 1))


async def at_once(streams: int, make: Callable[[], Awaitable[Timed]]) -> list[Timed | BaseException]:
    return await asyncio.gather(*(make() for _ in range(streams)), return_exceptions=True)


def bench(url: str, streams: int, rounds: int, calls: int) -> dict[str, Any]:
    """All figures. Django is set up; nothing else has run in this process."""
    from portal.gateway import chat, clients
    from portal.gateway.chat import Caller, ChatRequest
    from portal.gateway.endpoints import chat_endpoint
    from portal.gateway.models import ModelEndpoint, UsageRecord
    from portal.kernel import people
    from portal.kernel.principal import for_user

    workspace = people.create_workspace(None, "Load")
    user = people.create_person("load", "correct-horse-battery")
    people.set_membership(None, workspace, user)
    caller = Caller(for_user(user, door="command"), "load")
    request = ChatRequest([{"role": "user", "content": "Hello there"}])

    def endpoint(model: str) -> ModelEndpoint:
        row = ModelEndpoint.objects.create(
            name=model, kind="chat", provider="openai_compatible", model_name=model, base_url=f"{url}/v1"
        )
        return chat_endpoint(caller.principal, row.uid)

    long, short = endpoint(MODEL), endpoint(SHORT)

    async def through_gateway() -> Any:
        async with aclosing(chat.astream(caller, long, request)) as parts:
            async for part in parts:
                yield part.text

    async def directly() -> Any:
        litellm = await clients.runtime()
        answer = await litellm.acompletion(
            model=f"openai/{MODEL}",
            api_base=f"{url}/v1",
            api_key="none",
            messages=list(request.messages),
            max_tokens=4096,
            stream=True,
            stream_options={"include_usage": True},
        )
        async for chunk in answer:
            yield chunk.choices[0].delta.content if chunk.choices else ""

    async def main() -> dict[str, Any]:
        await timed(directly)  # imports and first connections are nobody's cost
        await timed(through_gateway)
        measured: dict[str, list[Timed | BaseException]] = {"direct": [], "gateway": []}
        for _ in range(rounds):
            for name, source in (("direct", directly), ("gateway", through_gateway)):
                # LiteLLM works on after a stream has ended, on its logs; that must not fall into the next round.
                await asyncio.sleep(QUIET_SECONDS)
                measured[name] += await at_once(streams, partial(timed, source))
        memory = []
        done = 0
        while done < calls:
            await asyncio.gather(*(chat.acomplete(caller, short, request) for _ in range(streams)))
            done += streams
            if done % 200 == 0:
                gc.collect()
                memory.append(round(resident_mb()))
        return {"measured": measured, "memory": memory, "calls": done}

    from asgiref.sync import async_to_sync

    found = async_to_sync(main)()
    records = UsageRecord.objects.filter(outcome="ok").count()
    return summary(found, records, expected=1 + streams * rounds + found["calls"])


def summary(found: dict[str, Any], records: int, expected: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, rows in found["measured"].items():
        good = [row for row in rows if isinstance(row, Timed)]
        result[name] = {
            "streams": len(rows),
            "failed": len(rows) - len(good),
            "first_token_ms": {
                "p50": round(statistics.median(row.first for row in good) * 1000, 1),
                "p95": round(p95([row.first for row in good]) * 1000, 1),
            },
            "token_ms": {
                "p50": round(statistics.median(row.each for row in good) * 1000, 3),
                "p95": round(p95([row.each for row in good]) * 1000, 3),
            },
        }
    direct, gateway = result["direct"], result["gateway"]
    result["added"] = {
        "first_token_ms_p95": round(gateway["first_token_ms"]["p95"] - direct["first_token_ms"]["p95"], 1),
        "token_ms_p95": round(gateway["token_ms"]["p95"] - direct["token_ms"]["p95"], 3),
    }
    result["records"] = {"written": records, "expected": expected}
    result["memory_mb"] = found["memory"]
    result["load_average"] = [round(value, 1) for value in os.getloadavg()]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="archway-load-") as folder:
        from portal.embedded.servers import EmbeddedServers
        from tests.support.model_server import in_a_process

        os.environ["ARCHWAY_DATA_DIR"] = str(Path(folder) / "data")
        os.environ["ARCHWAY_EGRESS_ALLOW"] = "127.0.0.0/8"
        os.environ["ARCHWAY_LOG_LEVEL"] = "ERROR"
        os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings"
        with EmbeddedServers(Path(folder) / "servers", durable=False) as servers, in_a_process() as url:
            os.environ["DATABASE_URL"], os.environ["REDIS_URL"] = servers.database_url, servers.redis_url
            import django
            from django.core.management import call_command

            django.setup()
            call_command("migrate", verbosity=0)
            result = bench(url, given.streams, given.rounds, given.calls)
            from django.db import connections

            connections.close_all()
    print(json.dumps(result, indent=None if given.json else 2))
    failed = result["gateway"]["failed"] or result["records"]["written"] != result["records"]["expected"]
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
