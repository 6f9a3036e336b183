"""Tables: cells from a drawn grid, or from columns that rows share without any lines drawn.

A table becomes a Markdown pipe table. A merged cell's text stands once, at its first row and column.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .glyphs import NONE, SKEWED, Canvas, Floats, Glyphs
from .pieces import Box, Piece, Reading, glued, joined, pieces_of, rows_of
from .rules import Grid

MIN_FILLED = 0.25  # share of a grid's cells with text; below it is a form or a chart
MIN_ROWS = 3
MAX_CELL = 1500  # characters; a "cell" beyond it is a page laid out with boxes
MAX_RUN = 500  # rows of one borderless table on a page
MAX_COLUMN_LETTERS = 60  # median length of the cells of a borderless column
LIST_MARK = re.compile(
    r"(?:[•‣◦▪●○■□◆–—\-*·]|\(?[0-9]{1,3}[.)、]|[（(][一二三四五六七八九十0-9]{1,3}[)）]|[A-Za-z][.)])"
)


_FIGURE = re.compile(r"[-+(]?[\d.,%‰ ]+\)?|[-–—.]+|N/?A", re.IGNORECASE)

Lines = list[tuple[float, str]]  # (base line, text), top to bottom
Cells = dict[int, Lines]  # by region number


@dataclass(frozen=True, slots=True)
class Table:
    """Cells row by row ("" where empty or merged into another), and the box in reading coordinates."""

    cells: tuple[tuple[str, ...], ...]
    box: Box
    em: float


def ruled_tables(
    glyphs: Glyphs, grids: Sequence[Grid], canvas: Canvas, reading: Reading
) -> tuple[list[Table], NDArray[np.bool_]]:
    """Fill grids with the glyphs inside. Returns the tables and which glyphs they have taken."""
    taken = np.zeros(len(glyphs), np.bool_)
    tables: list[Table] = []
    if not grids:
        return tables, taken
    box = reading.boxes(glyphs.box)
    u, v = (box[:, 0] + box[:, 2]) / 2, (box[:, 1] + box[:, 3]) / 2
    # Inner grids first: a table inside a page frame is a table, the frame is not.
    for grid in sorted(grids, key=lambda item: (item.box[2] - item.box[0]) * (item.box[3] - item.box[1])):
        u0, v0, u1, v1 = grid.box
        inside = np.flatnonzero((u > u0) & (u < u1) & (v > v0) & (v < v1) & ~taken & (glyphs.frame != SKEWED))
        if not len(inside):
            continue
        row = np.clip(np.searchsorted(grid.vs, v[inside]) - 1, 0, len(grid.vs) - 2)
        column = np.clip(np.searchsorted(grid.us, u[inside]) - 1, 0, len(grid.us) - 2)
        region = np.array(grid.region)
        chosen = glyphs.take(inside)
        cells = _cell_lines(chosen, _word_by_word(chosen, region[row, column], box[inside]), canvas)
        if not _is_table(cells, region):
            continue
        taken[inside] = True
        em = float(np.median(chosen.em))
        tables.append(Table(_compact(_filled(cells, region, em)), grid.box, em))
    tables.sort(key=lambda table: (table.box[1], table.box[0]))
    return tables, taken


def _word_by_word(glyphs: Glyphs, region: NDArray[np.int64], box: Floats) -> NDArray[np.int64]:
    """Each glyph's cell, but a word that runs over a cell's border goes whole to the cell of its middle."""
    gap = box[1:, 0] - box[:-1, 2]
    within = (glyphs.owner[1:] == glyphs.owner[:-1]) & (glyphs.space[1:] == NONE) & (np.abs(gap) < 0.15 * glyphs.em[1:])
    if not (within & (region[1:] != region[:-1])).any():
        return region
    starts = np.concatenate([[0], np.flatnonzero(~within) + 1])
    lengths = np.diff(np.concatenate([starts, [len(region)]]))
    return np.repeat(region[starts + lengths // 2], lengths)


def _is_table(cells: Cells, region: NDArray[np.int64]) -> bool:
    numbers = len(np.unique(region))
    longest = max((sum(len(text) for _, text in lines) for lines in cells.values()), default=0)
    return len(cells) >= 3 and numbers >= 4 and len(cells) / numbers >= MIN_FILLED and longest <= MAX_CELL


def _cell_lines(glyphs: Glyphs, region: NDArray[np.int64], canvas: Canvas) -> Cells:
    """Lines of each region; text turned inside a cell (upright heads) is read in its own direction."""
    cells: Cells = {}
    for frame in np.unique(glyphs.frame).tolist():
        chosen = np.flatnonzero(glyphs.frame == frame)
        chosen = chosen[np.argsort(region[chosen], kind="stable")]
        by_region: dict[int, list[Piece]] = {}
        for piece in pieces_of(glyphs.take(chosen), Reading.of(frame, canvas), region[chosen]):
            by_region.setdefault(piece.key, []).append(piece)
        for number, pieces in by_region.items():
            lines = [(row[0].base, glued(piece.text for piece in joined(row))) for row in rows_of(pieces)]
            cells.setdefault(number, []).extend(line for line in lines if line[1].strip())
    return {number: lines for number, lines in cells.items() if lines}


def _filled(cells: Cells, region: NDArray[np.int64], em: float) -> list[list[str]]:
    seen: set[int] = set()
    result: list[list[str]] = []
    for numbers in region.tolist():
        own = np.isin(region, numbers).any(axis=1).sum() == 1
        if own and (parts := _rows_inside([cells.get(number, []) for number in numbers], em)):
            result.extend(parts)
            seen.update(numbers)
            continue
        row = []
        for number in numbers:
            row.append("" if number in seen else glued(text for _, text in cells.get(number, [])))
            seen.add(number)
        result.append(row)
    return result


def _rows_inside(cells: Sequence[Lines], em: float) -> list[list[str]]:
    """Rows of figures between two drawn lines: tables often rule only every fifth row. Empty when it is one row."""
    filled = [lines for lines in cells if lines]
    if len(filled) < 4:
        return []
    model = max(filled, key=len)
    total = sum(len(lines) for lines in filled)
    short = sum(len(text) <= 24 for lines in filled for _, text in lines)
    figures = sum(bool(_FIGURE.fullmatch(text)) for lines in filled for _, text in lines)
    full = sum(len(lines) == len(model) for lines in filled)
    if len(model) < 2 or full < 0.7 * len(filled) or short < 0.9 * total or figures < 0.5 * total:
        return []
    rows = [["" for _ in cells] for _ in model]
    for column, lines in enumerate(cells):
        for base, text in lines:
            at = min(range(len(model)), key=lambda i: abs(model[i][0] - base))
            if abs(model[at][0] - base) > 0.5 * em:
                return []
            rows[at][column] = glued(part for part in (rows[at][column], text) if part)
    return rows


def _compact(cells: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """Without the rows and columns that hold nothing (double lines, spacer columns)."""
    rows = [row for row in cells if any(row)]
    columns = [i for i in range(len(rows[0])) if any(row[i] for row in rows)]
    return tuple(tuple(row[i] for i in columns) for row in rows)


def borderless_runs(rows: Sequence[list[Piece]]) -> list[tuple[int, int, Table]]:
    """Find runs of rows that are tables: (first row, end row, table), in order and without overlap."""
    found: list[tuple[int, int, Table]] = []
    index = 0
    while index < len(rows):
        end = _run_end(rows, index)
        table = _table_of(rows[index:end]) if end - index >= 2 else None
        if table is None:
            index += max(1, (end - index) // 8)  # a long run that fails is not tried from each of its rows
            continue
        found.append((index, end, table))
        index = end
    return found


def _multi(row: Sequence[Piece]) -> bool:
    """Several pieces, not counting a list mark with its text."""
    if any(piece.table >= 0 for piece in row):
        return False
    return len(row) >= 3 or (len(row) == 2 and not LIST_MARK.fullmatch(row[0].text.strip()))


def _run_end(rows: Sequence[list[Piece]], start: int) -> int:
    """The end of a run that begins at `start` with a row of several pieces; single pieces may stand between."""
    if not _multi(rows[start]):
        return start
    pitches: list[float] = []
    end = start + 1
    while end < min(len(rows), start + MAX_RUN):
        row, above = rows[end], rows[end - 1]
        if any(piece.table >= 0 for piece in row):
            break
        em = max(piece.em for piece in (*row, *above))
        pitch = row[0].base - above[0].base
        if pitch > 4.0 * em or (len(pitches) >= 2 and pitch > 1.5 * max(pitches[1:])):
            break
        if not _multi(row) and (end + 1 >= len(rows) or not _multi(rows[end + 1]) or not _fits(row, rows[start:end])):
            break
        pitches.append(pitch)
        end += 1
    return end


def _fits(row: Sequence[Piece], run: Sequence[Sequence[Piece]]) -> bool:
    """A single piece between two table rows: narrow enough to be a cell or a wrapped line of one."""
    low = min(line[0].u0 for line in run)
    high = max(line[-1].u1 for line in run)
    return row[-1].u1 - row[0].u0 <= 0.6 * (high - low)


def _table_of(run: Sequence[list[Piece]]) -> Table | None:
    pieces = [piece for row in run for piece in row]
    borders = _column_borders(run)
    columns = len(borders) + 1
    multi = sum(len(row) >= 2 for row in run)
    if columns < 2 or multi < (MIN_ROWS if columns <= 3 else 2):
        return None
    cells: list[list[list[str]]] = []
    for row in run:
        line: list[list[str]] = [[] for _ in range(columns)]
        for piece in row:
            # A piece over several columns stands in its first one.
            at, last = bisect_left(borders, piece.u0 + 1), bisect_left(borders, piece.u1)
            if at == last:
                at = bisect_left(borders, (piece.u0 + piece.u1) / 2)
            line[at].append(piece.text)
        cells.append(line)
    texts = [[glued(parts) for parts in line] for line in cells]
    crowded = sum(len(parts) > 1 for line in cells for parts in line)
    if crowded > 0.2 * len(pieces) or not _columns_agree(texts, columns):
        return None
    box = (
        min(piece.u0 for piece in pieces),
        min(piece.v0 for piece in pieces),
        max(piece.u1 for piece in pieces),
        max(piece.v1 for piece in pieces),
    )
    em = sorted(piece.em for piece in pieces)[len(pieces) // 2]
    return Table(_compact(_with_wrapped(texts, run)), box, em)


def _column_borders(run: Sequence[Sequence[Piece]]) -> list[float]:
    """Places that (almost) no piece crosses, between pieces."""
    starts = sorted((piece.u0, piece.u1) for row in run for piece in row)
    low, high = starts[0][0], max(end for _, end in starts)
    bins = int(high - low) + 2
    if bins > 20_000:
        return []
    change = np.zeros(bins + 1)
    for u0, u1 in starts:
        change[int(u0 - low)] += 1
        change[int(u1 - low) + 1] -= 1
    cover = np.cumsum(change)[:bins]
    allowed = 0 if len(run) < 8 else 0.08 * len(run)
    free = np.flatnonzero(cover <= allowed)
    borders = []
    for gap in np.split(free, np.flatnonzero(np.diff(free) > 1) + 1):
        if len(gap) and gap[0] > 0 and gap[-1] < bins - 2:
            borders.append(low + float(gap[0] + gap[-1] + 1) / 2)
    return borders


def _columns_agree(texts: Sequence[Sequence[str]], columns: int) -> bool:
    """Most columns are filled in most rows, and no column holds running text."""
    rows = len(texts)
    filled = [sum(bool(row[i]) for row in texts) for i in range(columns)]
    if sum(count >= 0.5 * rows for count in filled) < 2 or min(filled) < 1:
        return False
    if sum(filled) < 0.45 * rows * columns:
        return False
    for i in range(columns):
        lengths = sorted(len(row[i]) for row in texts if row[i])
        if lengths[len(lengths) // 2] > MAX_COLUMN_LETTERS:
            return False
    return True


def _with_wrapped(texts: list[list[str]], run: Sequence[Sequence[Piece]]) -> list[list[str]]:
    """Lines without a first cell that stand closer than rows do are the rest of the row above."""
    pitches = [below[0].base - above[0].base for above, below in pairwise(run)]
    full = sorted(pitch for pitch, row in zip(pitches, texts[1:], strict=True) if row[0])
    if not full:
        return texts
    usual = full[len(full) // 2]
    merged: list[list[str]] = [list(texts[0])]
    for pitch, row in zip(pitches, texts[1:], strict=True):
        if not row[0] and pitch < 0.8 * usual:
            merged[-1] = [glued(part for part in pair if part) for pair in zip(merged[-1], row, strict=True)]
        else:
            merged.append(list(row))
    return merged
