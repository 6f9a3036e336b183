"""Old binary workbooks (`.xls`), read by python-calamine.

calamine gives values but not number formats, so percentages show as fractions here; dates come as dates.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta

from python_calamine import CalamineError, CalamineSheet, CalamineWorkbook, PasswordError, SheetVisibleEnum

from knowledge.ingestion.blocks import Block, ParseContext, ParsedDocument, Source, assemble
from knowledge.ingestion.parsers.sheet_cells import Merge, Room, Row, Sheet, unescaped
from knowledge.ingestion.parsers.sheet_formats import number_text
from knowledge.ingestion.parsers.sheet_regions import sheet_blocks
from portal.kernel.errors import ParseError

MIME = "application/vnd.ms-excel"


def parse(source: Source, context: ParseContext) -> ParsedDocument:
    """An old workbook as blocks: per sheet a heading and its tables.

    Raises `ParseError`: `password_protected`, `damaged_file`, `too_large`, `no_text`.
    """
    blocks: list[Block] = []
    warnings: list[str] = []
    room = Room(context.max_cells, context.max_text)
    try:
        with CalamineWorkbook.from_path(str(source.path)) as workbook:
            total = len(workbook.sheets_metadata)
            for index, listed in enumerate(workbook.sheets_metadata):
                hidden = listed.visible != SheetVisibleEnum.Visible
                sheet = _sheet(workbook.get_sheet_by_index(index), room)
                found = sheet_blocks(sheet, unescaped(listed.name), mark="hidden" if hidden else "")
                if hidden and found:
                    warnings.append(f'hidden_sheet: The sheet "{listed.name}" is hidden in the workbook.')
                blocks.extend(found)
                context.progress(index + 1, total)
    except PasswordError as error:
        raise ParseError(
            "The file is protected by a password; save it without one.", code="password_protected"
        ) from error
    except (CalamineError, ValueError, OverflowError) as error:
        raise ParseError("The file is damaged or incomplete.", code="damaged_file") from error
    if not blocks:
        raise ParseError("No text was found in this file.", code="no_text")
    return assemble(MIME, blocks, warnings=warnings)


def _sheet(found: CalamineSheet, room: Room) -> Sheet:
    rows: list[Row] = []
    if found.start is None:
        return Sheet()
    for number, values in enumerate(found.iter_rows(), start=1):
        cells = {column: text for column, value in enumerate(values, start=1) if (text := shown(value))}
        if cells:
            room.take(len(cells), sum(map(len, cells.values())))
            rows.append((number, cells))
    merges = [
        Merge(top + 1, left + 1, bottom + 1, right + 1)
        for (top, left), (bottom, right) in found.merged_cell_ranges or ()
    ]
    return Sheet(rows=rows, merges=merges)


def shown(value: object) -> str:
    """A calamine value as text: falsy values kept, dates ISO-like, whole floats without `.0`."""
    if isinstance(value, str):
        return unescaped(value)
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return number_text(repr(value).removesuffix(".0"))
    if isinstance(value, datetime):
        midnight = value.time() == time()
        return f"{value:%Y-%m-%d}" if midnight else f"{value:%Y-%m-%d %H:%M}" + (f":{value:%S}" if value.second else "")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, time):
        return f"{value:%H:%M:%S}" if value.second else f"{value:%H:%M}"
    if isinstance(value, timedelta):
        seconds = round(value.total_seconds())
        return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return ""
