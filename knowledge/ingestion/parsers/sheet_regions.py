"""Where the tables of a sheet are: blank rows and columns divide it, titles above a table head it.

A merged range holds its value once, in its first row and column; the cells it covers are blank.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace

from knowledge.ingestion.blocks import Block
from knowledge.ingestion.parsers.outline import Outline
from knowledge.ingestion.parsers.sheet_cells import Merge, Row, Sheet, column_letters
from knowledge.ingestion.parsers.tables import markdown_table

_CURRENCY = "¥￥$€£₩₹"
_NUMBER = re.compile(rf"[-+(]?[{_CURRENCY}]?\s?[-+(]?\d[\d,.:/\-\s]*(?:E[-+]\d+)?[%{_CURRENCY}元]?\)?")
MERGE_WORK = 2_000_000  # cells looked at while clearing covered cells; beyond it a file is not worth more
CAPTION_LENGTH = 120
WIDEST_BRIDGE = 100  # columns; a wider merge is a title over the whole sheet
SPACED_OUT = 10  # blocks of rows from which on a sheet of single rows counts as spaced out
MOST_REGIONS = 2_000  # a sheet in more pieces has no tables
SPARSE_AREA, SPARSE_SHARE = 100_000, 20


def sheet_blocks(sheet: Sheet, name: str, *, mark: str = "") -> list[Block]:
    """A heading with the sheet's name, then one block for each table or loose text on it.

    `mark` is added to the heading (`hidden`). An empty sheet gives no block at all. `Block.rows` are
    sheet rows; a table's last line is always row `rows[1]`, and lines above it are consecutive rows.
    """
    rows = without_covered(sheet.rows, sheet.merges)
    if not rows:
        return []
    title = f"{name} ({mark})" if mark else name
    heading = Outline().heading(1, title)
    blocks = [] if heading is None else [_at(heading, name, rows[0][0], rows[0][0])]
    root = (heading.text,) if heading else ()
    heads = {merge[:2]: merge for merge in sheet.merges}
    found = regions(rows, sheet.merges)
    if len(found) > MOST_REGIONS:
        listing = Block(kind="list", text=_listing(rows), heading_path=root)
        return [*blocks, _at(listing, name, rows[0][0], rows[-1][0])]
    for region in found:
        blocks.extend(_region_blocks(region, name, root, heads))
    return blocks


def without_covered(rows: list[Row], merges: Sequence[Merge]) -> list[Row]:
    """Rows without the values that stand under a merged range whose first cell has one (exports repeat them)."""
    by_number = dict(rows)
    numbers = [number for number, _ in rows]
    work = MERGE_WORK
    for merge in merges:
        if not by_number.get(merge.top, {}).get(merge.left):
            continue
        for number in numbers[bisect_left(numbers, merge.top) : bisect_left(numbers, merge.bottom + 1)]:
            cells = by_number[number]
            width = merge.right - merge.left + 1
            work -= min(width, len(cells)) + 1
            if work < 0:
                return [row for row in rows if row[1]]
            covered = range(merge.left, merge.right + 1) if width < len(cells) else list(cells)
            for column in covered:
                inside = merge.left <= column <= merge.right and (number, column) != (merge.top, merge.left)
                if inside and column in cells:
                    del cells[column]
    return [row for row in rows if row[1]]


def regions(rows: list[Row], merges: Sequence[Merge] = ()) -> list[list[Row]]:
    """The rows cut where a blank row or a blank column separates them, in reading order."""
    bridges = sorted(merge for merge in merges if 1 < merge.right - merge.left + 1 <= WIDEST_BRIDGE)
    bands = _bands(rows)
    if len(bands) >= SPACED_OUT and sum(len(band) == 1 for band in bands) > 0.8 * len(bands):
        bands = _bands(_without_gaps(rows))
    found: list[list[Row]] = []
    for band in bands:
        found.extend(_split_columns(band, bridges))
    found.sort(key=lambda region: (region[0][0], min(region[0][1])))
    return _rejoined(found)


def _without_gaps(rows: list[Row]) -> list[Row]:
    """A sheet that leaves every other row blank for looks: its single blank rows separate nothing."""
    filled: list[Row] = []
    for row in rows:
        if filled and row[0] == filled[-1][0] + 2:
            filled.append((row[0] - 1, {}))
        filled.append(row)
    return filled


def _bands(rows: list[Row]) -> list[list[Row]]:
    bands: list[list[Row]] = []
    last = -1
    for row in rows:
        if row[0] != last + 1:
            bands.append([])
        bands[-1].append(row)
        last = row[0]
    return bands


def _split_columns(band: list[Row], bridges: Sequence[Merge], depth: int = 0) -> list[list[Row]]:
    used: set[int] = set()
    for _, cells in band:
        used.update(cells)
    first, last = bisect_left(bridges, (band[0][0],)), bisect_left(bridges, (band[-1][0] + 1,))
    for merge in bridges[first:last]:
        if merge.left in used:
            used.update(range(merge.left, merge.right + 1))
    columns = sorted(used)
    cuts = [later for earlier, later in itertools.pairwise(columns) if later > earlier + 1]
    if not cuts or depth > 4:
        return [band]
    found: list[list[Row]] = []
    pieces: list[list[Row]] = [[] for _ in range(len(cuts) + 1)]
    for number, cells in band:
        shares: dict[int, dict[int, str]] = {}
        for column, text in cells.items():
            shares.setdefault(bisect_right(cuts, column), {})[column] = text
        for index, share in shares.items():
            pieces[index].append((number, share))
    for piece in pieces:
        for part in _bands(piece):
            found.extend(_split_columns(part, bridges, depth + 1))
    return found


def _rejoined(found: list[list[Row]]) -> list[list[Row]]:
    """A table that goes on after one blank row is one table: same columns, numbers where it had numbers."""
    joined: list[list[Row]] = []
    for region in found:
        above = joined[-1] if joined else None
        if above is not None and region[0][0] == above[-1][0] + 2 and _continues(above, region):
            above.append((above[-1][0] + 1, {}))
            above.extend(region)
        else:
            joined.append(list(region))
    return joined


def _continues(above: list[Row], below: list[Row]) -> bool:
    head, last, first = above[0][1], above[-1][1], below[0][1]
    if len(above) < 3 or len(first) < 2 or not set(first) <= set(head):
        return False
    numeric = [column for column in first if _is_number(first[column]) and _is_number(last.get(column, ""))]
    return any(not _is_number(head.get(column, "")) for column in numeric)


def _is_number(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text.strip()))


def _region_blocks(
    region: list[Row], name: str, root: tuple[str, ...], heads: dict[tuple[int, int], Merge]
) -> list[Block]:
    columns = sorted({column for _, cells in region for column in cells})
    first, last = columns[0], columns[-1]
    outline = Outline(root)
    blocks: list[Block] = []
    while first < last and len(region) > 1 and _is_caption(region[0], first, heads):
        number, cells = region.pop(0)
        text = next(iter(cells.values()))
        heading = outline.heading(2, text) if len(text) <= CAPTION_LENGTH else None
        block = heading or Block(kind="paragraph", text=text, heading_path=outline.path)
        blocks.append(_at(block, name, number, number))
    while not region[0][1]:
        region.pop(0)
    filled = sum(len(cells) for _, cells in region)
    area = len(region) * (last - first + 1)
    top = region[0][0]
    if area > SPARSE_AREA and area > filled * SPARSE_SHARE:
        kind, text = "list", _listing(region)
    elif first == last or filled == 1:
        kind, text = "paragraph", "\n".join(text.strip() for _, cells in region for text in cells.values())
    else:
        grid = [[cells.get(column, "") for column in range(first, last + 1)] for _, cells in region]
        head = _header_rows(region, first, last, heads)
        kind, text = "table", markdown_table(grid, head)
        # A head of several rows is one row of the table: counted from its last, each row keeps its own number.
        top = region[head - 1][0]
    block = Block(kind=kind, text=text, heading_path=outline.path)  # type: ignore[arg-type]
    blocks.append(_at(block, name, top, region[-1][0]))
    return blocks


def _is_caption(row: Row, first: int, heads: dict[tuple[int, int], Merge]) -> bool:
    """One cell alone above a table is its title if it stands at the left edge or is merged across."""
    number, cells = row
    if len(cells) != 1:
        return False
    column = next(iter(cells))
    merge = heads.get((number, column))
    return column == first if merge is None else merge.right > column


def _header_rows(region: list[Row], first: int, last: int, heads: dict[tuple[int, int], Merge]) -> int:
    """2 (or 3) when the head row groups columns by merging and the rows under it are text too, else 1."""
    top = region[0][0]
    merged = [heads[top, column] for column in region[0][1] if (top, column) in heads]
    if not any(1 < merge.right - merge.left + 1 <= last - first for merge in merged):
        return 1
    depth = min(max([2, *(merge.bottom - merge.top + 1 for merge in merged)]), 3, len(region) - 1)
    under = [text for _, cells in region[1:depth] for text in cells.values()]
    return depth if depth > 1 and under and not any(map(_is_number, under)) else 1


def _listing(region: Iterable[Row]) -> str:
    """Far-apart cells, each with its address, for a region that as a grid would be nearly all blank."""
    return "\n".join(
        "; ".join(
            f"{column_letters(column)}{number}: {' '.join(text.split())}" for column, text in sorted(cells.items())
        )
        for number, cells in region
        if cells
    )


def _at(block: Block, name: str, first: int, last: int) -> Block:
    return replace(block, sheet=name, rows=(first, last))


def sheet_warnings(name: str, state: str, sheet: Sheet, *, shown: bool) -> list[str]:
    """What a reader of this sheet should know."""
    found: list[str] = []
    if state != "visible" and shown:
        found.append(f'hidden_sheet: The sheet "{name}" is hidden in the workbook.')
    if sheet.damaged:
        found.append(f'malformed_part: The sheet "{name}" breaks off; what stands before that is kept.')
    if sheet.uncached:
        found.append(
            f'formula_without_value: {len(sheet.uncached)} formulas on the sheet "{name}" have no stored value '
            f"(first at {sheet.uncached[0]}); open and save the file in a spreadsheet program to fill them."
        )
    if sheet.errors:
        found.append(
            f'error_cells: {len(sheet.errors)} cells on the sheet "{name}" show an error (first at {sheet.errors[0]}).'
        )
    return found
