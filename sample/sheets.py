"""Draws a JSON table as an Excel workbook: typed cells, frozen head, filters."""

from __future__ import annotations

import io
from datetime import date
from typing import Any

from openpyxl import Workbook
from openpyxl.styles import Alignment, Border, Font, PatternFill, Side
from openpyxl.utils import get_column_letter

from sample.archive import repack

FORMATS = {"text": "@", "money": "#,##0.00", "number": "0", "percent": "0.0%", "date": "yyyy-mm-dd"}
_LINE = Side(style="thin", color="FFB7C2CE")


def render_workbook(content: dict[str, Any]) -> bytes:
    """The bytes of the .xlsx. Each sheet has `name`, `columns` of (name, type, width) and `rows`.

    Column types: the keys of `FORMATS`; a date is an ISO string, a percentage a fraction of one.
    """
    book = Workbook()
    book.remove(book.active)
    book.properties.title, book.properties.creator = content["title"], "Clearbrook Sensing"
    for sheet in content["sheets"]:
        page = book.create_sheet(sheet["name"])
        columns = sheet["columns"]
        page.append([column["name"] for column in columns])
        for row in sheet["rows"]:
            page.append([_value(value, column["type"]) for value, column in zip(row, columns, strict=True)])
        _dress(page, columns)
    target = io.BytesIO()
    book.save(target)
    return repack(target.getvalue())


def _value(value: Any, kind: str) -> Any:
    return date.fromisoformat(value) if kind == "date" else value


def _dress(page: Any, columns: list[dict[str, Any]]) -> None:
    page.freeze_panes = "B2"
    page.auto_filter.ref = page.dimensions
    page.row_dimensions[1].height = 32
    page.page_setup.orientation, page.page_setup.fitToWidth = "landscape", 1
    for index, column in enumerate(columns, start=1):
        page.column_dimensions[get_column_letter(index)].width = column["width"]
        for (cell,) in page.iter_rows(min_col=index, max_col=index):
            cell.border = Border(bottom=_LINE)
            cell.number_format = FORMATS[column["type"]]
            cell.alignment = Alignment(vertical="center", wrap_text=cell.row == 1)
        head = page.cell(1, index)
        head.number_format = "General"
        head.font = Font(bold=True, color="FFFFFFFF")
        head.fill = PatternFill("solid", fgColor="FF0B6477")
