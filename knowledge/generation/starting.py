"""What people do about generating: see what it will cost, start it, look how far it is, stop it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Count, Max, QuerySet, Sum

from knowledge import background, outside
from knowledge.generation import passages
from knowledge.models import Generation, KnowledgeBase
from portal.gateway import accounting, quotas
from portal.gateway.accounting import TokenUsage
from portal.gateway.endpoints import chat_endpoint
from portal.gateway.models import ModelEndpoint, Quota
from portal.kernel import audit
from portal.kernel.errors import Conflict, Invalid
from portal.kernel.principal import Principal

MOST_EACH = 10
MOST_CASES = 500
# Tokens of the rules around a passage, and of a question that is written, on the safe side.
_AROUND = 350
_A_QUESTION = 40


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to make. `each`: questions of a passage at most; `most`: passages at most, 0 for all; `again`: also of texts
    that were worked on before."""

    kind: str
    endpoint: str = ""
    each: int = 3
    most: int = 0
    again: bool = False


@dataclass(frozen=True, slots=True)
class Estimate:
    """What it will take at most, in tokens and in the installation's currency.

    `allowed` False: the base is sensitive and its text must not go to this model. `left` is what the tightest quota
    still allows, in tokens or money as `unit` says; None without quotas.
    """

    endpoint: ModelEndpoint
    passages: int
    tokens_in: int
    tokens_out: int
    cost: Decimal
    leaves_house: bool
    allowed: bool
    left: Decimal | None = None
    unit: str = ""
    enough: bool = True

    def as_json(self) -> dict[str, Any]:
        """JSON-ready; money as text."""
        return {
            "endpoint": self.endpoint.uid,
            "model": self.endpoint.name,
            "passages": self.passages,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "cost": str(self.cost),
            "currency": settings.ARCHWAY["CURRENCY"],
            "leaves_house": self.leaves_house,
            "allowed": self.allowed,
            "left": None if self.left is None else str(self.left),
            "unit": self.unit,
            "enough": self.enough,
        }


def estimate(principal: Principal, base: KnowledgeBase, wanted: Wanted) -> Estimate:
    """What it will cost, before anything is asked. Raises `Invalid` (generation_invalid, endpoint_unknown,
    no_chat_model)."""
    _check(wanted)
    endpoint = chat_endpoint(principal, wanted.endpoint)
    number, tokens = _open(principal, base, wanted)
    each = 1 if wanted.kind == Generation.Kind.CASES else wanted.each
    usage = TokenUsage(tokens + _AROUND * number, _A_QUESTION * each * number, estimated=True)
    cost = accounting.cost(endpoint, usage, calls=number)
    left, unit, enough = _left(principal, usage, cost)
    return Estimate(
        endpoint=endpoint,
        passages=number,
        tokens_in=usage.tokens_in,
        tokens_out=usage.tokens_out,
        cost=cost,
        leaves_house=outside.leaves_house(endpoint),
        allowed=not outside.forbidding([base], endpoint),
        left=left,
        unit=unit,
        enough=enough,
    )


def _open(principal: Principal, base: KnowledgeBase, wanted: Wanted) -> tuple[int, int]:
    """How many passages are to be worked on, and their tokens."""
    rows = passages.open_passages(principal, base, wanted.kind)
    if wanted.again:
        rows = passages.all_passages(principal, base)
    # Passages with the same text are worked on once.
    texts = rows.order_by().values("sha256").annotate(size=Max("token_count"))
    found = texts.aggregate(number=Count("sha256"), tokens=Sum("size"))
    number, tokens = found["number"], found["tokens"] or 0
    taken = min(number, wanted.most) if wanted.most else number
    return taken, round(tokens * taken / number) if number else 0


def _left(principal: Principal, usage: TokenUsage, cost: Decimal) -> tuple[Decimal | None, str, bool]:
    """What the tightest quota still allows, its unit, and whether that is enough."""
    tightest: tuple[Decimal, Decimal, str] | None = None
    for quota in quotas.account_of(principal).quotas:
        left = max(quota.limit - quotas.used(quota), Decimal(0))
        need = Decimal(usage.total) if quota.unit == Quota.Unit.TOKENS else cost
        share = left / need if need else Decimal(1_000_000)
        if tightest is None or share < tightest[0]:
            tightest = (share, left, quota.unit)
    return (None, "", True) if tightest is None else (tightest[1], tightest[2], tightest[0] >= 1)


def _check(wanted: Wanted) -> None:
    known = wanted.kind in Generation.Kind.values
    cases = wanted.kind == Generation.Kind.CASES
    most = 1 <= wanted.most <= MOST_CASES if cases else 0 <= wanted.most <= 1_000_000
    if not known or not 1 <= wanted.each <= MOST_EACH or not most:
        raise Invalid(
            "Say what to generate: 1 to %(each)s questions a passage, or 1 to %(cases)s cases.",
            code="generation_invalid",
            each=MOST_EACH,
            cases=MOST_CASES,
        )


def start(principal: Principal, base: KnowledgeBase, wanted: Wanted) -> Generation:
    """Begin; the base comes from `access_base(…, OWNER)`.

    Raises what `estimate` raises, `Denied` (text_stays_in_house), and `Conflict` (generation_open,
    nothing_to_generate).
    """
    found = estimate(principal, base, wanted)
    outside.check([base], found.endpoint)
    if not found.passages:
        raise Conflict(
            "Every passage has been worked on already; nothing has changed since.", code="nothing_to_generate"
        )
    try:
        with transaction.atomic():
            if wanted.again:
                passages.forget(base, wanted.kind)
            row = Generation.objects.create(
                **background.as_asked_by(principal),
                base=base,
                kind=wanted.kind,
                endpoint=found.endpoint,
                each=wanted.each,
                most=wanted.most,
                total=found.passages,
                estimate=found.as_json(),
            )
            audit.record(
                principal,
                f"{wanted.kind}.generate",
                base,
                base_ids=[base.pk],
                model=found.endpoint.name,
                passages=found.passages,
                tokens=found.tokens_in + found.tokens_out,
            )
            background.wake(row)
    except IntegrityError as error:
        raise Conflict("This is being generated for the base already.", code="generation_open") from error
    return row


def current(base: KnowledgeBase, kind: str) -> Generation | None:
    """The run that is under way."""
    return _rows(base, kind).filter(status__in=Generation.OPEN).first()


def last(base: KnowledgeBase, kind: str) -> Generation | None:
    """The newest run, ended or not."""
    return _rows(base, kind).first()


def _rows(base: KnowledgeBase, kind: str) -> QuerySet[Generation]:
    rows = Generation.objects.filter(base=base, kind=kind)
    return rows.select_related("endpoint", "created_by", "base").order_by("-pk")


def cancel(principal: Principal, row: Generation) -> None:
    """Stop a run; what is made stays, and the next run goes on from there. Raises `Conflict` (not_cancellable)."""
    background.cancel(principal, row)
