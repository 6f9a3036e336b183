"""Drawn lines of a page and the table grids they make.

A PDF has no tables, only strokes and thin filled boxes. Lines that touch form a group; a group with
at least two rows and two columns is a grid; cells without a line between them are one merged cell.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pypdfium2.raw as pdfium

from .glyphs import Canvas, Floats, bind
from .pieces import Box, Reading

MAX_OBJECTS = 20_000  # per page; drawings beyond this are maps and plots, not tables
MAX_SEGMENTS = 400
MAX_FORM_DEPTH = 3
MAX_CELLS = 20_000
MAX_TESTS = 50_000_000  # cells × lines
THIN = 3.0  # points: a box no thicker is a line
SNAP = 3.0  # points: ends this close touch

_HANDLE = ctypes.c_void_p
count_objects = bind("FPDFPage_CountObjects", ctypes.c_int, _HANDLE)
_object = bind("FPDFPage_GetObject", _HANDLE, _HANDLE, ctypes.c_int)
_type = bind("FPDFPageObj_GetType", ctypes.c_int, _HANDLE)
_bounds = bind("FPDFPageObj_GetBounds", ctypes.c_int, _HANDLE, _HANDLE, _HANDLE, _HANDLE, _HANDLE)
_matrix = bind("FPDFPageObj_GetMatrix", ctypes.c_int, _HANDLE, _HANDLE)
_form_count = bind("FPDFFormObj_CountObjects", ctypes.c_int, _HANDLE)
_form_object = bind("FPDFFormObj_GetObject", _HANDLE, _HANDLE, ctypes.c_ulong)
_segments = bind("FPDFPath_CountSegments", ctypes.c_int, _HANDLE)
_segment = bind("FPDFPath_GetPathSegment", _HANDLE, _HANDLE, ctypes.c_int)
_segment_type = bind("FPDFPathSegment_GetType", ctypes.c_int, _HANDLE)
_segment_point = bind("FPDFPathSegment_GetPoint", ctypes.c_int, _HANDLE, _HANDLE, _HANDLE)
_segment_close = bind("FPDFPathSegment_GetClose", ctypes.c_int, _HANDLE)
_draw_mode = bind("FPDFPath_GetDrawMode", ctypes.c_int, _HANDLE, _HANDLE, _HANDLE)

Matrix = tuple[float, float, float, float, float, float]
IDENTITY: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Grid:
    """Borders in reading coordinates, ascending: `us` of columns, `vs` of rows.

    `region[row][column]` is a cell's number; merged cells share one.
    """

    us: tuple[float, ...]
    vs: tuple[float, ...]
    region: tuple[tuple[int, ...], ...]

    @property
    def box(self) -> Box:
        return self.us[0], self.vs[0], self.us[-1], self.vs[-1]


@dataclass(frozen=True, slots=True)
class Drawing:
    """What a page holds besides text: line boxes (page space, n × 4), image objects and their boxes (likewise)."""

    lines: Floats
    pictures: tuple[int, ...]
    picture_boxes: Floats
    objects: int


def read_drawing(page: Any) -> Drawing:
    """Walk the page's objects once, form XObjects included up to a depth and count limit."""
    handle = ctypes.cast(page, ctypes.c_void_p).value
    boxes: list[tuple[float, float, float, float]] = []
    places: list[tuple[float, float, float, float]] = []
    pictures: list[int] = []
    seen = 0
    for item, kind, matrix in _objects(handle):
        seen += 1
        if kind == pdfium.FPDF_PAGEOBJ_IMAGE:
            pictures.append(item)
            places.append(_place(item, matrix))
        elif kind == pdfium.FPDF_PAGEOBJ_PATH:
            boxes.extend(_lines_of(item, matrix))
    return Drawing(_rows(boxes), tuple(pictures), _rows(places), seen)


def only_text(page: int | None, objects: int) -> bool:
    """Whether the first `objects` objects of a page are all text."""
    return all(_type(_object(page, i)) == pdfium.FPDF_PAGEOBJ_TEXT for i in range(objects))


def _rows(boxes: list[tuple[float, float, float, float]]) -> Floats:
    return np.array(boxes, np.float64) if boxes else np.zeros((0, 4))


