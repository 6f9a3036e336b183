"""The account book as CSV, line by line: a year of it must not fill the memory."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any

from django.db.models import Model, QuerySet
from django.utils.translation import gettext as _

from portal.kernel.csv_cells import inert

_BOM = "\ufeff"  # without it, spreadsheets guess the encoding, and guess wrongly for Chinese


class _Line:
    """A file that hands back what is written to it."""

    def write(self, text: str) -> str:
        return text


def csv_lines(rows: QuerySet[Any]) -> Iterator[str]:
    """A head and a line for each row; people, departments, keys and endpoints by name.

    The purpose stands as the stable word that programs look for, and at the end as people call it.
    """
    model: type[Model] = rows.model
    fields = [field for field in model._meta.concrete_fields if field.name not in {"id", "attempts"}]
    relations = [field.name for field in fields if field.is_relation]
    writer: Any = csv.writer(_Line(), lineterminator="\r\n")
    yield _BOM + writer.writerow([*(field.name for field in fields), str(_("what for"))])
    for row in rows.select_related(*relations).iterator(chunk_size=2000):
        cells = [_cell(getattr(row, field.name)) for field in fields]
        yield writer.writerow([*cells, inert(row.get_purpose_display())])


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    return inert(str(value)) if isinstance(value, str | Model) else str(value)
