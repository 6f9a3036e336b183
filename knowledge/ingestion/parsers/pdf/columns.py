"""Reading order: which pieces of a page form columns, and in what order the columns are read.

A gutter is a place that few lines cross while many stand on both sides. Lines that do cross it
(titles, full-width figures, tables) cut the page into bands; inside a band the left side is read
before the right one. Columns of a table look alike and must not be torn apart, so a cut is made
only where both sides read like running text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

import numpy as np
from numpy.typing import NDArray

from .cleaning import cjk_count
from .pieces import Piece, joined, rows_of

MIN_LINES = 2  # lines on each side of a gutter
MAX_DEPTH = 6
MAX_GUTTERS = 4  # places tried for one region
MAX_WIDTH = 20_000  # points: no page is wider than 200 inches
PROSE_FILL = 0.5  # share of a column's lines that are nearly as long as the column is wide
FULL_LINE = 0.72
PROSE_LETTERS = 20  # Latin letters in the middling line; a Chinese character counts as two

Region = list[list[Piece]]  # rows, top to bottom, each its pieces from left to right


def in_reading_order(pieces: Sequence[Piece], vertical: bool = False, depth: int = 0) -> list[Region]:
    """Split pieces into regions, first read first.

    `vertical`: Chinese or Japanese set in columns, where tiers are always running text and never tables.
    """
    rows = [joined(row) for row in rows_of(pieces)]
    segments = [piece for row in rows for piece in row]
    if depth >= MAX_DEPTH or len(segments) < 2 * MIN_LINES or _one_stack(segments):
        return [rows]
    for gutter in _gutters(segments):
        bands = _bands(segments, gutter, vertical)
        if any(band.cut for band in bands):
            break
    else:
        return [rows]
    regions: list[Region] = []
    whole = False  # the last region was not cut, so what follows uncut goes on with it
    for band in bands:
        sides = (band.left, band.right) if band.cut else (band.pieces,)
        inner = [region for side in sides for region in in_reading_order(side, vertical, depth + 1)]
        uncut = not band.cut and len(inner) == 1
        if whole and uncut:
            regions[-1].extend(inner[0])
        else:
            regions.extend(inner)
        whole = uncut
    return regions


def _one_stack(segments: Sequence[Piece]) -> bool:
    """All pieces overlap in u: nothing to cut."""
    return max(piece.u0 for piece in segments) < min(piece.u1 for piece in segments)


def _gutters(segments: Sequence[Piece]) -> Iterator[float]:
    """Places that few pieces cross, with some on each side; the most promising first."""
    u0 = np.array([piece.u0 for piece in segments])
    u1 = np.array([piece.u1 for piece in segments])
    em = float(np.median([piece.em for piece in segments]))
    origin = float(u0.min())
    bins = int(u1.max() - origin) + 2
    if bins < 12 * em or bins > MAX_WIDTH:
        return
    starts = np.bincount((u0 - origin).astype(np.int64), minlength=bins)
    ends = np.bincount((u1 - origin).astype(np.int64), minlength=bins)
    started, ended = np.cumsum(starts)[:bins], np.cumsum(ends)[:bins]
    cover = started - ended + ends[:bins]
    weight = np.minimum(ended - ends[:bins], len(segments) - started)
    score = np.where((weight >= MIN_LINES) & (cover <= 2 * weight + 2), weight - 2.0 * cover, -np.inf)
    for _ in range(MAX_GUTTERS):
        best = int(score.argmax())
        if score[best] == -np.inf:
            return
        # A few lines may end inside the gutter; it counts as wide as the gap is for all the others.
        low, high = _run_around(cover <= cover[best] + max(1.0, 0.15 * weight[best]), best)
        if high - low >= 0.6 * em:
            inner = _run_around(cover <= cover[best], best)
            yield origin + (inner[0] + inner[1]) / 2
        score[max(0, best - int(4 * em)) : best + int(4 * em) + 1] = -np.inf


def _run_around(holds: NDArray[np.bool_], at: int) -> tuple[int, int]:
    """The stretch of true values around `at`: first, and one past the last."""
    before, after = np.flatnonzero(~holds[:at]), np.flatnonzero(~holds[at:])
    return int(before[-1]) + 1 if len(before) else 0, at + int(after[0]) if len(after) else len(holds)


@dataclass(slots=True)
class _Band:
    """Rows of a page between two others; `cut` when they are columns on both sides of the gutter."""

    pieces: list[Piece]
    left: list[Piece]
    right: list[Piece]
    cut: bool


def _bands(segments: Sequence[Piece], gutter: float, vertical: bool) -> list[_Band]:
    """Pieces from top to bottom in bands that are columns, and bands that are not."""
    rows = rows_of(segments)
    crossing = _crossing(rows, gutter)
    bands: list[_Band] = []
    for crosses, run in groupby(zip(rows, crossing, strict=True), key=lambda pair: pair[1]):
        pieces = [piece for row, _ in run for piece in row]
        left = [piece for piece in pieces if (piece.u0 + piece.u1) / 2 < gutter]
        right = [piece for piece in pieces if (piece.u0 + piece.u1) / 2 >= gutter]
        tall = not crosses and len(rows_of(left)) >= MIN_LINES and len(rows_of(right)) >= MIN_LINES
        cut = tall and (vertical or _reads_like_columns(left, right))
        if bands and not cut and not bands[-1].cut:
            bands[-1].pieces.extend(pieces)
        else:
            bands.append(_Band(pieces, left, right, cut))
    return bands


def _crossing(rows: Sequence[list[Piece]], gutter: float) -> list[bool]:
    """Which rows belong to the part of the page that is not divided by the gutter."""
    crossing = [any(piece.u0 < gutter - 1 and piece.u1 > gutter + 1 for piece in row) for row in rows]
    for i in range(1, len(rows)):
        # The last line of a full-width paragraph may be short.
        if crossing[i - 1] and not crossing[i] and rows[i][-1].u1 < gutter + 1 and _goes_on(rows[i - 1], rows[i]):
            crossing[i] = True
    usual = median(piece.em for row in rows for piece in row)
    for i in range(1, len(rows) - 1):
        # A title stands alone between two parts, with nothing beside it.
        if not crossing[i] and _is_title(rows[i], usual) and _set_off(rows[:i], rows[i]):
            crossing[i] = min(piece.v0 for row in rows[i + 1 :] for piece in row) > rows[i][0].v1 + 0.2 * usual
    for i in range(len(rows) - 2, 0, -1):
        # A line on the left alone, just above a full-width part and set off from the columns, is its title.
        if crossing[i + 1] and not crossing[i] and rows[i][-1].u1 < gutter + 1 and _set_off(rows[:i], rows[i]):
            crossing[i] = True
    return crossing


def _is_title(row: Sequence[Piece], usual: float) -> bool:
    return len(row) == 1 and (row[0].em > 1.1 * usual or row[0].bold)


def _goes_on(above: Sequence[Piece], row: Sequence[Piece]) -> bool:
    em = row[0].em
    return abs(row[0].u0 - above[0].u0) < em and row[0].v0 - above[0].v1 < 0.4 * em and abs(em - above[0].em) < 0.1 * em


def _set_off(above: Sequence[Sequence[Piece]], row: Sequence[Piece]) -> bool:
    """The row stands below everything before it, with more than a line's height of nothing between."""
    lowest = max(piece.v1 for line in above for piece in line)
    return row[0].v0 - lowest > 0.9 * min(row[0].em, above[-1][0].em)


