"""When a host may be asked: what its robots.txt allows, and one request at a time with a pause between."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings
from protego import Protego
from redis.exceptions import RedisError

from knowledge.sources.addresses import origin
from knowledge.sources.fetching import TOTAL_SECONDS, fetch
from portal.kernel.errors import TooLarge, Unavailable
from portal.kernel.events import client

# RFC 9309 lets a crawler stop reading after 500 KiB, and keep an answer for a day; an hour follows changes sooner.
ROBOTS_BYTES, ROBOTS_SECONDS = 512 * 1024, 3600
LONGEST_DELAY = 60.0
_TAKE = """
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
return math.max(redis.call('PTTL', KEYS[1]), 50)
"""
_LEAVE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
"""


@dataclass(frozen=True, slots=True)
class Rules:
    """What one host's robots.txt says to us."""

    text: str

    def allows(self, address: str) -> bool:
        return bool(self._parsed().can_fetch(address, settings.ARCHWAY["CRAWL_AGENT"]))

    @property
    def delay(self) -> float:
        """Seconds between two requests: ours, or the host's wish when that is longer, at most a minute."""
        wished = self._parsed().crawl_delay(settings.ARCHWAY["CRAWL_AGENT"]) or 0.0
        return min(max(float(wished), float(settings.ARCHWAY["CRAWL_DELAY"])), LONGEST_DELAY)

    @property
    def sitemaps(self) -> list[str]:
        return list(self._parsed().sitemaps)[:20]

    def _parsed(self) -> Protego:
        return Protego.parse(self.text)


def rules_of(address: str) -> Rules:
    """The rules of an address's host, kept for an hour.

    A host without the file allows everything; one that can not say (5xx, unreachable) allows nothing for now:
    raises `Unavailable` (robots_unreachable). RFC 9309, section 2.3.1.
    """
    place = f"crawl:robots:{_digest(origin(address))}"
    try:
        kept = client().get(place)
    except RedisError as error:
        raise _away() from error
    if isinstance(kept, bytes):
        return Rules(json.loads(kept))
    rules = Rules(_read(address))
    client().set(place, json.dumps(rules.text), ex=ROBOTS_SECONDS)
    return rules


def _read(address: str) -> str:
    try:
        answer = fetch(f"{origin(address)}/robots.txt", limit=ROBOTS_BYTES)
    except TooLarge:
        return ""
    except Unavailable as error:
        if error.code == "host_unknown":
            raise
        raise _unreachable(address) from error
    if answer.status >= 500 or answer.status == 429:
        raise _unreachable(address)
    return answer.body.decode("utf-8", "replace") if answer.status == 200 else ""


def _unreachable(address: str) -> Unavailable:
    return Unavailable(
        "%(host)s can not say at present what may be fetched (robots.txt).",
        code="robots_unreachable",
        host=urlsplit(address).hostname or "",
    )


def _away() -> Unavailable:
    return Unavailable("The portal's memory of what was asked when is away for now.", code="redis_away")


def _digest(text: str) -> str:
    return hashlib.blake2s(text.encode(), digest_size=12).hexdigest()


class Turn:
    """A host that nobody else asks until `leave`, and `delay` seconds more."""

    def __init__(self, address: str, holder: str) -> None:
        self._place = f"crawl:turn:{_digest(urlsplit(address).netloc)}"
        self._holder = holder

    def take(self) -> float:
        """0.0 when the host may be asked now, else the seconds until somebody may look again."""
        longest = int((TOTAL_SECONDS + 60) * 1000)
        try:
            return int(client().eval(_TAKE, 1, self._place, self._holder, str(longest))) / 1000
        except RedisError as error:
            raise _away() from error

    def leave(self, delay: float) -> None:
        """Let others ask after `delay` seconds."""
        try:
            client().eval(_LEAVE, 1, self._place, self._holder, str(max(1, int(delay * 1000))))
        except RedisError as error:
            raise _away() from error
