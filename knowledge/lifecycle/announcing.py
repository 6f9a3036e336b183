"""Telling workers that there is work, open pages where it is, and people how it ended."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from knowledge.lifecycle.states import STEPS, Status
from knowledge.models import Grant, Revision, Role
from portal.kernel import events, notify
from portal.kernel.models import User


def wake() -> None:
    """Send a wake-up on commit. A lost one does no harm: the sweeper sends another."""
    from knowledge.tasks import send_wake_up

    transaction.on_commit(send_wake_up, robust=True)


def wake_questions() -> None:
    """Have the vectors of questions made, on commit; the clock does it later when the message is lost."""
    from knowledge.questions import embedding

    embedding.wake()


def announce(revision: Revision) -> None:
    """Tell open pages, on commit, where the revision is now."""
    document = revision.document
    announce_state(
        document.base.uid,
        document.uid,
        revision.number,
        revision.attempts,
        revision.status,
        revision.done,
        revision.total,
        revision.unit,
        revision.error_code or None,
    )


def announce_state(
    base: str,
    document: str,
    number: int,
    attempt: int,
    status: str,
    done: int,
    total: int | None,
    unit: str,
    reason: str | None = None,
) -> None:
    events.publish(
        f"base:{base}",
        {
            "type": "document.progress",
            "doc": document,
            "rev": number,
            "attempt": attempt,
            "state": status,
            "step": STEPS.get(Status(status), 0),
            "steps": 5,
            "done": done,
            "total": total,
            "unit": unit,
            "reason": reason,
            "at": timezone.now().isoformat(timespec="milliseconds"),
        },
    )


def announce_id(revision_id: int) -> None:
    announce(Revision.objects.select_related("document", "document__base").get(pk=revision_id))


def tell_people(row: Revision, kind: str, **params: Any) -> None:
    """Tell whoever started the work while they are still here, in words of the document."""
    if row.created_by_id is None:
        return
    document = row.document
    notify.tell(
        User.objects.filter(pk=row.created_by_id, is_active=True),
        kind,
        workspace_id=document.base.workspace_id,
        base_ids=[document.base_id],
        link=f"/bases/{document.base.uid}/documents/{document.uid}/",
        document=document.name,
        **params,
    )


def tell_reviewers(row: Revision) -> None:
    """Tell whoever started the work, and the base's owners, that it waits for a review.

    Several that wait in a base are one line in a bell until it is read: a folder of 200 files is one errand.
    """
    document, base = row.document, row.document.base
    owners = Grant.objects.filter(base=base, role=Role.OWNER, user__isnull=False).values("user_id")
    people = User.objects.filter(Q(pk__in=owners) | Q(pk=row.created_by_id or 0), is_active=True)
    place: dict[str, Any] = {"workspace_id": base.workspace_id, "base_ids": [base.pk]}
    for person in people.order_by("pk"):
        number = notify.fold(person, ("revision.review", "revisions.review"), **place)
        if number:
            link = f"/bases/{base.uid}/review/"
            notify.tell([person], "revisions.review", **place, link=link, mail=False, n=number + 1, base=base.name)
        else:
            link = f"/bases/{base.uid}/documents/{document.uid}/chunks/"
            notify.tell([person], "revision.review", **place, link=link, document=document.name)
