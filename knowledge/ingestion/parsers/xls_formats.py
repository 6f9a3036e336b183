"""The number formats of an old workbook, which calamine does not hand out: percentages and padded numbers.

Only BIFF8 (Excel 97 and later) is read. Source: [MS-XLS] 2.4.28 (BoundSheet8), 2.4.126 (Format),
2.4.353 (XF), 2.4.122, 2.4.175, 2.4.180 and 2.4.220 (cells).
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator

import olefile

from knowledge.ingestion.parsers.sheet_formats import BUILT_IN, display, is_date
from knowledge.ingestion.parsers.sheet_numbers import Show
from portal.kernel.errors import ParseError

BOF, EOF, BOUND_SHEET, FORMAT, XF = 0x0809, 0x000A, 0x0085, 0x041E, 0x00E0
FORMULA, NUMBER, RK, MULTIPLE_RK, BOOL_ERROR = 0x0006, 0x0203, 0x027E, 0x00BD, 0x0205
DIMENSIONS = 0x0200
CELLS = frozenset({FORMULA, NUMBER, RK, MULTIPLE_RK, BOOL_ERROR, 0x0204, 0x00FD, 0x00D6, 0x0201, 0x00BE})
BIFF8 = 0x0600
LAST_ROW, LAST_COLUMN = 65_536, 256
Shows = dict[tuple[int, int], Show]  # (row, column), both from 0


class SheetMarks:
    """What the records of one sheet say beyond its values: how cells are shown, and which hold errors."""

    def __init__(self) -> None:
        self.shows: Shows = {}
        self.errors: list[tuple[int, int]] = []


def sheet_marks(data: bytes) -> list[SheetMarks]:
    """For each sheet in order; an empty list if the file is no BIFF8 or can not be followed.

    Raises `ParseError` (`damaged_file`) for a sheet that claims to be larger than any can be.
    """
    try:
        with olefile.OleFileIO(io.BytesIO(data)) as container:
            if not container.exists("Workbook"):
                return []
            stream = container.openstream("Workbook").read()
        return _marks(stream)
    except (OSError, ValueError, IndexError, TypeError, AttributeError, struct.error):
        return []


def _marks(stream: bytes) -> list[SheetMarks]:
    codes = dict(BUILT_IN)
    kinds: list[int] = []
    starts: list[int] = []
    for kind, at, size in _records(stream, 0):
        if kind == BOF and struct.unpack_from("<H", stream, at)[0] != BIFF8:
            return []
        if kind == BOUND_SHEET:
            starts.append(struct.unpack_from("<I", stream, at)[0])
        elif kind == FORMAT and size >= 5:
            codes[struct.unpack_from("<H", stream, at)[0]] = _string(stream, at + 2, at + size)
        elif kind == XF:
            kinds.append(struct.unpack_from("<H", stream, at + 2)[0])
    styles = [_show(codes.get(kind, "")) for kind in kinds]
    return [_sheet(stream, start, styles) for start in starts]


def _show(code: str) -> Show | None:
    """Dates come from calamine as dates, so only what is left is shown here."""
    return None if is_date(code) else display(code)


def _sheet(stream: bytes, start: int, styles: list[Show | None]) -> SheetMarks:
    marks = SheetMarks()
    for kind, at, size in _records(stream, start):
        if kind in CELLS and size >= 4 and struct.unpack_from("<H", stream, at + 2)[0] >= LAST_COLUMN:
            raise _impossible()
        if kind in (FORMULA, NUMBER, RK) and size >= 6:
            row, column, style = struct.unpack_from("<HHH", stream, at)
            show = styles[style] if style < len(styles) else None
            if show is not None:
                marks.shows[row, column] = show
        elif kind == MULTIPLE_RK and size >= 6:
            row, column = struct.unpack_from("<HH", stream, at)
            for place in range((size - 6) // 6):
                style = struct.unpack_from("<H", stream, at + 4 + place * 6)[0]
                show = styles[style] if style < len(styles) else None
                if show is not None:
                    marks.shows[row, column + place] = show
        elif kind == DIMENSIONS and size >= 14:
            top, bottom, left, right = struct.unpack_from("<IIHH", stream, at)
            if not (top <= bottom <= LAST_ROW and left <= right <= LAST_COLUMN):
                raise _impossible()
        elif kind == BOOL_ERROR and size >= 8 and stream[at + 7]:
            marks.errors.append(struct.unpack_from("<HH", stream, at))
    return marks


def _impossible() -> ParseError:
    """calamine reserves memory for whatever size a file claims, and a process without memory dies."""
    return ParseError("The file is damaged or incomplete.", code="damaged_file")


def _records(stream: bytes, position: int) -> Iterator[tuple[int, int, int]]:
    """(kind, offset of the data, size) up to the end of the substream; charts inside it are passed over."""
    depth = 0
    while position + 4 <= len(stream):
        kind, size = struct.unpack_from("<HH", stream, position)
        position += 4
        depth += (kind == BOF) - (kind == EOF)
        if depth <= 1 and position + size <= len(stream):
            yield kind, position, size
        if depth <= 0 and kind == EOF:
            return
        position += size


def _string(stream: bytes, at: int, end: int) -> str:
    length, wide = struct.unpack_from("<HB", stream, at)
    raw = stream[at + 3 : min(end, at + 3 + length * (2 if wide & 1 else 1))]
    return raw.decode("utf-16-le" if wide & 1 else "latin-1", "replace")
