"""Live events: small JSON hints about what changed, sent on commit. A page re-reads state from the database.

Each topic keeps its last events in a Redis stream for a few minutes, so that a socket that comes back
can be told what it missed (`after`), or that it has to start anew.
"""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import redis
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import transaction
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

logger = logging.getLogger(__name__)

# One step in Redis: two processes must not add their events in another order than their numbers.
_APPEND = """
local number = redis.call('INCR', KEYS[2])
redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], number .. '-0', 'event', ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[3])
redis.call('EXPIRE', KEYS[2], 604800)
return number
"""
KEPT = 300
TTL_SECONDS = 900
_client: redis.Redis | None = None


def client() -> redis.Redis:
    """The process-wide Redis client for events, limits and locks.

    One quick retry, for connections that a restart broke: every request asks it, so while Redis is away it
    must say so at once (the library's own pauses add up to four seconds).
    """
    global _client
    if _client is None:
        _client = redis.Redis.from_url(
            settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=1, retry=Retry(NoBackoff(), 1)
        )
    return _client


def group_name(topic: str) -> str:
    """The channel layer's name of a topic (`base:7x…` → `events.base.7x…`)."""
    return "events." + re.sub(r"[^A-Za-z0-9.\-]", ".", topic)


def publish(topic: str, event: dict[str, Any]) -> None:
    """Send `event` to everyone who follows `topic` once the transaction commits. Never fails the caller."""
    transaction.on_commit(lambda: _send(topic, event), robust=True)


def _send(topic: str, event: dict[str, Any]) -> None:
    key = f"events:{topic}"
    try:
        number = int(client().eval(_APPEND, 2, key, f"{key}:seq", json.dumps(event), str(KEPT), str(TTL_SECONDS)))
        frame = _frame(topic, number, event)
        layer = get_channel_layer()
        if layer is not None:
            async_to_sync(layer.group_send)(group_name(topic), {"type": "event", "frame": frame})
    except (RedisError, OSError) as error:
        # The database holds the truth; pages poll when frames stay away.
        logger.warning("event for %s not sent: %s", topic.partition(":")[0], type(error).__name__)


def _frame(topic: str, number: int, event: dict[str, Any]) -> dict[str, Any]:
    return {"v": 1, "seq": number, "topic": topic, **event}


def missed(topic: str, after: int) -> list[dict[str, Any]] | None:
    """The events after number `after`, or None when some are no longer kept (the page must re-read)."""
    key = f"events:{topic}"
    connection = client()
    latest = int(connection.get(f"{key}:seq") or 0)
    if after == latest:
        return []
    if after > latest:
        return None
    rows: Any = connection.xrange(key, min=f"({after}-0" if after else "-")
    frames = [_frame(topic, int(key.partition(b"-")[0]), json.loads(fields[b"event"])) for key, fields in rows]
    whole = bool(frames) and frames[0]["seq"] == after + 1
    return frames if whole else None


def latest_number(topic: str) -> int:
    """The number of the newest event of a topic; 0 before the first."""
    return int(client().get(f"events:{topic}:seq") or 0)
