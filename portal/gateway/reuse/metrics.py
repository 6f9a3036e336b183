"""How often answers were used again: counts by workspace and day in Redis, kept for three weeks."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Any

from django.utils import timezone
from redis.exceptions import RedisError

from portal.gateway.scripts import run_script
from portal.kernel.events import client

OUTCOMES = ("hit", "miss", "refused", "away")
_SECONDS = 21 * 86_400
_COUNT = "redis.call('HINCRBY', KEYS[1], ARGV[1], 1) redis.call('EXPIRE', KEYS[1], tonumber(ARGV[2])) return 1"


async def count(workspace_id: int, outcome: str) -> None:
    """One more question that was looked up; without Redis nothing is counted."""
    await run_script(_COUNT, [_key(timezone.localdate())], f"{workspace_id}:{outcome}", _SECONDS)


def by_day(days: Iterable[date], workspace_id: int | None) -> dict[date, dict[str, int]]:
    """day → outcome → how often, in one workspace or (None) in all; empty without Redis."""
    found: dict[date, dict[str, int]] = {}
    for day in days:
        try:
            rows: Any = client().hgetall(_key(day))
        except (RedisError, OSError):
            return {}
        sums = dict.fromkeys(OUTCOMES, 0)
        for field, number in rows.items():
            workspace, _, outcome = (field.decode() if isinstance(field, bytes) else str(field)).partition(":")
            if outcome in sums and workspace_id in {None, int(workspace)}:
                sums[outcome] += int(number)
        if any(sums.values()):
            found[day] = sums
    return found


def _key(day: date) -> str:
    return f"limit:reuse:{day.isoformat()}"
