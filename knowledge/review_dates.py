"""Dates by which somebody should look at a document again: what is due, what is overdue, and who is reminded.

The reminder goes to whoever is responsible; without one to whoever brought the document in, while they may still
edit it; otherwise to the people who manage the base. One line per person, base and kind, not one per document.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import date, timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from knowledge.access import may_edit
from knowledge.models import Document, Grant, KnowledgeBase, Role
from portal.kernel import notify
from portal.kernel.models import Membership, User

# A review is "due" from so many days before its date.
LEAD = timedelta(days=14)
DUE, OVERDUE = "due", "overdue"
_AT_ONCE = 1_000


def state_of(review_date: date | None) -> str:
    """ "", "due" or "overdue"."""
    if review_date is None:
        return ""
    today = timezone.localdate()
    if review_date < today:
        return OVERDUE
    return DUE if review_date <= today + LEAD else ""


def condition(wanted: str) -> Q:
    """The documents whose review is "overdue", "due", has a date ("set") or none ("none")."""
    today = timezone.localdate()
    if wanted == OVERDUE:
        return Q(review_date__lt=today)
    if wanted == DUE:
        return Q(review_date__gte=today, review_date__lte=today + LEAD)
    return Q(review_date__isnull=wanted == "none")


def remind() -> int:
    """Tell people once of each review that has become due, and once when it is overdue; returns how many lines."""
    lines = 0
    for kind in (OVERDUE, DUE):
        waiting = (
            Document.objects.filter(condition(kind), deleted_at__isnull=True, base__deleted_at__isnull=True)
            .exclude(review_told__in=[kind, OVERDUE])
            .order_by("pk")
        )
        while True:
            with transaction.atomic():
                rows = list(waiting.select_for_update(of=("self",), skip_locked=True).select_related("base")[:_AT_ONCE])
                lines += _tell(kind, rows)
                Document.objects.filter(pk__in=[row.pk for row in rows]).update(review_told=kind)
            if len(rows) < _AT_ONCE:
                break
    return lines


def _tell(kind: str, documents: list[Document]) -> int:
    groups: dict[tuple[int, int], list[Document]] = defaultdict(list)
    by_pk: dict[int, User] = {}
    for document in documents:
        for person in _reminded(document):
            by_pk[person.pk] = person
            groups[person.pk, document.base_id].append(document)
    for (person_id, _), rows in groups.items():
        base = rows[0].base
        notify.tell(
            [by_pk[person_id]],
            f"document.review_{kind}" if len(rows) == 1 else f"documents.review_{kind}",
            workspace_id=base.workspace_id,
            base_ids=[base.pk],
            link=_link(base, kind, rows),
            document=rows[0].name,
            n=len(rows),
            base=base.name,
        )
    return len(groups)


def _link(base: KnowledgeBase, kind: str, rows: list[Document]) -> str:
    home = f"/bases/{base.uid}/documents/"
    return f"{home}{rows[0].uid}/" if len(rows) == 1 else f"{home}?review={kind}"


def _reminded(document: Document) -> list[User]:
    for user_id in (document.owner_id, document.created_by_id):
        person = User.objects.filter(pk=user_id, is_active=True).first() if user_id else None
        if person is not None and may_edit(person, document.base):
            return [person]
    members = Membership.objects.filter(workspace_id=document.base.workspace_id, user__is_active=True)
    managers = Grant.objects.filter(base=document.base, role=Role.OWNER, user__in=members.values("user"))
    return list(User.objects.filter(pk__in=managers.values("user")))
