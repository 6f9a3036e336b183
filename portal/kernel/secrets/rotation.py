"""Rotation: every sealed row is brought under the current master key, then the keys that nothing needs are retired.

Old and new key open at once while it runs. Each row moves by itself and is verified before its old seal is
given up, so a rotation that was killed goes on where it stopped: what is left says how far it came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import OperationalError, connection, transaction
from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from portal.kernel import audit
from portal.kernel.errors import Conflict, Invalid
from portal.kernel.models import MasterKey, SealedRow
from portal.kernel.secrets import keyring, rows

_LOCK = 0x5EA1ED
# A rotation that was killed loses its lock when its connection is noticed to be dead.
_LOCK_SECONDS = 15
# Processes that still have the old key may seal with it while the first pass runs.
_PASSES = 5


@dataclass
class Outcome:
    """`left`: rows that could not be moved, as (model, primary key, code); they keep their old key alive."""

    key_id: str
    total: int = 0
    resealed: int = 0
    left: list[tuple[str, str, str]] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return not self.left


def rotate(
    *,
    batch: int = 100,
    everything: bool = False,
    retire: bool = True,
    on_progress: Callable[[Outcome], None] = lambda outcome: None,
) -> Outcome:
    """Bring all sealed rows under the current master key; `everything`: also those that are under it already.

    Raises `Conflict` (rotation_running, master_key_retired) and, when a key service is away, `Unavailable`:
    what was moved until then stays moved.
    """
    with _alone():
        source = keyring.keyring().current
        before = _begin(source.key_id, everything)
        outcome = Outcome(source.key_id, total=sum(due(m, source.key_id, before).count() for m in rows.models()))
        on_progress(outcome)
        for _ in range(_PASSES):
            moved = outcome.resealed
            for model in rows.models():
                for chunk in _chunks(_still_due(model, source.key_id, before, outcome), batch):
                    _move(chunk, outcome)
                    on_progress(outcome)
            if outcome.resealed == moved:
                break
        if outcome.complete:
            MasterKey.objects.filter(key_id=source.key_id).update(reseal_before=None)
        if retire:
            others = MasterKey.objects.filter(state=MasterKey.State.ACTIVE).exclude(key_id=source.key_id)
            outcome.retired = [key.key_id for key in others.order_by("pk") if _retire(key)]
        audit.record(
            None,
            "master_key.rotate",
            key=source.key_id,
            resealed=outcome.resealed,
            left=len(outcome.left),
            retired=outcome.retired,
        )
    return outcome


def due(model: type[SealedRow], key_id: str, before: datetime | None) -> QuerySet[Any]:
    """The rows that are not sealed as they should be: under another key, or sealed before a moment."""
    wrong = ~Q(key_id=key_id)
    if before is not None:
        wrong |= Q(sealed_at__lt=before)
    return model._default_manager.filter(wrong).exclude(key_id="").order_by("pk")


def usage() -> Counter[str]:
    """Key id → how many rows are sealed under it."""
    found: Counter[str] = Counter()
    for model in rows.models():
        counted = model._default_manager.exclude(key_id="").values("key_id").annotate(count=Count("pk")).order_by()
        found.update({row["key_id"]: row["count"] for row in counted})
    return found


def _still_due(model: type[SealedRow], key_id: str, before: datetime | None, outcome: Outcome) -> QuerySet[Any]:
    """Without the rows that were found to be immovable."""
    return due(model, key_id, before).exclude(
        pk__in=[pk for label, pk, _ in outcome.left if label == model._meta.label]
    )


@contextmanager
def _alone() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, false)", [f"{_LOCK_SECONDS}s"])
        try:
            cursor.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
        except OperationalError as error:
            raise Conflict("Another rotation is running.", code="rotation_running") from error
        finally:
            cursor.execute("SELECT set_config('lock_timeout', '0', false)")
        try:
            yield
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [_LOCK])


@transaction.atomic
def _begin(key_id: str, everything: bool) -> datetime | None:
    """Note the key; returns the moment before which all is to be sealed anew, that of a killed run if there was one."""
    rows.hold_key(key_id)
    if everything:
        MasterKey.objects.filter(key_id=key_id, reseal_before__isnull=True).update(reseal_before=timezone.now())
    return MasterKey.objects.get(key_id=key_id).reseal_before


def _chunks(found: QuerySet[Any], size: int) -> Iterator[list[SealedRow]]:
    last = None
    while True:
        chunk = list((found.filter(pk__gt=last) if last is not None else found)[:size])
        if not chunk:
            return
        yield chunk
        last = chunk[-1].pk


def _move(chunk: list[SealedRow], outcome: Outcome) -> None:
    moved = 0
    for row in chunk:
        try:
            # A row that somebody changed meanwhile was sealed anew by that.
            moved += rows.reseal(row)
        except Invalid as error:
            outcome.left.append((row._meta.label, str(row.pk), error.code))
    outcome.resealed += moved
    if moved:
        audit.record(None, "master_key.reseal", key=outcome.key_id, kind=chunk[0]._meta.label, count=moved)


@transaction.atomic
def _retire(key: MasterKey) -> bool:
    """Retire a key that seals nothing. The lock waits for whoever is just sealing with it; they are seen then."""
    locked = MasterKey.objects.select_for_update().get(pk=key.pk)
    if any(model._default_manager.filter(key_id=locked.key_id).exists() for model in rows.models()):
        return False
    locked.state, locked.retired_at = MasterKey.State.RETIRED, timezone.now()
    locked.save(update_fields=["state", "retired_at"])
    audit.record(None, "master_key.retire", key=locked.key_id)
    return True