def _reads_like_columns(left: Sequence[Piece], right: Sequence[Piece]) -> bool:
    """Running text on both sides, rather than the cells of a table or a column of list marks."""
    sides = [_Side(left), _Side(right)]
    if min(side.width for side in sides) < 6 * max(side.em for side in sides):
        return False
    if all(side.prose for side in sides):
        return True
    if min(side.lines for side in sides) < 3:
        return False
    # Two texts whose lines do not share base lines are no table, whatever their lines' lengths.
    aligned = _aligned(left, right)
    if aligned < 0.4:
        return any(side.prose for side in sides) or min(side.letters for side in sides) >= 8
    return any(side.prose for side in sides) and min(side.letters for side in sides) >= 16 and aligned < 0.8


class _Side:
    """Measures of the lines on one side of a gutter."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        rows = rows_of(pieces)
        low = min(piece.u0 for piece in pieces)
        high = sorted(row[-1].u1 for row in rows)[int(0.9 * (len(rows) - 1))]
        self.lines = len(rows)
        self.width = high - low
        self.em = median(piece.em for piece in pieces)
        self.letters = median(sum(_letters(piece.text) for piece in row) for row in rows)
        full = sum(row[-1].u1 - row[0].u0 >= FULL_LINE * self.width and _solid(row) for row in rows)
        self.prose = full >= PROSE_FILL * len(rows) and self.letters >= PROSE_LETTERS


def _solid(row: Sequence[Piece]) -> bool:
    """Little but words between the row's ends: justified text, not the cells of a table."""
    return sum(piece.u1 - piece.u0 for piece in row) >= 0.7 * (row[-1].u1 - row[0].u0)


def _letters(text: str) -> int:
    """Length in Latin letters: a Chinese character says about as much as two."""
    return len(text) + cjk_count(text) if not text.isascii() else len(text)


def _aligned(left: Sequence[Piece], right: Sequence[Piece]) -> float:
    """Share of the shorter side's rows that stand on the same base line as a row of the other side."""
    first = np.array([row[0].base for row in rows_of(left)])
    second = np.array([row[0].base for row in rows_of(right)])
    if len(first) > len(second):
        first, second = second, first
    tolerance = 0.15 * min(piece.em for piece in (*left, *right))
    at = np.clip(np.searchsorted(second, first), 1, len(second) - 1) if len(second) > 1 else np.zeros(len(first), int)
    nearest = np.minimum(np.abs(second[at] - first), np.abs(second[np.maximum(at - 1, 0)] - first))
    return float((nearest <= tolerance).mean())
