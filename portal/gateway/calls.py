"""One call of a model, from its admission to its record: the same for chat, embedding and rerank.

An operation says how one endpoint is asked; this decides whether it may be, how long it is waited for, when it
is asked again, who answers instead, and what is written down. Nothing is asked again once a part was delivered.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Generic, Protocol, TypeVar

from portal.gateway import accounting, addresses, failures, quotas
from portal.gateway.accounting import Caller, Line, Outcome, TokenUsage
from portal.gateway.admission import WAIT_SECONDS, Entry, Resting, entered
from portal.gateway.loops import Outside, Watch, to_the_end
from portal.gateway.models import ModelEndpoint
from portal.gateway.quotas import Account, Need, Reservation
from portal.kernel.errors import ArchwayError, TooMany
from portal.kernel.secrets import Secret

logger = logging.getLogger(__name__)

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")

TRIES_BEFORE_FALLBACK = 2
FIRST_PAUSE = 0.25
# Waiting longer for the same provider than this is worse than another provider's answer.
PATIENCE_BEFORE_FALLBACK = 2.0
LONGEST_PAUSE = 20.0
GRACE_SECONDS = 60
# Failures of what was asked, not of who was asked: nobody else would do better.
_OF_THE_REQUEST = frozenset({"model_refused", "model_content_blocked", "model_context_exceeded"})


class AttemptFailed(Exception):
    """An operation's failure, in our words, with the seconds that the provider asked us to wait."""

    def __init__(self, error: ArchwayError, retry_after: float | None = None) -> None:
        super().__init__(error.code)
        self.error = error
        self.retry_after = retry_after


class Operation(Protocol[T_co]):
    """What is asked. `attempt` yields the parts of an answer and raises `AttemptFailed` (or `ArchwayError`).

    `tries` is how often an endpoint is asked at most.
    """

    tries: int

    def need(self, endpoint: ModelEndpoint) -> TokenUsage:
        """The most tokens that an answer of this endpoint may take."""
        ...

    def patience(self, endpoint: ModelEndpoint) -> float:
        """How many seconds the first part may take."""
        ...

    def attempt(self, endpoint: ModelEndpoint, secret: Secret) -> AsyncGenerator[T_co]: ...

    def usage(self) -> TokenUsage:
        """What the running attempt has used so far, as far as known."""
        ...


