"""How much may still be spent: amounts are reserved before a call and settled after it.

The counters stand in Redis, because two hundred calls at once must not wait for one row; the truth is the
account book, from which a missing counter is made. A call is let in when what is used, what others have reserved
and what it may need itself stay within the limit. When only what others reserved is in the way, it waits for
them; and when nobody else is at work, the last one may go over. So at most one call goes over a limit.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import F, Q, Sum
from django.utils import timezone

from portal.gateway import scripts
from portal.gateway.loops import Outside
from portal.gateway.models import Quota, UsageRecord
from portal.kernel.errors import TooMany
from portal.kernel.models import Membership
from portal.kernel.principal import Principal

logger = logging.getLogger(__name__)

# Money is counted in millionths, because Redis counts whole numbers.
MILLIONTHS = 1_000_000
ACCOUNT_SECONDS = 5.0
WAIT_SECONDS = 30.0
# Every call under way: its note, and when its process must be dead.
_OPEN = "limit:calls"
_DAYS_KEPT = {Quota.Period.DAY: 3, Quota.Period.MONTH: 40}

# Both scripts may be sent again when the answer got lost: a call that is known is let in, one that is not is settled.
_RESERVE = """
local time = redis.call('TIME')
local now = tonumber(time[1])
local call, lease, count = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if redis.call('ZSCORE', KEYS[2 * count + 1], call) then return {'in', 0} end
for i = 1, count do
  local used = redis.call('HGET', KEYS[2 * i - 1], 'used')
  if not used then return {'missing', i} end
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2 * i], '-inf', now)) do
    redis.call('HINCRBY', KEYS[2 * i - 1], 'reserved', -tonumber(string.match(member, ':(%d+)$')))
    redis.call('ZREM', KEYS[2 * i], member)
  end
  local reserved = tonumber(redis.call('HGET', KEYS[2 * i - 1], 'reserved') or 0)
  local amount, limit = tonumber(ARGV[3 * i + 1]), tonumber(ARGV[3 * i + 2])
  if tonumber(used) >= limit then return {'over', i} end
  if tonumber(used) + reserved + amount > limit and reserved > 0 then return {'wait', i} end
end
for i = 1, count do
  local amount, keep = ARGV[3 * i + 1], tonumber(ARGV[3 * i + 3])
  redis.call('HINCRBY', KEYS[2 * i - 1], 'reserved', amount)
  redis.call('ZADD', KEYS[2 * i], now + lease, call .. ':' .. amount)
  redis.call('EXPIRE', KEYS[2 * i - 1], keep)
  redis.call('EXPIRE', KEYS[2 * i], keep)
end
redis.call('ZADD', KEYS[2 * count + 1], now + lease, call)
redis.call('HSET', KEYS[2 * count + 2], call, ARGV[3 * count + 4])
return {'in', 0}
"""
_SETTLE = """
local call, count = ARGV[1], tonumber(ARGV[2])
local known = redis.call('ZREM', KEYS[2 * count + 1], call)
redis.call('HDEL', KEYS[2 * count + 2], call)
local sums = {}
for i = 1, count do
  local held, actual = ARGV[2 * i + 1], ARGV[2 * i + 2]
  if redis.call('ZREM', KEYS[2 * i], call .. ':' .. held) == 1 then
    redis.call('HINCRBY', KEYS[2 * i - 1], 'reserved', -tonumber(held))
  end
  if known == 1 and redis.call('HEXISTS', KEYS[2 * i - 1], 'used') == 1 then
    sums[i] = redis.call('HINCRBY', KEYS[2 * i - 1], 'used', actual)
  else
    sums[i] = -1
  end
