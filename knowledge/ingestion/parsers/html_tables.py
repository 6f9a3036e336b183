"""HTML tables: which hold data and which only arrange a page, and how data tables become pipe tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from knowledge.ingestion.parsers.tables import Cell, markdown_table, place, trimmed

Node = Any
MAX_SPAN = 10_000
MAX_HEAD_ROWS = 3


def is_layout(table: Node) -> bool:
    """Whether a table arranges a page: old pages and e-mails put whole articles into its cells."""
    if table.attributes.get("role") in ("presentation", "none"):
        return True
    rows, caption = own_rows(table)
    if caption or any(cell.tag == "th" for row in rows for cell in row):
        return False
    if max(map(len, rows), default=0) <= 1:
        return True
    # `css_first` also finds the table itself, hence the descendant selectors.
    return any(cell.css_first("table, h1, h2, h3, h4, h5, h6, pre") is not None for row in rows for cell in row)


def own_rows(table: Node) -> tuple[list[list[Node]], str]:
    """The cells of each row, those of nested tables left out, and the text of the caption."""
    rows: list[list[Node]] = []
    feet: list[list[Node]] = []  # drawn last, wherever they are written
    caption = ""
    for part in _children(table):
        if part.tag == "caption":
            caption = " ".join((part.text() or "").split())
        elif part.tag == "tr":
            rows.append(_cells(part))
        elif part.tag in ("thead", "tbody", "tfoot"):
            group = feet if part.tag == "tfoot" else rows
            group.extend(_cells(row) for row in _children(part) if row.tag == "tr")
    return rows + feet, caption


def table_text(rows: list[list[Node]], text_of: Callable[[Node], str], max_cells: int) -> str:
    """The rows as a pipe table: spanned values once, blank rows and columns left out."""
    grid = place(
        (
            [Cell(text_of(cell), _span(cell, "colspan"), _span(cell, "rowspan")) for cell in row]
            for row in rows
        ),
        max_cells=max_cells,
    )  # fmt: skip
    head = 0
    while head < min(MAX_HEAD_ROWS, len(rows) - 1) and rows[head] and _is_head(rows[head]):
        head += 1
    blank = sum(not any(cell.strip() for cell in row) for row in grid[:head])
    return markdown_table(trimmed(grid), header_rows=max(1, head - blank))


def _is_head(row: list[Node]) -> bool:
    parent = row[0].parent.parent
    return all(cell.tag == "th" for cell in row) or (parent is not None and parent.tag == "thead")


def _cells(row: Node) -> list[Node]:
    return [cell for cell in _children(row) if cell.tag in ("td", "th")]


def _children(node: Node) -> list[Node]:
    found = []
    child = node.child
    while child is not None:
        found.append(child)
        child = child.next
    return found


def _span(cell: Node, name: str) -> int:
    try:
        return max(1, min(int(cell.attributes.get(name) or 1), MAX_SPAN))
    except ValueError:
        return 1