class Call(Generic[T]):
    """One call. `parts` runs it; `line` is what is known of it, complete when `parts` has ended.

    Without a caller nobody pays and nothing is recorded: an operator who belongs to no workspace tests an endpoint.
    """

    def __init__(
        self,
        caller: Caller | None,
        endpoint: ModelEndpoint,
        operation: Operation[T],
        outside: Outside,
        *,
        fall_back: bool,
    ) -> None:
        self.line = Line(caller, endpoint, endpoint)
        self._first = endpoint
        self._operation = operation
        self._outside = outside
        self._fall_back = fall_back
        self._account: Account | None = None
        self._reservation: Reservation | None = None
        self._noting: asyncio.Future[Reservation] | None = None
        self._began = time.perf_counter()
        self._delivered = False

    async def parts(self) -> AsyncGenerator[T]:
        """The parts of the answer. Raises our family of errors only; closing it cancels the call at the provider."""
        try:
            await self._admit()
            async with aclosing(self._from_someone()) as parts:
                async for part in parts:
                    yield part
            self.line.outcome = Outcome.OK
        except ArchwayError as error:
            if self.line.outcome != Outcome.REFUSED:
                self.line.outcome = Outcome.BROKEN if self._delivered else Outcome.ERROR
            self.line.code = error.code
            raise
        except (asyncio.CancelledError, GeneratorExit):
            self.line.outcome = Outcome.CANCELLED
            raise
        finally:
            self.line.seconds = time.perf_counter() - self._began
            await to_the_end(self._finish())

    async def only(self) -> T:
        """The one part of an operation that answers at once."""
        async with aclosing(self.parts()) as parts:
            (part,) = [part async for part in parts]
            return part

    async def _admit(self) -> None:
        if self.line.caller is None:
            return
        principal = self.line.caller.principal
        account = quotas.known_account(principal)
        if account is None:
            name = ("account", principal.workspace_id, principal.user_id, principal.key_id)
            account = await self._outside.shared(name, lambda: quotas.account_of(principal))
        self._account = account
        most = self._operation.need(self._first)
        reserving = asyncio.ensure_future(
            quotas.reserve(
                account,
                self.line.uid,
                Need(most.total, accounting.cost(self._first, most)),
                note=json.dumps(accounting.note(self.line, account, most)),
                lease_seconds=self._first.total_seconds + GRACE_SECONDS,
                outside=self._outside,
            )
        )
        if not account.quotas:
            # Only the note for `lost_calls`: the model need not wait for it.
            self._noting = reserving
            return
        try:
            self._reservation = await reserving
        except TooMany:
            self.line.outcome = Outcome.REFUSED
            raise

    async def _from_someone(self) -> AsyncGenerator[T]:
        """The parts of the first endpoint that answers, or the failure of the one that was asked for."""
        failure: ArchwayError | None = None
        waiting = [self._first]
        looked = False
        while waiting:
            target = waiting.pop(0)
            if not looked and self._fall_back and not self._is_lonely():
                waiting += await self._outside.shared(("fallbacks", self._first.pk), self._fallbacks)
                looked = True
            try:
                async with aclosing(self._from(target, others=bool(waiting))) as parts:
                    async for part in parts:
                        yield part
                return
            except ArchwayError as error:
                if self._delivered or error.code in _OF_THE_REQUEST:
                    raise
                failure = failure or error
        self.line.endpoint = self._first
        assert failure is not None
        raise failure

    def _is_lonely(self) -> bool:
        """Whether the endpoint was loaded with the knowledge that nobody stands in for it."""
        cached = getattr(self._first, "_prefetched_objects_cache", {})
        return "fallback_rows" in cached and not cached["fallback_rows"]

    def _fallbacks(self) -> list[ModelEndpoint]:
        rows = self._first.fallback_rows.select_related("fallback")
        return [
            row.fallback
            for row in rows
            if row.fallback.enabled
            and row.fallback.kind == self._first.kind
            and row.fallback.workspace_id in {None, self._first.workspace_id}
        ]

    async def _from(self, target: ModelEndpoint, *, others: bool) -> AsyncGenerator[T]:
        """One endpoint, asked again while that may help."""
        self.line.endpoint = target
        tries = min(self._operation.tries, TRIES_BEFORE_FALLBACK) if others else self._operation.tries
        for number in range(1, tries + 1):
            began = time.perf_counter()
            try:
                async with entered(target, self.line.uid, patience=1.0 if others else WAIT_SECONDS) as entry:
                    async with aclosing(self._attempt(target, entry)) as parts:
                        async for part in parts:
                            yield part
                    entry.outcome = "ok"
                return
            except Resting as error:
                self._note(target, error, began)
                raise
            except AttemptFailed as failed:
                self._note(target, failed.error, began)
                pause = self._pause(failed, number, others)
                if self._delivered or not failed.error.retryable or number == tries or pause is None:
                    raise failed.error from None
                await asyncio.sleep(pause)

    def _pause(self, failed: AttemptFailed, number: int, others: bool) -> float | None:
        """Seconds until the next try; None when that is too long."""
        pause = failed.retry_after
        if pause is None:
            pause = FIRST_PAUSE * 2 ** (number - 1) * random.uniform(0.5, 1.5)  # noqa: S311  # spreads, hides nothing
        longest = PATIENCE_BEFORE_FALLBACK if others else min(LONGEST_PAUSE, self._left())
        return pause if pause <= longest else None

    def _note(self, target: ModelEndpoint, error: ArchwayError, began: float) -> None:
        self.line.attempts.append(
            {
                "endpoint": target.uid,
                "model": target.model_name,
                "code": error.code,
                "milliseconds": round((time.perf_counter() - began) * 1000),
            }
        )

    def _left(self) -> float:
        return self._first.total_seconds - (time.perf_counter() - self._began)

    async def _attempt(self, target: ModelEndpoint, entry: Entry) -> AsyncGenerator[T]:
        try:
            secret = addresses.kept_secret(target)
            if secret is None:
                caller, purpose = self.line.caller, f"{target.kind}.call"
                principal = caller.principal if caller else None
                name = ("secret", target.credential, addresses.base_url(target), target.workspace_id)
                secret = await self._outside.shared(name, lambda: addresses.secret_for(target, purpose, principal))
            limit = self._operation.patience(target)
            async with aclosing(self._operation.attempt(target, secret)) as parts:
                with Watch() as watch:
                    while True:
                        watch.begin(min(limit, self._left()))
                        try:
                            part = await anext(parts)
                        except StopAsyncIteration:
                            return
                        watch.end()
                        if not self._delivered:
                            self._delivered = True
                            self.line.first_token_seconds = time.perf_counter() - self._began
                            self.line.calls = 1
                        limit = target.timeout_seconds
                        yield part
        except TimeoutError:
            failed = AttemptFailed(failures.too_slow(target.name))
            _mark(entry, failed)
            raise failed from None
        except AttemptFailed as failed:
            _mark(entry, failed)
            raise
        except ArchwayError as error:
            # Of the address or the credential.
            raise AttemptFailed(error) from error

    async def _finish(self) -> None:
        """The record first, then the quotas: what is killed in between is found by `lost_calls`."""
        used = self._operation.usage()
        if self._delivered or self.line.outcome == Outcome.CANCELLED:
            self.line.usage = used
        account = self._account
        if account is None:
            return
        await self._outside.together(accounting.write_all, (self.line, account))
        if self._noting is not None:
            self._reservation = await self._noting
        if self._reservation is None:
            return
        crossed = await quotas.settle(self._reservation, self.line.spent)
        if crossed:
            await self._outside.database(lambda: accounting.tell_of_quotas(crossed))


def _mark(entry: Entry, failed: AttemptFailed) -> None:
    """What a failure means for the next who come: a pause that was asked for, or one more fault."""
    if failed.error.code == "model_rate_limited":
        entry.rest_seconds = failed.retry_after or 0.0
    elif failed.error.retryable:
        entry.outcome = "fault"
        entry.rest_seconds = failed.retry_after or 0.0
