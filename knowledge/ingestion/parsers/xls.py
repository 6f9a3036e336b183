"""Old binary workbooks (`.xls`), read by python-calamine.

calamine gives values, with dates as dates; how percentages and padded numbers are shown comes from
`xls_formats.py`.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta

from python_calamine import CalamineError, CalamineSheet, CalamineWorkbook, PasswordError, SheetVisibleEnum

from knowledge.ingestion.blocks import Block, ParseContext, ParsedDocument, Source, assemble
from knowledge.ingestion.parsers.ooxml import is_encrypted, is_ole
from knowledge.ingestion.parsers.sheet_cells import Merge, Room, Row, Sheet, column_letters, unescaped
from knowledge.ingestion.parsers.sheet_numbers import number_text
from knowledge.ingestion.parsers.sheet_regions import sheet_blocks, sheet_warnings
from knowledge.ingestion.parsers.xls_formats import SheetMarks, sheet_marks
from portal.kernel.errors import ParseError

MIME = "application/vnd.ms-excel"
# A failed assertion in Rust surfaces as this class, which is no Exception and can not be imported.
RUST_PANIC = "PanicException"


def parse(source: Source, context: ParseContext) -> ParsedDocument:
    """An old workbook as blocks: per sheet a heading and its tables.

    Raises `ParseError`: `empty_file`, `type_mismatch`, `password_protected`, `damaged_file`, `too_large`, `no_text`.
    """
    if not is_ole(source.path):
        empty = not source.path.stat().st_size
        message = "The file is empty." if empty else "The content of this file is not what its name says."
        raise ParseError(message, code="empty_file" if empty else "type_mismatch")
    if is_encrypted(source.path):
        raise ParseError("The file is protected by a password; save it without one.", code="password_protected")
    marks = sheet_marks(source.read())
    try:
        with CalamineWorkbook.from_path(str(source.path)) as workbook:
            blocks, warnings = _blocks(workbook, marks, context)
    except PasswordError as error:
        raise ParseError(
            "The file is protected by a password; save it without one.", code="password_protected"
        ) from error
    except BaseException as error:
        if isinstance(error, CalamineError | ValueError | OverflowError) or type(error).__name__ == RUST_PANIC:
            raise ParseError("The file is damaged or incomplete.", code="damaged_file") from error
        raise
    if not blocks:
        raise ParseError("No text was found in this file.", code="no_text")
    return assemble(MIME, blocks, warnings=warnings)


def _blocks(
    workbook: CalamineWorkbook, marks: list[SheetMarks], context: ParseContext
) -> tuple[list[Block], list[str]]:
    blocks: list[Block] = []
    warnings: list[str] = []
    room = Room(context.max_cells, context.max_text)
    total = len(workbook.sheets_metadata)
    marks = marks if len(marks) == total else [SheetMarks()] * total
    for index, listed in enumerate(workbook.sheets_metadata):
        hidden = listed.visible != SheetVisibleEnum.Visible
        name = unescaped(listed.name)
        sheet = _sheet(workbook.get_sheet_by_index(index), room, marks[index])
        found = sheet_blocks(sheet, name, mark="hidden" if hidden else "")
        warnings.extend(sheet_warnings(name, "hidden" if hidden else "visible", sheet, shown=bool(found)))
        blocks.extend(found)
        context.progress(index + 1, total)
    return blocks, warnings


def _sheet(found: CalamineSheet, room: Room, marks: SheetMarks) -> Sheet:
    rows: list[Row] = []
    if found.start is None:
        return Sheet()
    shows = marks.shows
    # calamine gives the blank rows above the first filled one, but not the blank columns before it.
    first_column = found.start[1]
    for row, values in enumerate(found.iter_rows()):
        cells: dict[int, str] = {}
        for column, value in enumerate(values, start=first_column):
            show = shows.get((row, column)) if shows and isinstance(value, float) else None
            text = show(_digits(value)) if show is not None else shown(value)
            if text:
                cells[column + 1] = text
        if cells:
            room.take(len(cells), sum(map(len, cells.values())))
            rows.append((row + 1, cells))
    merges = [
        Merge(top + 1, left + 1, bottom + 1, right + 1)
        for (top, left), (bottom, right) in found.merged_cell_ranges or ()
    ]
    errors = [f"{column_letters(column + 1)}{row + 1}" for row, column in marks.errors]
    return Sheet(rows=rows, merges=merges, errors=errors)


def shown(value: object) -> str:
    """A calamine value as text: falsy values kept, dates ISO-like, whole floats without `.0`."""
    if isinstance(value, str):
        return unescaped(value)
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return number_text(_digits(value))
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


def _digits(value: object) -> str:
    return repr(value).removesuffix(".0")
