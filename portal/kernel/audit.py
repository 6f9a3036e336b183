"""The audit log: dotted actions, written in the transaction of the change by plain inserts.

A sealer chains the committed rows afterwards, so no writer waits for another. `verify` recomputes
the chain: a changed, removed or reordered row breaks it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from django.db import connection, models, transaction

from portal.kernel.models import AuditEntry, Workspace, json_safe
from portal.kernel.principal import Principal

_SEALER_LOCK = 0x5EA1
_BATCH = 2000


def record(
    principal: Principal | None,
    action: str,
    target: models.Model | None = None,
    *,
    workspace_id: int | None = None,
    base_ids: Iterable[int] = (),
    **detail: Any,
) -> None:
    """Add one line. `action` is dotted, noun first: `document.delete`. Never put a secret into `detail`."""
    if workspace_id is None:
        workspace_id = principal.workspace_id if principal else None
    if workspace_id is None and isinstance(target, Workspace):
        workspace_id = target.pk
    AuditEntry.objects.create(
        workspace_id=workspace_id,
        actor_id=(principal.user_id or None) if principal else None,
        door=principal.door if principal else "system",
        action=action,
        object_type=target._meta.model_name or "" if target is not None else "",
        object_id=str(getattr(target, "uid", None) or (target.pk if target is not None else "")),
        base_ids=sorted(set(base_ids)),
        detail=json_safe(detail),
    )


def _seal(previous: str, position: int, row: AuditEntry) -> str:
    content = json.dumps(
        [
            previous,
            position,
            row.pk,
            row.at.isoformat(),
            row.workspace_id,
            row.actor_id,
            row.door,
            row.action,
            row.object_type,
            row.object_id,
            row.base_ids,
            row.detail,
        ],
        sort_keys=True,
        ensure_ascii=True,
    )
    return hashlib.sha256(content.encode()).hexdigest()


def seal_committed() -> int:
    """Chain the rows committed since the last call; returns how many. One sealer at a time, others return 0."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_SEALER_LOCK])
        if not cursor.fetchone()[0]:
            return 0
        last = AuditEntry.objects.filter(position__isnull=False).order_by("-position").first()
        previous, position = (last.seal, last.position or 0) if last else ("", 0)
        rows = list(AuditEntry.objects.filter(position__isnull=True).order_by("id")[:_BATCH])
        for row in rows:
            position += 1
            row.position, row.seal = position, _seal(previous, position, row)
            previous = row.seal
        AuditEntry.objects.bulk_update(rows, ["position", "seal"])
        return len(rows)


def verify() -> int | None:
    """The position of the first row whose seal does not fit, or None when the chain is whole."""
    previous, expected = "", 1
    for row in AuditEntry.objects.filter(position__isnull=False).order_by("position").iterator():
        if row.position != expected or row.seal != _seal(previous, expected, row):
            return expected
        previous, expected = row.seal, expected + 1
    return None
