"""The empty sheet that people fill in with questions and answers, as CSV and as a workbook written by hand.

The workbook is the smallest that spreadsheet programs open without a word (ECMA-376 part 1): four parts, no styles.
"""

from __future__ import annotations

import csv
import io
import zipfile
from xml.sax.saxutils import escape

from django.utils.translation import gettext

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def rows() -> list[list[str]]:
    """Head and two examples, in the reader's language."""
    return [
        [gettext("Question"), gettext("Answer"), gettext("Similar questions"), gettext("Tags")],
        [
            gettext("How many days of leave do I have?"),
            gettext("Twenty-five working days a year."),
            gettext("How long is my holiday?; How much vacation do we get?"),
            gettext("leave, contract"),
        ],
        [gettext("Where do I report a broken laptop?"), gettext("At the service desk, extension 100."), "", ""],
    ]


def as_csv() -> bytes:
    """With a mark at the start, by which spreadsheet programs know the encoding."""
    out = io.StringIO()
    csv.writer(out).writerows(rows())
    return out.getvalue().encode("utf-8-sig")


def as_workbook() -> bytes:
    """The same as XLSX."""
    lines = []
    for number, cells in enumerate(rows(), start=1):
        inner = "".join(
            f'<c r="{chr(64 + column)}{number}" t="inlineStr"><is><t xml:space="preserve">{escape(cell)}</t></is></c>'
            for column, cell in enumerate(cells, start=1)
        )
        lines.append(f'<row r="{number}">{inner}</row>')
    widths = "".join(
        f'<col min="{n}" max="{n}" width="{w}" customWidth="1"/>' for n, w in enumerate((40, 60, 40, 20), 1)
    )
    parts = {
        "[Content_Types].xml": (
            f'<Types xmlns="{_PACKAGE}/content-types">'
            '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Override PartName="/xl/workbook.xml" ContentType="{XLSX}.main+xml"/>'
            '<Override PartName="/xl/worksheets/sheet1.xml" '
            'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>'
        ),
        "_rels/.rels": _relation("officeDocument", "xl/workbook.xml"),
        "xl/workbook.xml": (
            f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>'
            f'<sheet name="{escape(gettext("Questions"))}" sheetId="1" r:id="rId1"/></sheets></workbook>'
        ),
        "xl/_rels/workbook.xml.rels": _relation("worksheet", "worksheets/sheet1.xml"),
        "xl/worksheets/sheet1.xml": (
            f'<worksheet xmlns="{_MAIN}"><cols>{widths}</cols><sheetData>{"".join(lines)}</sheetData></worksheet>'
        ),
    }
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as package:
        for name, text in parts.items():
            package.writestr(name, f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n{text}')
    return data.getvalue()


def _relation(kind: str, target: str) -> str:
    return (
        f'<Relationships xmlns="{_PACKAGE}/relationships">'
        f'<Relationship Id="rId1" Type="{_OFFICE}/{kind}" Target="{target}"/></Relationships>'
    )
