"""Getting one address: through `kernel.egress`, conditionally, bounded in bytes and time while it streams."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
from django.conf import settings

from portal.kernel import egress
from portal.kernel.errors import ArchwayError, Invalid, TooLarge, Unavailable

CONNECT_SECONDS, TOTAL_SECONDS = 10.0, 30.0
PAGE_BYTES = 50 * 1_048_576
_ACCEPT = "text/html,application/xhtml+xml,application/pdf,text/plain;q=0.9,*/*;q=0.5"


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer. `address` is where redirects ended; `body` is unpacked and empty for 304 and errors."""

    address: str
    status: int
    content_type: str = ""
    charset: str = ""
    body: bytes = b""
    etag: str = ""
    last_modified: str = ""
    retry_after: float = 0.0


def fetch(address: str, *, etag: str = "", last_modified: str = "", limit: int = PAGE_BYTES) -> Fetched:
    """The answer of `address`; with `etag` or `last_modified` the server may say that nothing has changed (304).

    Raises `Invalid` (url_forbidden, url_invalid, redirect_loop), `TooLarge` (page_too_large) and `Unavailable`
    (host_unknown, site_unreachable, site_slow).
    """
    headers = {"User-Agent": settings.ARCHWAY["CRAWL_AGENT"], "Accept": _ACCEPT, "Accept-Encoding": "gzip"}
    if etag:
        headers["If-None-Match"] = etag
    if last_modified:
        headers["If-Modified-Since"] = last_modified
    try:
        with egress.client(timeout=CONNECT_SECONDS) as client, client.stream("GET", address, headers=headers) as answer:
            return _read(answer, limit, time.monotonic() + TOTAL_SECONDS)
    except httpx.TimeoutException as error:
        raise _slow(address) from error
    except httpx.TooManyRedirects as error:
        raise Invalid("This address leads in a circle.", code="redirect_loop") from error
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
        raise Unavailable("%(host)s did not answer.", code="site_unreachable", host=_host(address)) from error


def _host(address: str) -> str:
    try:
        return httpx.URL(address).host
    except httpx.InvalidURL:
        return address[:100]


def _slow(address: str) -> ArchwayError:
    return Unavailable("%(host)s took too long to answer.", code="site_slow", host=_host(address))


def _read(answer: httpx.Response, limit: int, deadline: float) -> Fetched:
    kind = answer.headers.get("Content-Type", "")
    found = Fetched(
        address=str(answer.url),
        status=answer.status_code,
        content_type=kind.partition(";")[0].strip().lower(),
        charset=answer.charset_encoding or "",
        etag=answer.headers.get("ETag", "")[:300],
        last_modified=answer.headers.get("Last-Modified", "")[:60],
        retry_after=_seconds(answer.headers.get("Retry-After", "")),
    )
    if answer.status_code != httpx.codes.OK:
        return found
    body = bytearray()
    packed = "gzip" in answer.headers.get("Content-Encoding", "").lower()
    for block in unpacked(answer.iter_raw(), limit) if packed else answer.iter_raw():
        body += block
        if len(body) > limit:
            raise too_large(limit)
        if time.monotonic() > deadline:
            raise _slow(str(answer.url))
    return Fetched(**{**{name: getattr(found, name) for name in Fetched.__slots__}, "body": bytes(body)})


def too_large(limit: int) -> TooLarge:
    return TooLarge(
        "This page is larger than the limit of %(limit)s MB.", code="page_too_large", limit=limit // 1_048_576
    )


def unpacked(blocks: Iterator[bytes], limit: int) -> Iterator[bytes]:
    """Gzip, taken apart a little at a time: a small answer that unpacks to gigabytes is noticed at the limit."""
    inflater = zlib.decompressobj(wbits=31)
    total = 0
    for block in blocks:
        data = block
        while data:
            try:
                piece = inflater.decompress(data, 65_536)
            except zlib.error as error:
                raise Unavailable("The site sent a broken answer.", code="site_unreachable") from error
            total += len(piece)
            if total > limit:
                raise too_large(limit)
            if piece:
                yield piece
            data = inflater.unconsumed_tail


def _seconds(raw: str) -> float:
    """`Retry-After` in seconds; a date is too rare to be worth reading and counts as half a minute."""
    return float(raw) if raw.isdigit() else 30.0 if raw else 0.0
