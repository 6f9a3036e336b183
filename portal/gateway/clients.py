"""The HTTP clients that LiteLLM is handed, so that every connection is judged by egress and none outlives its loop."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import aiohttp
import aiohttp.abc
import httpx

from portal.gateway import hops, litellm_runtime
from portal.gateway.addresses import base_url
from portal.gateway.loops import PerLoop
from portal.gateway.models import ModelEndpoint
from portal.gateway.providers import provider_of
from portal.kernel import egress
from portal.kernel.secrets import Secret

# The supervisor's own process; no tenant can give this address.
_OWN_MACHINE = egress.Allowed.read(["127.0.0.0/8", "::1/128"])


@dataclass
class Trip:
    """Whether a request got as far as being sent: what fails before that is the request's own fault."""

    began: bool = False


_trip: ContextVar[Trip | None] = ContextVar("trip", default=None)


def watched_trip() -> Trip:
    """What becomes of the requests that this task sends from now on."""
    trip = Trip()
    _trip.set(trip)
    return trip


class _JudgingResolver(aiohttp.abc.AbstractResolver):
    """Names are looked up by the judge, and the connection goes to the very address that was judged."""

    def __init__(self, allowed: egress.Allowed | None) -> None:
        self._allowed = allowed

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[aiohttp.abc.ResolveResult]:
        _, _, address = await asyncio.to_thread(egress.judge, f"http://{host}:{port}", self._allowed)
        found: aiohttp.abc.ResolveResult = {
            "hostname": host,
            "host": address,
            "port": port,
            "family": socket.AF_INET6 if ":" in address else socket.AF_INET,
            "proto": 0,
            "flags": socket.AI_NUMERICHOST,
        }
        return [found]

    async def close(self) -> None:
        """Nothing is held."""


@cache
def _transport_class() -> Any:
    from litellm.llms.custom_httpx.aiohttp_transport import LiteLLMAiohttpTransport

    class Judged(LiteLLMAiohttpTransport):
        """LiteLLM's own transport, whose parser in C makes a token half as dear, under our rules of egress."""

        def __init__(self, allowed: egress.Allowed | None) -> None:
            self._allowed = allowed
            super().__init__(client=self._session)

        def _session(self) -> aiohttp.ClientSession:
            connector = aiohttp.TCPConnector(
                limit=1000,
                resolver=_JudgingResolver(self._allowed),
                ssl=httpx.create_ssl_context(trust_env=False),
                keepalive_timeout=30,
            )
            return aiohttp.ClientSession(connector=connector, trust_env=False, cookie_jar=aiohttp.DummyCookieJar())

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if (trip := _trip.get()) is not None:
                trip.began = True
            if _is_address(request.url.host):
                # Bare addresses never reach a resolver; judging them looks nothing up.
                egress.judge(str(request.url), self._allowed)
            response: httpx.Response = await super().handle_async_request(request)
            return response

    return Judged


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


@dataclass
class Clients:
    """One loop's clients for addresses that people gave (`allowed` None), or for our own processes."""

    allowed: egress.Allowed | None = None

    @cached_property
    def _transport(self) -> httpx.AsyncBaseTransport:
        transport: httpx.AsyncBaseTransport = _transport_class()(self.allowed)
        return transport

    @cached_property
    def http(self) -> httpx.AsyncClient:
        # No redirects: an API does not move, and headers that hold keys would be sent along.
        return httpx.AsyncClient(transport=self._transport, follow_redirects=False, trust_env=False)

    @cached_property
    def handler(self) -> Any:
        """LiteLLM's wrapper of an httpx client."""
        from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler

        handler = AsyncHTTPHandler(transport=self._transport)
        handler.client = self.http
        return handler


_outside: PerLoop[Clients] = PerLoop(Clients)
_own: PerLoop[Clients] = PerLoop(lambda: Clients(_OWN_MACHINE))


def clients_for(endpoint: ModelEndpoint) -> Clients:
    """The running loop's clients for this endpoint."""
    return (_own if endpoint.provider == ModelEndpoint.Provider.DEMO else _outside).here()


@cache
def _openai_client() -> Any:
    from openai import AsyncOpenAI

    class AskedOnce(AsyncOpenAI):
        """LiteLLM sets `max_retries` to 2 on any client that it is handed; whether to try again is ours to say."""

        @property
        def max_retries(self) -> int:
            return 0

        @max_retries.setter
        def max_retries(self, value: int) -> None:
            pass

    return AskedOnce


async def runtime() -> Any:
    """LiteLLM, imported in a thread the first time: seconds in which this loop has other streams to serve."""
    return await asyncio.to_thread(litellm_runtime.load) if not litellm_runtime.loaded() else litellm_runtime.load()


def arguments(endpoint: ModelEndpoint, secret: Secret) -> dict[str, Any]:
    """What every call of LiteLLM for this endpoint is given: address, key, client and timeouts."""
    provider = provider_of(endpoint)
    clients = clients_for(endpoint)
    url = base_url(endpoint)
    # The client insists on a key, also where the server wants none.
    key = secret.expose() or "none"
    longest = max(endpoint.first_token_seconds, endpoint.timeout_seconds, endpoint.total_seconds)
    given: dict[str, Any] = {
        "api_base": url,
        "api_key": key,
        # Waiting for tokens is timed by `calls`, which knows what was delivered.
        "timeout": httpx.Timeout(longest, connect=endpoint.connect_seconds, pool=endpoint.connect_seconds),
        "client": clients.handler,
        "drop_params": True,
        **provider.always,
    }
    if provider.client == "openai" and endpoint.kind != ModelEndpoint.Kind.RERANK:
        headers = hops.headers_for(endpoint)
        given["client"] = _openai_client()(api_key=key, base_url=url, http_client=clients.http, default_headers=headers)
    return given
