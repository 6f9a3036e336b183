"""The asker's threads: questions with their answers, in the order of asking; rating, deleting, bringing back.

A thread is the asker's alone. What was copied out of a base is shown only while they see every base it
came from: `Turn.readable` says so.
"""

from __future__ import annotations

import json
import logging
import zlib
from dataclasses import dataclass
from datetime import datetime

from django.core.serializers import deserialize, serialize
from django.db import IntegrityError, transaction
from django.db.models import Count, Max, Min, QuerySet
from redis.exceptions import RedisError

from knowledge.access import visible_bases
from knowledge.asking import readable_record
from knowledge.models import QueryRecord
from portal.kernel import audit, events
from portal.kernel.errors import NotFound
from portal.kernel.principal import Principal

logger = logging.getLogger(__name__)

LISTED = 50
# Seconds in which a deleted thread can be brought back; its text is in Redis no longer than that.
UNDO_SECONDS = 120
_NOT_FOUND = "Not found, or you don't have access."


@dataclass(frozen=True, slots=True)
class Thread:
    """A line of the list: the first question names the thread, `at` is its last one."""

    uid: str
    title: str
    at: datetime
    turns: int


@dataclass(frozen=True, slots=True)
class Turn:
    """A question with what was found. `readable` is False once a base it was copied from is out of sight."""

    record: QueryRecord
    readable: bool


def _own(principal: Principal) -> QuerySet[QueryRecord]:
    return QueryRecord.objects.filter(
        user_id=principal.user_id, workspace_id=principal.workspace_id, kind=QueryRecord.Kind.ASK
    )


def threads(principal: Principal) -> list[Thread]:
    """The asker's threads, the one used last first."""
    rows = list(
        _own(principal)
        .exclude(thread="")
        .order_by()
        .values("thread")
        .annotate(first=Min("pk"), last=Max("at"), turns=Count("pk"))
        .order_by("-last")[:LISTED]
    )
    titles = dict(QueryRecord.objects.filter(pk__in=[row["first"] for row in rows]).values_list("pk", "query"))
    return [Thread(row["thread"], titles.get(row["first"], ""), row["last"], row["turns"]) for row in rows]


def turns(principal: Principal, thread: str) -> list[Turn]:
    """The turns of one thread, oldest first; `NotFound` when it is not the asker's."""
    records = list(_own(principal).filter(thread=thread).exclude(thread="").order_by("pk"))
    if not records:
        raise NotFound(_NOT_FOUND)
    visible = set(visible_bases(principal).values_list("pk", flat=True))
    return [Turn(record, visible.issuperset(record.base_ids)) for record in records]


def title(principal: Principal, thread: str) -> str:
    """The question that names a thread; empty when it is not the asker's."""
    first = _own(principal).filter(thread=thread).exclude(thread="").order_by("pk")
    return first.values_list("query", flat=True).first() or ""


def rate(principal: Principal, thread: str, uid: str, helpful: bool | None) -> None:
    """Say whether an answer helped; None takes the word back."""
    record = readable_record(principal, uid)
    if record is None or record.kind != QueryRecord.Kind.ASK or record.thread != thread:
        raise NotFound(_NOT_FOUND)
    QueryRecord.objects.filter(pk=record.pk).update(helpful=helpful)


def delete(principal: Principal, thread: str) -> bool:
    """Delete a thread at once; True when it can be brought back for `UNDO_SECONDS`."""
    with transaction.atomic():
        records = list(_own(principal).filter(thread=thread).exclude(thread="").select_for_update())
        if not records:
            raise NotFound(_NOT_FOUND)
        audit.record(principal, "thread.delete", thread=thread, questions=len(records))
        QueryRecord.objects.filter(pk__in=[record.pk for record in records]).delete()
    kept = zlib.compress(json.dumps(serialize("python", records), default=str).encode())
    try:
        events.client().set(_undo_key(principal, thread), kept, ex=UNDO_SECONDS)
    except (RedisError, OSError) as error:
        logger.warning("no undo of a thread: %s", type(error).__name__)
        return False
    return True


def restore(principal: Principal, thread: str) -> None:
    """Bring back a thread that was just deleted; `NotFound` when it is too late."""
    try:
        kept = events.client().getdel(_undo_key(principal, thread))
    except (RedisError, OSError) as error:
        raise NotFound(_NOT_FOUND) from error
    if not isinstance(kept, bytes):
        raise NotFound(_NOT_FOUND)
    with transaction.atomic():
        try:
            # As stored, with numbers and times of their own: a raw save asks no field for a new value.
            for item in deserialize("python", json.loads(zlib.decompress(kept))):
                item.save()
        except IntegrityError as error:
            raise NotFound(_NOT_FOUND) from error
        audit.record(principal, "thread.restore", thread=thread)


def _undo_key(principal: Principal, thread: str) -> str:
    return f"undo:thread:{principal.workspace_id}:{principal.user_id}:{thread}"
