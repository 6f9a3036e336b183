"""The cells of one worksheet part, streamed: only filled cells cost anything, whatever range the file claims.

Source: ECMA-376 part 1, 18.3.1 (worksheets) and 18.4 (shared strings).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, NamedTuple

from knowledge.ingestion.parsers.characters import storable
from knowledge.ingestion.parsers.sheet_formats import Show, number_text
from knowledge.ingestion.parsers.xml import Element, iterate_xml
from portal.kernel.errors import ParseError

_ESCAPE = re.compile(r"_x([0-9A-Fa-f]{4})_")
_ISO_MIDNIGHT = re.compile(r"T00:00(:00(\.0+)?)?Z?$")
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


def shared_strings(stream: IO[bytes]) -> list[str]:
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
    stream: IO[bytes],
    strings: Sequence[str],
    shows: Sequence[Show | None],
    room: Room,
    tick: Callable[[], None] = lambda: None,
) -> Sheet:
    """The filled cells of a worksheet part as they are shown.

    A part that breaks off is kept up to there (`damaged`). Raises `ParseError`: `too_large`,
    `unsafe_xml`, `archive_limit`.
    """
    reader = _Reader(strings, shows)
    sheet = reader.sheet
    try:
        for element in iterate_xml(stream, ("{*}row", "{*}mergeCell")):
            if element.tag.endswith("}mergeCell"):
                merge = merge_of(element.get("ref", ""))
                if merge:
                    sheet.merges.append(merge)
                element.clear()
                continue
            reader.row(element)
            room.take(*reader.spent())
            element.clear()
            before = element.getprevious()
            if before is not None:
                element.getparent().remove(before)
            if len(sheet.rows) % PROGRESS_ROWS == PROGRESS_ROWS - 1:
                tick()
    except ParseError as error:
        if error.code != "damaged_file":
            raise
        sheet.damaged = True
    if any(later[0] <= earlier[0] for earlier, later in zip(sheet.rows, sheet.rows[1:], strict=False)):
        sheet.rows = _in_order(sheet.rows)
    return sheet


class _Reader:
    """Turns row elements into rows of text; kept apart from the stream for the speed of local state."""

    def __init__(self, strings: Sequence[str], shows: Sequence[Show | None]) -> None:
        self.sheet = Sheet()
        self._strings = strings
        self._shows = shows
        self._columns: dict[str, int] = {}
        self._row = 0
        self._cells = self._text = 0

    def spent(self) -> tuple[int, int]:
        """Cells and characters read since the last call."""
        spent = self._cells, self._text
        self._cells = self._text = 0
        return spent

    def row(self, element: Element) -> None:
        number = element.get("r")
        self._row = int(number) if number and number.isdigit() else self._row + 1
        if not 1 <= self._row <= LAST_ROW:
            return
        cells: dict[int, str] = {}
        column = 0
        for cell in element:
            reference = cell.get("r")
            column = self._column(reference) if reference else column + 1
            if len(cell):
                text = self._value(cell, reference or f"{column_letters(column)}{self._row}")
                if text:
                    cells[column] = text
                    self._text += len(text)
        if cells:
            self._cells += len(cells)
            self.sheet.rows.append((self._row, cells))

    def _column(self, reference: str) -> int:
        letters = reference.rstrip(_DIGITS)
        column = self._columns.get(letters)
        if column is None:
            column = self._columns[letters] = column_number(letters)
        return column

    def _value(self, cell: Element, reference: str) -> str:
        raw: str | None = None
        formula = False
        for child in cell:
            name = child.tag
            if name.endswith("}v"):
                raw = child.text or ""
            elif name.endswith("}f"):
                formula = True
            elif name.endswith("}is"):
                return rich_text(child)
        kind = cell.get("t")
        if formula and not raw and kind != "str":
            self.sheet.uncached.append(reference)
        if not raw:
            return ""
        if kind is None or kind == "n":
            return self._number(raw, cell.get("s"))
        if kind == "s":
            index = int(raw) if raw.strip().isdigit() else -1
            return self._strings[index] if 0 <= index < len(self._strings) else ""
        return self._special(kind, raw, reference, cell.get("s"))

    def _special(self, kind: str, raw: str, reference: str, style: str | None) -> str:
        if kind == "b":
            return "TRUE" if raw.strip() in ("1", "true") else "FALSE"
        if kind == "e":
            self.sheet.errors.append(reference)
            return raw
        if kind == "d":
            return _ISO_MIDNIGHT.sub("", raw).replace("T", " ")
        return unescaped(raw)

    def _number(self, raw: str, style: str | None) -> str:
        if style and style != "0" and style.isdigit() and int(style) < len(self._shows):
            show = self._shows[int(style)]
            if show is not None:
                return show(raw.strip())
        return number_text(raw.strip())


def _in_order(rows: list[Row]) -> list[Row]:
    joined: dict[int, dict[int, str]] = {}
    for number, cells in rows:
        joined.setdefault(number, {}).update(cells)
    return sorted(joined.items())


def merge_of(reference: str) -> Merge | None:
    """`A1:C3` as numbers; None if it is not a range of more than one cell."""
    first, _, last = reference.replace("$", "").partition(":")
    try:
        left, top = column_number(first.rstrip(_DIGITS)), int(first.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
        right, bottom = column_number(last.rstrip(_DIGITS)), int(last.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    except ValueError:
        return None
    return Merge(top, left, bottom, right) if right >= left and bottom >= top and first != last else None


def column_number(letters: str) -> int:
    """`A` is 1, `XFD` 16,384; raises ValueError for what is no column."""
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - 64
    if not 1 <= number <= LAST_COLUMN:
        return LAST_COLUMN if letters.isalpha() and letters.isascii() else _no_column(letters)
    return number


def _no_column(letters: str) -> int:
    raise ValueError(f"no column: {letters!r}")


def column_letters(number: int) -> str:
    """The opposite of `column_number`."""
    letters = ""
    while number > 0:
        number, rest = divmod(number - 1, 26)
        letters = chr(65 + rest) + letters
    return letters