def _place(item: int, matrix: Matrix) -> tuple[float, float, float, float]:
    if not _bounds(item, *_value_at[:4]):
        return 0.0, 0.0, 0.0, 0.0
    left, bottom, right, top = _values[:4]
    return (*_apply(matrix, left, bottom), *_apply(matrix, right, top))


def _objects(page: int | None) -> Iterator[tuple[int, int, Matrix]]:
    stack: list[tuple[int, int, Matrix]] = [
        (item, 0, IDENTITY) for i in range(min(count_objects(page), MAX_OBJECTS)) if (item := _object(page, i))
    ]
    stack.reverse()
    budget = MAX_OBJECTS
    while stack and budget > 0:
        item, depth, matrix = stack.pop()
        budget -= 1
        kind = _type(item)
        yield item, kind, matrix
        if kind == pdfium.FPDF_PAGEOBJ_FORM and depth < MAX_FORM_DEPTH:
            inner = _times(_matrix_of(item), matrix)
            children = [_form_object(item, i) for i in range(min(_form_count(item), budget))]
            stack.extend((child, depth + 1, inner) for child in reversed(children) if child)


_values = (ctypes.c_float * 6)()
_value_at = [ctypes.addressof(_values) + 4 * i for i in range(6)]
_flags = (ctypes.c_int * 2)()
_flag_at = [ctypes.addressof(_flags), ctypes.addressof(_flags) + 4]


def _matrix_of(item: int) -> Matrix:
    if not _matrix(item, _value_at[0]):
        return IDENTITY
    a, b, c, d, e, f = _values
    return a, b, c, d, e, f


def _times(first: Matrix, then: Matrix) -> Matrix:
    a, b, c, d, e, f = first
    g, h, i, j, k, m = then
    return a * g + b * i, a * h + b * j, c * g + d * i, c * h + d * j, e * g + f * i + k, e * h + f * j + m


def _apply(matrix: Matrix, x: float, y: float) -> tuple[float, float]:
    a, b, c, d, e, f = matrix
    return a * x + c * y + e, b * x + d * y + f


def _lines_of(item: int, matrix: Matrix) -> Iterator[tuple[float, float, float, float]]:
    """Axis-parallel lines of one path: a thin box as a whole, or the edges of a stroked outline."""
    if not _bounds(item, *_value_at[:4]):
        return
    left, bottom, right, top = _values[:4]
    if right - left <= THIN or top - bottom <= THIN:
        yield (*_apply(matrix, left, bottom), *_apply(matrix, right, top))
        return
    _draw_mode(item, *_flag_at)
    count = _segments(item)
    if not _flags[1] or not 2 <= count <= MAX_SEGMENTS:
        return
    whole = _times(_matrix_of(item), matrix)
    start = at = (0.0, 0.0)
    for i in range(count):
        segment = _segment(item, i)
        _segment_point(segment, *_value_at[:2])
        point = _apply(whole, _values[0], _values[1])
        kind = _segment_type(segment)
        if kind == pdfium.FPDF_SEGMENT_MOVETO:
            start = point
        elif kind == pdfium.FPDF_SEGMENT_LINETO and (abs(point[0] - at[0]) <= 1 or abs(point[1] - at[1]) <= 1):
            yield (*at, *point)
        at = point
        if _segment_close(segment):
            if abs(start[0] - at[0]) <= 1 or abs(start[1] - at[1]) <= 1:
                yield (*at, *start)
            at = start


def grids_of(lines: Floats, canvas: Canvas, reading: Reading) -> list[Grid]:
    """All grids of at least two rows and two columns, top to bottom."""
    if len(lines) < 4:
        return []
    boxes = reading.boxes(canvas.boxes(lines))
    width, height = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    across = _merged_lines(boxes[(height <= THIN) & (width > THIN)], along=0)
    upright = _merged_lines(boxes[(width <= THIN) & (height > THIN)], along=1)
    if len(across) < 2 or not len(upright) or len(across) * len(upright) > 4_000_000:
        return []
    grids = [grid for group in _groups(across, upright) if (grid := _grid(*group)) is not None]
    return sorted(grids, key=lambda grid: (grid.vs[0], grid.us[0]))


