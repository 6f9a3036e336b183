"""Telling people: a line in their bell and, where mail is set up and wanted, a message."""

from __future__ import annotations

import logging
import smtplib
from collections.abc import Iterable, Sequence
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.utils import translation
from django.utils.translation import gettext, gettext_noop

from portal.kernel import events
from portal.kernel.models import Notification, User, json_safe

logger = logging.getLogger(__name__)

# kind -> sentence. The sentence is worded when it is read, in the reader's language.
SENTENCES: dict[str, str] = {
    "revision.failed": gettext_noop("%(document)s could not be processed: %(reason)s"),
    "revision.review": gettext_noop("%(document)s waits for your review."),
    "revisions.review": gettext_noop("%(n)s documents in %(base)s wait for your review."),
    "source.failed": gettext_noop("The web source %(source)s could not be synchronised: %(reason)s"),
    "document.review_due": gettext_noop("%(document)s in %(base)s is due for review."),
    "documents.review_due": gettext_noop("%(n)s documents in %(base)s are due for review."),
    "document.review_overdue": gettext_noop("The review of %(document)s in %(base)s is overdue."),
    "documents.review_overdue": gettext_noop("The review of %(n)s documents in %(base)s is overdue."),
    "export.done": gettext_noop("The export of %(base)s is ready; it is kept for %(hours)s hours."),
    "export.failed": gettext_noop("The export of %(name)s failed: %(reason)s"),
    "import.done": gettext_noop("The archive was imported as %(base)s."),
    "import.failed": gettext_noop("The import of %(name)s failed: %(reason)s"),
    "model.changed": gettext_noop("%(base)s is searched with the model %(model)s now."),
    "model.failed": gettext_noop("The model of %(base)s could not be changed to %(model)s: %(reason)s"),
    "gate.worse": gettext_noop("A change of settings made %(base)s worse: %(measure)s fell by %(fall)s."),
    "gate.held": gettext_noop(
        "A change of settings of %(base)s was not saved: %(measure)s would fall by %(fall)s. Decide what to do."
    ),
    "gate.failed": gettext_noop("A change of settings of %(base)s was not saved: %(reason)s"),
    "grant.added": gettext_noop("You were given access to %(base)s."),
    "grant.asked": gettext_noop("%(person)s asks for access to %(base)s: %(reason)s"),
    "credential.unusual": gettext_noop(
        "The secret %(credential)s was used %(count)s times within an hour; at most %(usual)s are usual."
    ),
    "credential.refused": gettext_noop("The secret %(credential)s was asked for and refused: %(code)s."),
    "credential.unreadable": gettext_noop("The secret %(credential)s can not be opened any more; give it again."),
    "credential.expiring": gettext_noop("The secret %(credential)s expires on %(date)s."),
    "credential.expired": gettext_noop("The secret %(credential)s expired on %(date)s and is not used any more."),
    "key_service.unusual": gettext_noop(
        "The key service was asked %(count)s times within an hour; at most %(usual)s are usual."
    ),
    "quota.warning": gettext_noop('%(percent)s %% of the quota "%(quota)s" are used; it begins anew on %(reset)s.'),
    "quota.reached": gettext_noop('The quota "%(quota)s" is used up until %(reset)s.'),
    "base.opened_by_admin": gettext_noop("%(person)s, an admin, opened the sensitive base %(base)s: %(reason)s"),
}


def sentence(kind: str, params: dict[str, Any]) -> str:
    """The notification in the active language; a `reason` may be a message id with `reason_params` to fill it."""
    reason = gettext(str(params["reason"])) if params.get("reason") else ""
    if filling := params.get("reason_params"):
        reason %= filling
    return gettext(SENTENCES[kind]) % {**params, "reason": reason}


def tell(
    users: Iterable[User],
    kind: str,
    *,
    workspace_id: int,
    base_ids: Iterable[int],
    link: str = "",
    mail: bool = True,
    **params: Any,
) -> None:
    """Put a line into each person's bell, in the caller's transaction; mail and live hint follow on commit."""
    base_list = sorted(set(base_ids))
    safe = json_safe(params)
    for user in users:
        Notification.objects.create(
            workspace_id=workspace_id, user=user, kind=kind, params=safe, link=link, base_ids=base_list
        )
        events.publish(f"user:{user.uid}", {"type": "notification"})
        if mail and settings.MAIL_CONFIGURED and user.mail_notices and user.email:
            transaction.on_commit(lambda user=user: _mail(user, kind, safe, link), robust=True)  # type: ignore[misc]


def fold(user: User, kinds: Sequence[str], *, workspace_id: int, base_ids: Iterable[int]) -> int:
    """Take unread lines of these kinds and bases out of a bell, to be told anew as one; returns how many they were.

    In the caller's transaction.
    """
    unread = Notification.objects.select_for_update().filter(
        workspace_id=workspace_id, user=user, kind__in=kinds, base_ids=sorted(set(base_ids)), read_at__isnull=True
    )
    rows = list(unread)
    Notification.objects.filter(pk__in=[row.pk for row in rows]).delete()
    return sum(int(row.params.get("n", 1)) for row in rows)


def _mail(user: User, kind: str, params: dict[str, Any], link: str) -> None:
    with translation.override(user.language or settings.LANGUAGE_CODE):
        text = sentence(kind, params)
        body = f"{text}\n\n{settings.PUBLIC_URL}{link}" if settings.PUBLIC_URL and link else text
        message = EmailMessage(subject=" ".join(text.split())[:150], body=body, to=[user.email])
    try:
        message.send()
    except (smtplib.SMTPException, OSError) as error:
        logger.warning("mail for %s not sent: %s", kind, type(error).__name__)
