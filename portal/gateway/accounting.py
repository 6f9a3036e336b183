"""What a call costs, and the line in the account book that every call leaves, however it ends."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from portal.gateway import quotas
from portal.gateway.models import ModelEndpoint, Quota, UsageRecord
from portal.gateway.quotas import Account, Need
from portal.kernel import notify
from portal.kernel.models import Membership, User, new_uid
from portal.kernel.principal import Principal

logger = logging.getLogger(__name__)

_MILLION = Decimal(1_000_000)
NOTHING = Decimal(0)
Outcome = UsageRecord.Outcome


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks a model, and what for. `agent` and `run` are public ids of what asked, when something did.

    `bases` are the public ids of the bases whose text goes along.
    """

    principal: Principal
    purpose: str
    agent: str = ""
    run: str = ""
    bases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of a call. `cached` is a part of `tokens_in`; `estimated`: the provider did not say."""

    tokens_in: int = 0
    tokens_out: int = 0
    cached: int = 0
    estimated: bool = False

    @property
    def total(self) -> int:
        return self.tokens_in + self.tokens_out


@dataclass
class Line:
    """A call as it becomes a record: `endpoint` answers or answered, `asked` was asked for. Times are in seconds."""

    caller: Caller | None
    endpoint: ModelEndpoint
    asked: ModelEndpoint
    uid: str = field(default_factory=new_uid)
    at: datetime = field(default_factory=timezone.now)
    usage: TokenUsage = field(default_factory=TokenUsage)
    seconds: float = 0.0
    first_token_seconds: float | None = None
    outcome: Outcome = Outcome.ERROR
    code: str = ""
    attempts: list[dict[str, Any]] = field(default_factory=list)
    calls: int = 0

    @property
    def cost(self) -> Decimal:
        return cost(self.endpoint, self.usage, calls=self.calls)

    @property
    def spent(self) -> Need:
        return Need(self.usage.total, self.cost)


def cost(endpoint: ModelEndpoint, usage: TokenUsage, *, calls: int = 1) -> Decimal:
    """The price of so many tokens, in the installation's currency. Cached tokens without a price cost as others do."""
    cached_price = endpoint.cached_price or endpoint.input_price
    tokens = (
        (usage.tokens_in - usage.cached) * endpoint.input_price
        + usage.cached * cached_price
        + usage.tokens_out * endpoint.output_price
    )
    return tokens / _MILLION + endpoint.call_price * calls


def write_all(entries: Sequence[tuple[Line, Account]]) -> None:
    """Insert the records of calls that ended at the same time, in one statement."""
    if len(entries) > 1:
        try:
            with transaction.atomic():
                UsageRecord.objects.bulk_create([UsageRecord(**_columns(line, account)) for line, account in entries])
            return
        except IntegrityError:
            pass  # one of them is special: each for itself
    for line, account in entries:
        write(line, account)


def write(line: Line, account: Account) -> None:
    """Insert the record; a second time changes nothing."""
    try:
        with transaction.atomic():
            UsageRecord.objects.create(**_columns(line, account))
    except IntegrityError:
        # Written already, or a person, key or endpoint was deleted while the call ran.
        if not UsageRecord.objects.filter(uid=line.uid).exists():
            gone = {"user_id": None, "department_id": None, "key_id": None, "endpoint_id": None}
            UsageRecord.objects.create(**_columns(line, account) | gone)


def _columns(line: Line, account: Account) -> dict[str, Any]:
    return {
        **_of_whom(line, account),
        "uid": line.uid,
        "at": line.at,
        "tokens_in": line.usage.tokens_in,
        "tokens_out": line.usage.tokens_out,
        "tokens_cached": line.usage.cached,
        "estimated": line.usage.estimated,
        "cost": line.cost,
        "milliseconds": round(line.seconds * 1000),
        "first_token_ms": None if line.first_token_seconds is None else round(line.first_token_seconds * 1000),
        "outcome": line.outcome,
        "code": line.code,
        "attempts": line.attempts,
    }


def _of_whom(line: Line, account: Account) -> dict[str, Any]:
    caller = line.caller
    assert caller is not None  # only calls of somebody have an account
    return {
        "workspace_id": account.workspace_id,
        "user_id": account.user_id,
        "department_id": account.department_id,
        "key_id": account.key_id,
        "endpoint_id": line.endpoint.pk,
        "kind": line.endpoint.kind,
        "purpose": caller.purpose[:30],
        "door": caller.principal.door,
        "agent": caller.agent,
        "run": caller.run,
        "bases": list(caller.bases),
        "model_name": line.endpoint.model_name[:200],
    }


def tell_of_quotas(crossed: Iterable[tuple[Quota, int, int]]) -> None:
    """Tell the admins, and the person whose quota it is, of a warning line or an end that was crossed just now."""
    for quota, _, after in crossed:
        reached = after >= quotas.limit_of(quota)
        admins = Membership.objects.filter(workspace_id=quota.workspace_id, role=Membership.Role.ADMIN)
        people = set(admins.filter(user__is_active=True).values_list("user_id", flat=True))
        if quota.user_id:
            people.add(quota.user_id)
        if quota.key is not None:
            people.add(quota.key.owner_id)
        notify.tell(
            User.objects.filter(pk__in=people),
            "quota.reached" if reached else "quota.warning",
            workspace_id=quota.workspace_id,
            base_ids=[],
            quota=str(quota),
            percent=round(100 * after / quotas.limit_of(quota)),
            reset=timezone.localtime(quotas.period_end(quota)).strftime("%Y-%m-%d %H:%M"),
        )


def note(line: Line, account: Account, most: TokenUsage) -> dict[str, Any]:
    """What is kept of a call while it runs, so that `write_lost` can record it when its process is killed."""
    return {**_of_whom(line, account), "at": line.at.isoformat(), "tokens_in": most.tokens_in}


def write_lost(uid: str, noted: dict[str, Any]) -> None:
    """Record a call whose process was killed: the question was paid for, the answer nobody knows."""
    endpoint = ModelEndpoint.objects.filter(pk=int(noted["endpoint_id"])).first()
    usage = TokenUsage(tokens_in=int(noted.get("tokens_in", 0)), estimated=True)
    row = {
        **noted,
        "at": datetime.fromisoformat(noted["at"]),
        "endpoint_id": endpoint.pk if endpoint else None,
    }
    try:
        with transaction.atomic():
            UsageRecord.objects.get_or_create(
                uid=uid,
                defaults={
                    **row,
                    "estimated": True,
                    "cost": cost(endpoint, usage) if endpoint else NOTHING,
                    "outcome": Outcome.LOST,
                    "code": "process_ended",
                },
            )
    except IntegrityError:
        logger.warning("a lost call belongs to nobody any more: %s", uid)
