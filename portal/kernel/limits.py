"""The one rate limiter: a sliding window in Redis, per key, person or address; and whose address it is."""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings
from redis.exceptions import RedisError

from portal.kernel.errors import TooMany
from portal.kernel.events import client

logger = logging.getLogger(__name__)

# The count of the last `window` seconds is estimated from this window and the share of the one before
# it that is still inside; refused hits are not counted, so a caller who waits is let in again.
_SCRIPT = """
local now, window, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local slot = math.floor(now / window)
local current, before = KEYS[1] .. ':' .. slot, KEYS[1] .. ':' .. (slot - 1)
local inside = 1 - (now % window) / window
local used = tonumber(redis.call('GET', current) or 0)
local earlier = tonumber(redis.call('GET', before) or 0)
if used + earlier * inside >= limit then
  local wait
  if used >= limit then wait = window - (now % window)
  else wait = (inside - (limit - used - 1) / earlier) * window end
  return {math.floor(wait) + 1, 0}
end
redis.call('INCR', current)
redis.call('EXPIRE', current, window * 2)
return {0, math.max(0, math.floor(limit - used - 1 - earlier * inside))}
"""


@dataclass(frozen=True, slots=True)
class Room:
    """What is left after a request that passed: of `limit` requests a window, `remaining`, all again in `seconds`."""

    limit: int
    remaining: int
    seconds: int


def hit(name: str, subject: str, limit: int, window: int = 60) -> Room:
    """Count one request of `subject`; raises `TooMany` (with seconds to wait) above `limit` a window.

    The subject is hashed: limits must not become a list of addresses. With Redis away the request
    passes and a warning is logged: a broken limiter must not lock everybody out.
    """
    digest = hashlib.blake2s(subject.encode(), digest_size=12).hexdigest()
    try:
        answer = client().eval(_SCRIPT, 1, f"limit:{name}:{digest}", str(time.time()), str(window), str(limit))
    except (RedisError, OSError) as error:
        logger.warning("rate limiter is away: %s", type(error).__name__)
        return Room(limit, limit, 0)
    wait, remaining = (int(number) for number in answer)
    if wait:
        raise TooMany("Too many requests; try again in %(seconds)s seconds.", retry_after=wait, seconds=wait)
    return Room(limit, remaining, window if remaining < limit else 0)


def hit_address(name: str, address: str, limit: int, window: int = 60) -> None:
    """Count one request from an address; raises as `hit`.

    Of IPv6 the first 64 bits count: that much one customer is given, with 2^64 addresses in it to change between.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        hit(name, address, limit, window)
        return
    if isinstance(parsed, ipaddress.IPv6Address):
        parsed = parsed.ipv4_mapped or ipaddress.ip_network((int(parsed) >> 64 << 64, 64)).network_address
    hit(name, str(parsed), limit, window)


def client_address(peer: str, forwarded_for: str, trusted: Sequence[str] | None = None) -> str:
    """The address of the caller: the rightmost of `X-Forwarded-For` that is not one of our own proxies.

    The header counts only when the peer itself is a trusted proxy; its first entry is anybody's claim.
    """
    networks = [
        ipaddress.ip_network(net, strict=False)
        for net in (settings.ARCHWAY["TRUSTED_PROXIES"] if trusted is None else trusted)
    ]

    def is_trusted(address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in networks)

    if not is_trusted(peer):
        return peer
    for candidate in reversed([part.strip() for part in forwarded_for.split(",") if part.strip()]):
        try:
            ipaddress.ip_address(candidate)
        except ValueError:
            return peer
        if not is_trusted(candidate):
            return candidate
    return peer
