"""The cells of one worksheet part, streamed: only filled cells cost anything, whatever range the file claims.

Source: ECMA-376 part 1, 18.3.1 (worksheets) and 18.4 (shared strings).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from knowledge.ingestion.parsers.characters import storable
from knowledge.ingestion.parsers.sheet_formats import Format
from knowledge.ingestion.parsers.sheet_numbers import number_text
from knowledge.ingestion.parsers.sheet_scan import HEAD, Rewound, Scan, UsualCell, scan_of, usual_cells
from knowledge.ingestion.parsers.xml import Element, Readable, integer, iterate_xml, parse_xml
from portal.kernel.errors import ParseError

_ESCAPE = re.compile(r"_x([0-9A-Fa-f]{4})_")
_ISO_MIDNIGHT = re.compile(r"T00:00(:00(\.0+)?)?Z?$")
_RANGE = re.compile(r"([A-Z]{1,3})([0-9]{1,7}):([A-Z]{1,3})([0-9]{1,7})")
_DIGITS = "0123456789"
LAST_ROW, LAST_COLUMN = 1_048_576, 16_384
PROGRESS_ROWS = 5_000

Row = tuple[int, dict[int, str]]


class Merge(NamedTuple):
    """A merged range; rows and columns count from 1, ends included."""

    top: int
    left: int
    bottom: int
    right: int


class Room:
    """What a workbook may still fill: cells and characters, over all its sheets."""

    def __init__(self, cells: int, text: int) -> None:
        self.cells, self.text = cells, text

    def take(self, cells: int, text: int) -> None:
        """Raises `ParseError` (`too_large`) when either is used up."""
        self.cells -= cells
        self.text -= text
        if self.cells < 0 or self.text < 0:
            raise ParseError("The workbook holds more cells or text than can be read.", code="too_large")


@dataclass(slots=True)
class Sheet:
    """The filled cells of a sheet: (row number, {column number: text}), rows ascending, both from 1."""

    rows: list[Row] = field(default_factory=list)
    merges: list[Merge] = field(default_factory=list)
    uncached: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    damaged: bool = False


def shared_strings(stream: Readable) -> list[str]:
    """The shared strings of a workbook in order, runs joined, phonetic guides left out."""
    found: list[str] = []
    for item in iterate_xml(stream, ("{*}si",)):
        found.append(rich_text(item))
        item.clear()
        before = item.getprevious()
        if before is not None:
            item.getparent().remove(before)
    return found


def rich_text(item: Element) -> str:
    """The text of `<si>`, `<is>` or `<text>`: direct `<t>` and the `<t>` of runs, not of `<rPh>`."""
    parts: list[str] = []
    for child in item:
        name = child.tag.rpartition("}")[2]
        if name == "t":
            parts.append(child.text or "")
        elif name == "r":
            parts.extend(t.text or "" for t in child.iterchildren("{*}t"))
    return unescaped("".join(parts))


def unescaped(text: str) -> str:
    """Excel's `_x000D_` escapes resolved, characters that can not be stored taken out."""
    if "_x" in text:
        text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
    return storable(text)


def read_sheet(
    stream: Readable,
    strings: Sequence[str],
    formats: Sequence[Format],
    room: Room,
    tick: Callable[[], None] = lambda: None,
) -> Sheet:
    """The filled cells of a worksheet part as they are shown.

    A part that breaks off is kept up to there (`damaged`). Raises `ParseError`: `too_large`,
    `unsafe_xml`, `archive_limit`.
    """
    reader = _Reader(strings, formats)
    sheet = reader.sheet
    try:
        head = stream.read(HEAD)
        whole = Rewound(head, stream)
        scan = scan_of(head, whole)
        for number, filled in enumerate(_scanned(reader, scan) if scan else _walked(reader, whole)):
            room.take(*filled)
            if number % PROGRESS_ROWS == PROGRESS_ROWS - 1:
                tick()
    except ParseError as error:
        if error.code != "damaged_file":
            raise
        sheet.damaged = True
    if any(later[0] <= earlier[0] for earlier, later in pairwise(sheet.rows)):
        sheet.rows = _in_order(sheet.rows)
    return sheet


def _walked(reader: _Reader, stream: Readable) -> Iterator[tuple[int, int]]:
    """Any worksheet, element by element; gives (cells, characters) of each row."""
    for element in iterate_xml(stream, ("{*}row", "{*}mergeCell")):
        if element.tag.endswith("}mergeCell"):
            reader.merge(element.get("ref", ""))
        else:
            yield reader.row(element)
        element.clear()
        before = element.getprevious()
        if before is not None:
            element.getparent().remove(before)


def _scanned(reader: _Reader, scan: Scan) -> Iterator[tuple[int, int]]:
    """A worksheet as most programs write it, in a third of the time; an unusual row is walked."""
    for number, content in scan.rows():
        cells = usual_cells(content)
        if cells is not None:
            yield reader.usual_row(number, cells)
            continue
        try:
            element = parse_xml(scan.as_document(number, content))
        except ParseError as error:
            if error.code != "damaged_file":
                raise
            reader.sheet.damaged = True
            continue
        for row in element:
            yield reader.row(row)
    reader.sheet.damaged = reader.sheet.damaged or not scan.complete
    for reference in scan.merges():
        reader.merge(reference)