end
return sums
"""
# A counter only rises: of two who fill it at once, the one that read later has seen more.
_FILL = """
local used = tonumber(redis.call('HGET', KEYS[1], 'used') or -1)
if tonumber(ARGV[1]) > used then redis.call('HSET', KEYS[1], 'used', ARGV[1]) end
redis.call('EXPIRE', KEYS[1], tonumber(ARGV[2]))
return 0
"""


@dataclass(frozen=True, slots=True)
class Need:
    """What a call may need at most: tokens, and money in the installation's currency."""

    tokens: int
    money: Decimal

    def of(self, unit: str) -> int:
        """In the counter's unit, rounded up."""
        return self.tokens if unit == Quota.Unit.TOKENS else int(-(-self.money * MILLIONTHS // 1))


@dataclass(frozen=True, slots=True)
class Account:
    """Who pays: a person in a department, through a key or not, and the quotas that this touches.

    Without a person the workspace pays, within its own quotas.
    """

    workspace_id: int
    user_id: int | None
    department_id: int | None
    key_id: int | None
    quotas: tuple[Quota, ...]


@dataclass(frozen=True, slots=True)
class Reservation:
    """Amounts held for a call: (quota, key of its counter, amount)."""

    call: str
    held: tuple[tuple[Quota, str, int], ...] = ()


def known_account(principal: Principal) -> Account | None:
    """The account as it was a few seconds ago at most, without the database; None when it must be looked up."""
    until, account = _accounts.get(_name(principal), (0.0, None))
    return account if until > time.monotonic() else None


def account_of(principal: Principal) -> Account:
    """The account of an asker; changes of quotas and departments are seen after at most 5 seconds."""
    if account := known_account(principal):
        return account
    row = (
        Membership.objects.filter(user_id=principal.user_id, workspace_id=principal.workspace_id)
        .values_list("department_id", "department__lineage")
        .first()
    )
    department, lineage = row if row else (None, None)
    subjects = Q(subject=Quota.Subject.WORKSPACE) | Q(subject=Quota.Subject.PERSON, user_id=principal.user_id)
    subjects |= Q(subject=Quota.Subject.DEPARTMENT, department_id__in=lineage or [])
    if principal.key_id is not None:
        subjects |= Q(subject=Quota.Subject.KEY, key_id=principal.key_id)
    quotas = Quota.objects.filter(subjects, workspace_id=principal.workspace_id, enabled=True).order_by("pk")
    account = Account(principal.workspace_id, principal.user_id or None, department, principal.key_id, tuple(quotas))
    now = time.monotonic()
    with _lock:
        for stale in [name for name, (until, _) in _accounts.items() if until <= now]:
            del _accounts[stale]
        _accounts[_name(principal)] = (now + ACCOUNT_SECONDS, account)
    return account


def forget_accounts() -> None:
    """Quotas have changed in this process."""
    with _lock:
        _accounts.clear()


async def reserve(
    account: Account,
    call: str,
    need: Need,
    *,
    note: str,
    lease_seconds: float,
    outside: Outside,
    patience: float = WAIT_SECONDS,
) -> Reservation:
    """Hold what a call may need of every quota. Raises `TooMany` (quota_exceeded) with the time of its reset.

    `note` tells `lost_calls` of a call that never settles, because its process was killed. Without Redis
    nothing is held, and a quota stops calls once the account book says that it is used up.
    """
    now = timezone.now()
    held = tuple((quota, counter_key(quota, now), need.of(quota.unit)) for quota in account.quotas)
    arguments: list[object] = [call, int(lease_seconds), len(held)]
    for quota, _, amount in held:
        arguments += [amount, limit_of(quota), _DAYS_KEPT[Quota.Period(quota.period)] * 86_400]
    arguments.append(note)
    clock = asyncio.get_running_loop()
    deadline, pause = clock.time() + patience, 0.01
    while True:
        answer = await scripts.run_script(_RESERVE, _keys(held), *arguments)
        if answer is None:
            await outside.database(lambda: _refuse_used_up(account))
            return Reservation(call)
        verdict, place = answer[0], int(answer[1])
        if verdict == b"in":
            return Reservation(call, held)
        quota, key, _ = held[place - 1]
        if verdict == b"missing":
            await _fill(quota, key, outside)
        elif verdict == b"over" or clock.time() >= deadline:
            raise exceeded(quota)
        else:
            await asyncio.sleep(pause)
            pause = min(pause * 1.3, 0.2)


async def settle(reservation: Reservation, spent: Need) -> list[tuple[Quota, int, int]]:
    """Turn what was held into what was spent; the quotas whose warning or end this call has crossed.

    Each is (quota, used before, used after), in the counter's unit.
    """
    arguments: list[object] = [reservation.call, len(reservation.held)]
    for quota, _, amount in reservation.held:
        arguments += [amount, spent.of(quota.unit)]
    sums = await scripts.run_script(_SETTLE, _keys(reservation.held), *arguments)
    crossed = []
    for (quota, _, _), after in zip(reservation.held, sums or [], strict=False):
        before = int(after) - spent.of(quota.unit)
        if after >= 0 and any(before < line <= after for line in (warn_line(quota), limit_of(quota))):
            crossed.append((quota, before, int(after)))
    return crossed


async def lost_calls() -> dict[str, str]:
    """The notes of calls whose lease has ended without a settlement, by the call's name."""
    redis: Any = scripts.client()
    due = [name.decode() for name in await redis.zrangebyscore(f"{_OPEN}:due", "-inf", time.time(), start=0, num=500)]
    notes = await redis.hmget(_OPEN, due) if due else []
    return {name: (note or b"").decode() for name, note in zip(due, notes, strict=True)}


def exceeded(quota: Quota) -> TooMany:
    """The refusal, with the time at which the quota begins anew."""
    end = period_end(quota)
    seconds = max(1, int((end - timezone.now()).total_seconds()))
    return TooMany(
        'The quota "%(quota)s" is used up until %(reset)s.',
        code="quota_exceeded",
        retry_after=seconds,
        quota=str(quota),
        reset=timezone.localtime(end).strftime("%Y-%m-%d %H:%M"),
    )


def period_start(quota: Quota, now: datetime | None = None) -> datetime:
    """When the quota's day or month began, in TIME_ZONE."""
    day = timezone.localtime(now).replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    return day.replace(day=1) if quota.period == Quota.Period.MONTH else day


def period_end(quota: Quota) -> datetime:
    start = period_start(quota)
    # Noon of the day after, cut to its midnight: days of 23 or 25 hours are days too.
    far = start + (timedelta(days=32) if quota.period == Quota.Period.MONTH else timedelta(hours=36))
    return period_start(quota, far)


def used(quota: Quota, now: datetime | None = None) -> Decimal:
    """What the account book says was spent in the running period, in tokens or money."""
    rows = UsageRecord.objects.filter(workspace_id=quota.workspace_id, at__gte=period_start(quota, now))
    if quota.subject == Quota.Subject.DEPARTMENT:
        rows = rows.filter(department__lineage__contains=[quota.department_id])
    elif quota.subject == Quota.Subject.PERSON:
        rows = rows.filter(user=quota.user)
    elif quota.subject == Quota.Subject.KEY:
        rows = rows.filter(key=quota.key)
    amount: Any = F("tokens_in") + F("tokens_out") if quota.unit == Quota.Unit.TOKENS else F("cost")
    return Decimal(rows.aggregate(sum=Sum(amount))["sum"] or 0)


def counter_key(quota: Quota, now: datetime) -> str:
    """The Redis key of a quota's counter in the period that `now` lies in."""
    return f"limit:quota:{quota.pk}:{period_start(quota, now):%Y%m%d}"


def warn_line(quota: Quota) -> int:
    """Where the soft warning is, in the counter's unit."""
    return limit_of(quota) * quota.warn_percent // 100


def limit_of(quota: Quota) -> int:
    """The limit in the counter's unit."""
    return int(quota.limit if quota.unit == Quota.Unit.TOKENS else quota.limit * MILLIONTHS)


def _keys(held: Sequence[tuple[Quota, str, int]]) -> list[str]:
    return [*(key for _, name, _ in held for key in (name, f"{name}:open")), f"{_OPEN}:due", _OPEN]


async def _fill(quota: Quota, key: str, outside: Outside) -> None:
    spent = await outside.database(lambda: used(quota))
    await scripts.run_script(
        _FILL,
        [key],
        Need(int(spent), spent).of(quota.unit),
        _DAYS_KEPT[Quota.Period(quota.period)] * 86_400,
    )


def _refuse_used_up(account: Account) -> None:
    for quota in account.quotas:
        if used(quota) >= quota.limit:
            raise exceeded(quota)


def _name(principal: Principal) -> tuple[int, int, int | None]:
    return (principal.workspace_id, principal.user_id, principal.key_id)


_accounts: dict[Any, tuple[float, Account]] = {}
_lock = threading.Lock()