def _merged_lines(boxes: Floats, along: int) -> Floats:
    """Lines as rows (position, from, to); pieces of one line joined."""
    if not len(boxes):
        return np.zeros((0, 3))
    position = (boxes[:, 1 - along] + boxes[:, 3 - along]) / 2
    rows = np.stack([position, boxes[:, along], boxes[:, along + 2]], axis=1)
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    merged: list[tuple[float, float, float]] = []
    for members in np.split(rows, np.flatnonzero(np.diff(rows[:, 0]) > SNAP / 2) + 1):
        members = members[np.argsort(members[:, 1], kind="stable")]
        at = float(members[:, 0].mean())
        low, high = members[0, 1], members[0, 2]
        for _, start, end in members[1:]:
            if start > high + SNAP:
                merged.append((at, low, high))
                low, high = start, end
            high = max(high, end)
        merged.append((at, low, high))
    return np.array(merged)


def _groups(across: Floats, upright: Floats) -> Iterator[tuple[Floats, Floats]]:
    """Sets of lines that touch each other."""
    touch = (
        (across[:, None, 1] - SNAP <= upright[None, :, 0])
        & (upright[None, :, 0] <= across[:, None, 2] + SNAP)
        & (upright[None, :, 1] - SNAP <= across[:, None, 0])
        & (across[:, None, 0] <= upright[None, :, 2] + SNAP)
    )
    left = np.ones(len(across), np.bool_)
    while left.any():
        rows = np.zeros(len(across), np.bool_)
        rows[int(np.flatnonzero(left)[0])] = True
        while True:
            columns = touch[rows].any(axis=0)
            grown = rows | touch[:, columns].any(axis=1)
            if (grown == rows).all():
                break
            rows = grown
        left &= ~rows
        if rows.sum() >= 2 and columns.any():
            yield across[rows], upright[columns]


def _borders(values: Sequence[float]) -> list[float]:
    borders: list[float] = []
    for value in sorted(values):
        if not borders or value - borders[-1] > SNAP:
            borders.append(value)
    return borders


def _grid(across: Floats, upright: Floats) -> Grid | None:
    # A table open at its sides has horizontal lines that reach beyond the outermost vertical ones.
    low, high = float(across[:, 1].min()), float(across[:, 2].max())
    open_sides = [side for side in (low, high) if np.abs(upright[:, 0] - side).min() > 4 * SNAP]
    us = _borders([*upright[:, 0].tolist(), *open_sides])
    vs = _borders(across[:, 0].tolist())
    rows, columns = len(vs) - 1, len(us) - 1
    if rows < 2 or columns < 2 or rows * columns > MAX_CELLS:
        return None
    middle_u, middle_v = (np.array(us[1:]) + us[:-1]) / 2, (np.array(vs[1:]) + vs[:-1]) / 2
    at_u, at_v = np.array(us), np.array(vs)
    if rows * columns * max(len(across), len(upright)) > MAX_TESTS:
        return None
    # wall[r, c]: a vertical line stands right of cell (r, c); floor[r, c]: a horizontal one below it.
    wall = _drawn(upright, at_u[1:-1], middle_v)
    floor = _drawn(across, at_v[1:-1], middle_u)
    region = np.arange(rows * columns).reshape(rows, columns)
    for row in range(rows):
        for column in range(columns):
            if column + 1 < columns and not wall[column, row]:
                region[region == region[row, column + 1]] = region[row, column]
            if row + 1 < rows and not floor[row, column]:
                region[region == region[row + 1, column]] = region[row, column]
    return Grid(tuple(us), tuple(vs), tuple(tuple(line) for line in region.tolist()))


def _drawn(lines: Floats, positions: Floats, middles: Floats) -> Any:
    """drawn[i, j]: one of `lines` runs at positions[i] past middles[j]."""
    near = np.abs(lines[:, 0][None, :] - positions[:, None]) <= SNAP
    past = (lines[:, 1][None, :] <= middles[:, None]) & (middles[:, None] <= lines[:, 2][None, :])
    return (near[:, None, :] & past[None, :, :]).any(axis=2)
