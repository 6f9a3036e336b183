"""The bell: notifications that name bases are readable only while all of these are."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from knowledge import bases
from knowledge.access import visible_bases
from knowledge.models import EvaluationRun, ModelChange
from portal.kernel import notify
from portal.kernel.models import Notification
from portal.kernel.principal import Principal


def readable(principal: Principal) -> QuerySet[Notification]:
    """The asker's notifications in this workspace whose bases are all visible now, newest first."""
    visible = list(visible_bases(principal).values_list("id", flat=True))
    return Notification.objects.filter(
        user_id=principal.user_id, workspace_id=principal.workspace_id, base_ids__contained_by=visible
    ).order_by("-id")


def unread_count(principal: Principal) -> int:
    """How many readable notifications were not read yet."""
    return readable(principal).filter(read_at__isnull=True).count()


def mark_read(principal: Principal, uids: list[str] | None = None) -> int:
    """Mark some of the asker's notifications (None: all) as read; returns how many were new."""
    rows = Notification.objects.filter(
        user_id=principal.user_id, workspace_id=principal.workspace_id, read_at__isnull=True
    )
    if uids is not None:
        rows = rows.filter(uid__in=uids)
    return rows.update(read_at=timezone.now())


def tell_of_work(work: ModelChange | EvaluationRun, kind: str, *, page: str, **params: Any) -> None:
    """Tell the owners of the base, and whoever started the work, how it went; `page` is below the base's."""
    people = {person.pk: person for person in bases.owners(work.base)}
    if work.created_by is not None and work.created_by.is_active:
        people[work.created_by.pk] = work.created_by
    notify.tell(
        people.values(),
        kind,
        workspace_id=work.workspace_id,
        base_ids=[work.base.pk],
        link=f"/bases/{work.base.uid}/{page}",
        base=work.base.name,
        **params,
    )
