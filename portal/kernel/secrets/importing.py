"""Old plaintext values become credentials: sealed, verified, then taken out of their column, row by row.

Each row is one transaction, so an import that was killed goes on with the rows that still hold a value.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.core.exceptions import FieldDoesNotExist
from django.db import models, transaction

from portal.kernel import audit
from portal.kernel.errors import Invalid
from portal.kernel.models import Credential
from portal.kernel.secrets import box, rows, verbs
from portal.kernel.secrets.revealing import ENVIRONMENT, SEALED


@dataclass(frozen=True, slots=True)
class PlaintextColumn:
    """Where the old values are. `reference` may be the very column of the values; `workspace` may be missing.

    `model` is named as `app.Model`; the others are fields of it, `workspace` the id of a workspace.
    """

    model: str
    value: str
    host: str
    reference: str
    name: str = ""
    workspace: str = "workspace_id"


def pending(column: PlaintextColumn) -> list[Any]:
    """The primary keys of the rows that still hold a value. Raises `Invalid` (column_unknown)."""
    return list(_holding(column).order_by("pk").values_list("pk", flat=True))


def import_rows(column: PlaintextColumn) -> Generator[tuple[Any, str], None, None]:
    """(primary key, "" or the code of what prevented it) of each row, as it is done."""
    for pk in pending(column):
        try:
            _import_row(column, pk)
        except Invalid as error:
            yield pk, error.code
        else:
            yield pk, ""


@transaction.atomic
def _import_row(column: PlaintextColumn, pk: Any) -> None:
    row = _holding(column).select_for_update().filter(pk=pk).first()
    if row is None:  # somebody else was quicker
        return
    value: str = getattr(row, column.value)
    made = verbs.create(
        None,
        name=_free_name(column, row),
        value=value,
        host=str(getattr(row, column.host)),
        workspace_id=_workspace(column, row),
    )
    stored = Credential.objects.get(pk=made.pk)
    if rows.take(stored)[0] != value.strip():
        raise box.unreadable()
    changes: dict[str, Any] = {column.reference: stored.reference}
    if column.value != column.reference:
        field = _model(column)._meta.get_field(column.value)
        changes[column.value] = None if field.null else ""
    _model(column)._default_manager.filter(pk=pk).update(**changes)
    audit.record(
        None, "credential.import", stored, workspace_id=stored.workspace_id, name=stored.name, source=column.model
    )


def _model(column: PlaintextColumn) -> type[models.Model]:
    try:
        model = apps.get_model(column.model)
        for name in (column.value, column.host, column.reference, *filter(None, (column.name,))):
            model._meta.get_field(name)
    except (LookupError, ValueError, FieldDoesNotExist) as error:
        raise Invalid("There is no such model or column: %(reason)s", code="column_unknown", reason=error) from error
    return model


def _holding(column: PlaintextColumn) -> models.QuerySet[Any]:
    found = _model(column)._default_manager.exclude(**{column.value: ""})
    found = found.exclude(**{f"{column.value}__isnull": True})
    for start in (SEALED, ENVIRONMENT):
        found = found.exclude(**{f"{column.value}__startswith": start})
    return found


def _workspace(column: PlaintextColumn, row: Any) -> int | None:
    found: int | None = getattr(row, column.workspace, None)
    return found


def _free_name(column: PlaintextColumn, row: Any) -> str:
    """The row's name, with its primary key behind it when a credential of that name is there already."""
    name = str(getattr(row, column.name) if column.name else row)[:80] or column.model
    owners = Credential.objects.filter(name=name).values_list("workspace_id", flat=True)
    return f"{name} ({row.pk})" if _workspace(column, row) in owners else name
