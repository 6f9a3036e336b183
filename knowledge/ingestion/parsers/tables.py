"""Tables as text: a grid of cells becomes a Markdown pipe table, one line a row.

Spans are placed here too, so that every format treats merged cells alike: the value stands once, at
the first cell of the span, and the cells it covers are blank.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_SPACE = re.compile(r"\s*\n\s*|[\t\u2028\u2029]")
MAX_COLUMNS = 16_384


class Cell(NamedTuple):
    """A cell with its text and how many columns and rows it spans (1 and 1 when it is not merged)."""

    text: str
    columns: int = 1
    rows: int = 1


def place(rows: Iterable[Iterable[Cell]], *, max_cells: int = 2_000_000) -> list[list[str]]:
    """Rows of cells with spans, HTML style, as a grid of strings in which each value stands once.

    A span that claims more than is there is cut: at 16,384 columns, and at the last row.
    """
    grid: list[list[str]] = []
    hanging: dict[int, int] = {}  # column -> rows that a cell above still covers
    count = 0
    for row in rows:
        line: list[str] = []
        for cell in row:
            while hanging.get(len(line), 0):
                line.append("")
            first = len(line)
            width = max(1, min(cell.columns, MAX_COLUMNS - first))
            count += width
            if count > max_cells:
                break
            line.extend([cell.text, *[""] * (width - 1)])
            if cell.rows > 1:
                for column in range(first, first + width):
                    hanging[column] = cell.rows
        hanging = {column: left - 1 for column, left in hanging.items() if left > 1}
        grid.append(line)
        if count > max_cells:
            break
    return grid


def markdown_table(rows: Sequence[Sequence[str]], header_rows: int = 1) -> str:
    """A grid as a pipe table: head row, `|---|` row, body rows.

    Rows may be ragged; they are padded. `|` is escaped, line breaks inside a cell become spaces.
    `header_rows` above 1 are joined column by column into the one head row that Markdown has; with 0
    the head row is blank. An empty grid gives "".
    """
    width = max((len(row) for row in rows), default=0)
    if not width:
        return ""
    head = [_joined([row[column] for row in rows[:header_rows] if column < len(row)]) for column in range(width)]
    rule = "|" + "---|" * width
    return "\n".join([_line(head, width), rule, *(_line(row, width) for row in rows[header_rows:])])


def trimmed(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The grid without rows and columns that are blank from edge to edge."""
    kept = [row for row in rows if any(cell.strip() for cell in row)]
    used = sorted({column for row in kept for column, cell in enumerate(row) if cell.strip()})
    return [[row[column] if column < len(row) else "" for column in used] for row in kept]


def cell_text(text: str) -> str:
    """`text` as it stands in a pipe table: on one line, `|` escaped."""
    text = text.strip()
    if "\n" in text or "\t" in text or "\u2028" in text or "\u2029" in text:
        text = _SPACE.sub(" ", text)
    return text.replace("|", "\\|") if "|" in text else text


def _line(row: Sequence[str], width: int) -> str:
    joined = " | ".join(row)
    if joined.count("|") != max(len(row) - 1, 0) or "\n" in joined or _SPACE.search(joined):
        joined = " | ".join(map(cell_text, row))
    return f"| {joined}{' | ' * (width - len(row))} |"


def _joined(cells: Sequence[str]) -> str:
    return " ".join(dict.fromkeys(cell.strip() for cell in cells if cell.strip()))
