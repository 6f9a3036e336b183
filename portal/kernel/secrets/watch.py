"""Who looks after credentials: unusual reveals, refused ones, expiry and health, told to those who can act.

Counts come from the audit log, folded by the hour, so that revealing a secret costs no shared counter.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Max, Q, QuerySet
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import TruncHour
from django.urls import reverse
from django.utils import timezone

from portal.kernel import audit, notify
from portal.kernel.errors import Invalid, Unavailable
from portal.kernel.models import AuditEntry, Credential, Membership, RevealCount, User
from portal.kernel.secrets import rows

logger = logging.getLogger(__name__)

USUAL_DAYS = 7
# More than this many times the busiest hour of the last days is not the daily ups and downs.
UNUSUAL_FACTOR = 3
WARN_DAYS = (14, 3, 0)
KEY_SERVICE = "key service"
_REFUSED = "refused:"
# Refusals that ordinary use does not bring about.
_SUSPICIOUS = (
    "credential_host_mismatch", "credential_unreadable", "credential_not_listed", "credential_not_allowed",
    "master_key_unknown", "master_key_refused",
)  # fmt: skip


def needs_attention(now: datetime) -> Q:
    """The filter for credentials that somebody should look at: unreadable, expired or nearly so, or exposed."""
    soon = Q(expires_at__lte=now + timedelta(days=WARN_DAYS[0]))
    return Q(revoked_at__isnull=True) & (Q(health=Credential.Health.UNREADABLE) | soon | Q(exposed_at__isnull=False))


def look(now: datetime | None = None) -> int:
    """Fold the audit log of this hour and the last, and tell people what is unusual; returns how many alerts."""
    now = now or timezone.now()
    _fold(now)
    RevealCount.objects.filter(hour__lt=now - timedelta(days=USUAL_DAYS + 1)).delete()
    return _tell_unusual(now) + _tell_expiring(now)


def check_health(credentials: QuerySet[Credential] | None = None) -> dict[str, int]:
    """Open every living credential and forget the value at once; returns how many were found in which health.

    Stops, with the rest unchanged, when a key service is away: that is no fault of a credential.
    """
    found = {str(Credential.Health.GOOD): 0, str(Credential.Health.UNREADABLE): 0}
    living = Credential.objects.all() if credentials is None else credentials
    for row in living.filter(revoked_at__isnull=True).defer(None).iterator(chunk_size=200):
        try:
            rows.take(row)
            health = Credential.Health.GOOD
        except Invalid as error:
            health = Credential.Health.UNREADABLE
            logger.warning("credential %s can not be opened: %s", row.pk, error.code)
        except Unavailable as error:
            logger.warning("credentials are not checked: %s", error.code)
            break
        found[str(health)] += 1
        Credential.objects.filter(pk=row.pk).update(health=health, checked_at=timezone.now())
        if health == Credential.Health.UNREADABLE != row.health:
            with transaction.atomic():
                _tell(row, "credential.unreadable", credential=row.name)
    audit.record(None, "credential.check", found=found)
    return found


@dataclass(frozen=True, slots=True)
class _Hour:
    subject: str
    hour: datetime


def _fold(now: datetime) -> None:
    start = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
    counts: dict[_Hour, int] = {}

    def add(subject: str, hour: datetime, count: int) -> None:
        key = _Hour(subject[:210], hour)
        counts[key] = counts.get(key, 0) + count

    recent = AuditEntry.objects.filter(at__gte=start).annotate(hour=TruncHour("at")).order_by()
    named = recent.annotate(label=KeyTextTransform("name", "detail"), asked=KeyTextTransform("key_service", "detail"))
    reveals = named.filter(action="credential.reveal").values("object_id", "label", "asked", "hour")
    for row in reveals.annotate(count=Count("id")):
        add(row["object_id"] or f"env://{row['label']}", row["hour"], row["count"])
        if row["asked"] == "true":
            add(KEY_SERVICE, row["hour"], row["count"])
    wrong = recent.annotate(cause=KeyTextTransform("code", "detail"), what=KeyTextTransform("reference", "detail"))
    refusals = wrong.filter(action="credential.refused", cause__in=_SUSPICIOUS).values("cause", "what", "hour")
    for refusal in refusals.annotate(count=Count("id")):
        add(f"{_REFUSED}{refusal['cause']}:{refusal['what']}", refusal["hour"], refusal["count"])
    RevealCount.objects.bulk_create(
        [RevealCount(subject=key.subject, hour=key.hour, count=count) for key, count in counts.items()],
        update_conflicts=True,
        unique_fields=["subject", "hour"],
        update_fields=["count"],
    )


def _tell_unusual(now: datetime) -> int:
    told = 0
    recent = RevealCount.objects.filter(hour__gte=now - timedelta(hours=2), alerted=False)
    for row in recent:
        usual = _usual(row)
        refusal = row.subject.startswith(_REFUSED)
        if not refusal and row.count <= max(settings.ARCHWAY["REVEALS_PER_HOUR"], UNUSUAL_FACTOR * usual):
            continue
        with transaction.atomic():
            # Beat may run twice: one of them moves the row and tells.
            if RevealCount.objects.filter(pk=row.pk, alerted=False).update(alerted=True):
                told += 1
                _tell_of(row, usual, refusal)
    return told


def _usual(row: RevealCount) -> int:
    """The busiest hour of the last days, before this one."""
    before = RevealCount.objects.filter(
        subject=row.subject, hour__lt=row.hour, hour__gte=row.hour - timedelta(days=USUAL_DAYS)
    )
    return before.aggregate(most=Max("count"))["most"] or 0


def _tell_of(row: RevealCount, usual: int, refusal: bool) -> None:
    if refusal:
        code, _, reference = row.subject.removeprefix(_REFUSED).partition(":")
        credential = _credential(reference.removeprefix("credential://"))
        name = credential.name if credential else reference or "?"
        _tell(credential, "credential.refused", credential=name, code=code, count=row.count)
        audit.record(None, "credential.alert", credential, name=name, code=code, count=row.count)
        return
    credential = _credential(row.subject)
    name = credential.name if credential else row.subject
    kind = "key_service.unusual" if row.subject == KEY_SERVICE else "credential.unusual"
    _tell(credential, kind, credential=name, count=row.count, usual=usual)
    audit.record(None, "credential.alert", credential, name=name, count=row.count, usual=usual)


def _tell_expiring(now: datetime) -> int:
    told = 0
    soon = Credential.objects.filter(revoked_at__isnull=True, expires_at__lte=now + timedelta(days=WARN_DAYS[0]))
    for row in soon.defer("ciphertext", "wrapped_key"):
        assert row.expires_at is not None
        left = (row.expires_at - now) / timedelta(days=1)
        stage = min(days for days in WARN_DAYS if left <= days)
        unwarned = Credential.objects.filter(pk=row.pk).filter(Q(warned_days__isnull=True) | Q(warned_days__gt=stage))
        with transaction.atomic():
            if unwarned.update(warned_days=stage):
                told += 1
                kind = "credential.expired" if left <= 0 else "credential.expiring"
                _tell(row, kind, credential=row.name, date=f"{row.expires_at:%Y-%m-%d}")
    return told


def _credential(name: str) -> Credential | None:
    try:
        return Credential.objects.filter(pk=UUID(name)).defer("ciphertext", "wrapped_key").first()
    except ValueError:
        return None


def _tell(about: Credential | None, kind: str, /, **params: Any) -> None:
    """Those who run the installation, and the admins of the credential's workspace, each in a workspace they are in."""
    link = reverse("admin:kernel_credential_change", args=[about.pk]) if about else ""
    workspace_id = about.workspace_id if about else None
    for user, place in _watchers(workspace_id):
        notify.tell([user], kind, workspace_id=place, base_ids=(), link=link, **params)


def _watchers(workspace_id: int | None) -> Iterable[tuple[User, int]]:
    own = Q(workspace_id=workspace_id, role=Membership.Role.ADMIN) if workspace_id else Q(pk__in=[])
    memberships = Membership.objects.filter(own | Q(user__is_superuser=True), user__is_active=True)
    chosen: dict[int, tuple[User, int]] = {}
    for membership in memberships.select_related("user").order_by("id"):
        # In the credential's own workspace when they are in it, else in their first one.
        if membership.user_id not in chosen or membership.workspace_id == workspace_id:
            chosen[membership.user_id] = membership.user, membership.workspace_id
    return chosen.values()