class _Reader:
    """Turns row elements into rows of text; kept apart from the stream for the speed of local state."""

    def __init__(self, strings: Sequence[str], formats: Sequence[Format]) -> None:
        self.sheet = Sheet()
        self._strings = strings
        self._by_style = {str(style): form.number for style, form in enumerate(formats) if form.number is not None}
        self._texts = {str(style): form.text for style, form in enumerate(formats) if form.text is not None}
        self._columns: dict[str, int] = {}
        self._row = 0

    def merge(self, reference: str) -> None:
        merge = merge_of(reference)
        if merge:
            self.sheet.merges.append(merge)

    def row(self, element: Element) -> tuple[int, int]:
        """Read a row element; the numbers of filled cells and characters."""
        self._row = integer(element.get("r"), self._row + 1)
        cells: dict[int, str] = {}
        column = 0
        for cell in element:
            reference = cell.get("r")
            column = self._column(reference.rstrip(_DIGITS), column) if reference else column + 1
            if len(cell):
                text = self._value(cell, column)
                if text:
                    cells[column] = text
        return self._keep(cells)

    def usual_row(self, number: int | None, found: list[UsualCell]) -> tuple[int, int]:
        """Read the cells of a row that `usual_cells` recognised."""
        self._row = self._row + 1 if number is None else number
        cells: dict[int, str] = {}
        column = 0
        strings, shows, texts = self._strings, self._by_style, self._texts
        for letters, style, kind, formula, raw, inline in found:
            column = self._columns.get(letters) or (self._column(letters, column) if letters else column + 1)
            if not raw:
                if inline:
                    text = unescaped(inline)
                    if style in texts:
                        text = texts[style](text)
                    if text:
                        cells[column] = text
                elif formula and kind != "str":
                    self.sheet.uncached.append(f"{column_letters(column)}{self._row}")
                continue
            if kind == "s":
                index = integer(raw, -1)
                text = strings[index] if 0 <= index < len(strings) else ""
                if style in texts:
                    text = texts[style](text)
            elif not kind or kind == "n":
                show = shows.get(style)
                text = show(raw) if show is not None else number_text(raw)
            else:
                text = self._special(kind, raw, column, style)
            if text:
                cells[column] = text
        return self._keep(cells)

    def _keep(self, cells: dict[int, str]) -> tuple[int, int]:
        if not cells or not 1 <= self._row <= LAST_ROW:
            return 0, 0
        self.sheet.rows.append((self._row, cells))
        return len(cells), sum(map(len, cells.values()))

    def _column(self, letters: str, before: int) -> int:
        """The number of a column; a reference that makes no sense is the column after `before`."""
        column = self._columns.get(letters)
        if column is None:
            column = column_number(letters)
            if column is None:
                return min(before + 1, LAST_COLUMN)
            self._columns[letters] = column
        return column

    def _value(self, cell: Element, column: int) -> str:
        raw, formula = "", False
        for child in cell:
            name = child.tag
            if name.endswith("}v"):
                raw = (child.text or "").strip() if cell.get("t") != "str" else child.text or ""
            elif name.endswith("}f"):
                formula = True
            elif name.endswith("}is"):
                return self._as_text(rich_text(child), cell.get("s", ""))
        kind = cell.get("t")
        if formula and not raw and kind != "str":
            self.sheet.uncached.append(f"{column_letters(column)}{self._row}")
        if not raw:
            return ""
        if kind is None or kind == "n":
            show = self._by_style.get(cell.get("s", ""))
            return show(raw) if show is not None else number_text(raw)
        if kind == "s":
            index = integer(raw, -1)
            return self._as_text(self._strings[index] if 0 <= index < len(self._strings) else "", cell.get("s", ""))
        return self._special(kind, raw, column, cell.get("s", ""))

    def _as_text(self, text: str, style: str) -> str:
        show = self._texts.get(style)
        return text if show is None else show(text)

    def _special(self, kind: str, raw: str, column: int, style: str) -> str:
        if kind == "b":
            return "TRUE" if raw in ("1", "true") else "FALSE"
        if kind == "e":
            self.sheet.errors.append(f"{column_letters(column)}{self._row}")
            return raw
        if kind == "d":
            return _ISO_MIDNIGHT.sub("", raw).replace("T", " ")
        return self._as_text(unescaped(raw), style)


def _in_order(rows: list[Row]) -> list[Row]:
    joined: dict[int, dict[int, str]] = {}
    for number, cells in rows:
        joined.setdefault(number, {}).update(cells)
    return sorted(joined.items())


def merge_of(reference: str) -> Merge | None:
    """`A1:C3` as numbers; None if it is not a range of more than one cell."""
    found = _RANGE.fullmatch(reference.replace("$", ""))
    if found is None or found[1] + found[2] == found[3] + found[4]:
        return None
    left, right = column_number(found[1]), column_number(found[3])
    top, bottom = int(found[2]), int(found[4])
    if left is None or right is None or right < left or bottom < top:
        return None
    return Merge(top, left, bottom, right)


def column_number(letters: str) -> int | None:
    """`A` is 1, `XFD` 16,384; None for what is no column."""
    number = 0
    for letter in letters:
        if not "A" <= letter <= "Z":
            return None
        number = number * 26 + ord(letter) - 64
        if number > LAST_COLUMN:
            return None
    return number or None


def column_letters(number: int) -> str:
    """The opposite of `column_number`."""
    letters = ""
    while number > 0:
        number, rest = divmod(number - 1, 26)
        letters = chr(65 + rest) + letters
    return letters
