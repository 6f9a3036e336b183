"""Reading order: which pieces of a page form columns, and in what order the columns are read.

A gutter is a place that few lines cross while many stand on both sides. Lines that do cross it
(titles, full-width figures, tables) cut the page into bands; inside a band the left side is read
before the right one. Columns of a table look alike and must not be torn apart, so a cut is made
only where both sides read like running text.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np
from numpy.typing import NDArray

from .cleaning import is_cjk_char
from .pieces import Piece, joined, rows_of

MIN_LINES = 3  # lines on each side of a gutter
MAX_DEPTH = 6
PROSE_FILL = 0.55  # share of lines that reach near the right edge of their column


def in_reading_order(pieces: Sequence[Piece], vertical: bool = False, depth: int = 0) -> list[list[list[Piece]]]:
    """Split pieces into regions, first read first; each region is a list of rows, each row its pieces.

    `vertical`: Chinese or Japanese set in columns, where tiers are always running text and never tables.
    """
    rows = [joined(row) for row in rows_of(pieces)]
    segments = [piece for row in rows for piece in row]
    if (
        depth >= MAX_DEPTH
        or len(segments) < 2 * MIN_LINES
        or (all(len(row) == 1 for row in rows) and _one_stack(segments))
    ):
        return [rows]
    gutter = _gutter(segments)
    if gutter is None:
        return [rows]
    regions: list[list[list[Piece]]] = []
    whole = False  # the last region was not cut, so what follows uncut goes on with it
    for band, side in _bands(segments, gutter):
        left = [piece for piece in band if (piece.u0 + piece.u1) / 2 < gutter]
        right = [piece for piece in band if (piece.u0 + piece.u1) / 2 >= gutter]
        if side == "aside" and _tall_enough(left, right) and (vertical or _reads_like_columns(left, right)):
            regions.extend(in_reading_order(left, vertical, depth + 1))
            regions.extend(in_reading_order(right, vertical, depth + 1))
            whole = False
            continue
        uncut = [joined(row) for row in rows_of(band)]
        if whole:
            regions[-1].extend(uncut)
        else:
            regions.append(uncut)
        whole = True
    return regions


def _one_stack(segments: Sequence[Piece]) -> bool:
    """All pieces overlap in u: nothing to cut."""
    return max(piece.u0 for piece in segments) < min(piece.u1 for piece in segments)


def _gutter(segments: Sequence[Piece]) -> float | None:
    """The u that fewest lines cross with at least MIN_LINES on each side, or None."""
    u0 = np.array([piece.u0 for piece in segments])
    u1 = np.array([piece.u1 for piece in segments])
    em = float(np.median([piece.em for piece in segments]))
    origin = float(u0.min())
    bins = int(u1.max() - origin) + 2
    if bins < 12 * em or bins > 100_000:
        return None
    change = np.zeros(bins + 1)
    np.add.at(change, np.clip((u0 - origin).astype(np.int64), 0, bins), 1)
    np.add.at(change, np.clip((u1 - origin).astype(np.int64) + 1, 0, bins), -1)
    cover = np.cumsum(change)[:bins]
    ended = np.cumsum(np.bincount(np.clip((u1 - origin).astype(np.int64), 0, bins - 1), minlength=bins))
    started = np.cumsum(np.bincount(np.clip((u0 - origin).astype(np.int64), 0, bins - 1), minlength=bins))
    left, right = ended, len(segments) - started
    weight = np.minimum(left, right)
    fit = (weight >= MIN_LINES) & (cover <= 0.5 * weight)
    if not fit.any():
        return None
    score = np.where(fit, weight - 2 * cover, -np.inf)
    best = int(score.argmax())
    # A few lines may end inside the gutter; it counts as wide as the gap is for all the others.
    low, high = _run_around(cover <= cover[best] + max(1.0, 0.15 * weight[best]), best)
    if high - low < 0.6 * em:
        return None
    low, high = _run_around(cover <= cover[best], best)
    return origin + (low + high) / 2


def _run_around(holds: NDArray[np.bool_], at: int) -> tuple[int, int]:
    """The stretch of true values around `at`: first, and one past the last."""
    before, after = np.flatnonzero(~holds[:at]), np.flatnonzero(~holds[at:])
    return int(before[-1]) + 1 if len(before) else 0, at + int(after[0]) if len(after) else len(holds)


def _bands(segments: Sequence[Piece], gutter: float) -> list[tuple[list[Piece], str]]:
    """Pieces from top to bottom in runs that cross the gutter ("across") or do not ("aside")."""
    rows = rows_of(segments)
    sides = [any(piece.u0 < gutter - 1 and piece.u1 > gutter + 1 for piece in row) for row in rows]
    for i in range(1, len(rows)):
        # The last line of a full-width paragraph may be short.
        if sides[i - 1] and not sides[i] and rows[i][-1].u1 < gutter + 1 and _goes_on(rows[i - 1], rows[i]):
            sides[i] = True
    for i in range(len(rows) - 2, 0, -1):
        # A line on the left alone, just above a full-width part and set off from the columns, is its title.
        if sides[i + 1] and not sides[i] and rows[i][-1].u1 < gutter + 1 and _set_off(rows[:i], rows[i]):
            sides[i] = True
            break
    bands: list[tuple[list[Piece], str]] = []
    for row, crosses in zip(rows, sides, strict=True):
        side = "across" if crosses else "aside"
        if bands and bands[-1][1] == side:
            bands[-1][0].extend(row)
        else:
            bands.append((list(row), side))
    return bands


def _goes_on(above: Sequence[Piece], row: Sequence[Piece]) -> bool:
    em = row[0].em
    return abs(row[0].u0 - above[0].u0) < em and row[0].v0 - above[0].v1 < 0.4 * em and abs(em - above[0].em) < 0.1 * em


def _set_off(above: Sequence[Sequence[Piece]], row: Sequence[Piece]) -> bool:
    """The row stands below everything before it, with more than a line's height of nothing between."""
    lowest = max(piece.v1 for line in above for piece in line)
    return row[0].v0 - lowest > 0.9 * min(row[0].em, above[-1][0].em)


def _tall_enough(left: Sequence[Piece], right: Sequence[Piece]) -> bool:
    return len(rows_of(left)) >= MIN_LINES and len(rows_of(right)) >= MIN_LINES


def _reads_like_columns(left: Sequence[Piece], right: Sequence[Piece]) -> bool:
    """Running text on both sides, rather than the cells of a table or a column of list marks."""
    sides = [_side(left), _side(right)]
    if min(side.width for side in sides) < 6 * max(side.em for side in sides):
        return False
    aligned = _aligned(left, right)
    prose = [side.fill >= PROSE_FILL and side.letters >= 12 for side in sides]
    if all(prose):
        return True
    # Two texts whose lines do not share base lines are no table, whatever their lines' lengths.
    if aligned < 0.4:
        return any(prose) or min(side.letters for side in sides) >= 8
    return any(prose) and min(side.letters for side in sides) >= 16 and aligned < 0.8


class _Side:
    """Measures of the lines on one side of a gutter."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        rows = rows_of(pieces)
        low = min(piece.u0 for piece in pieces)
        high = sorted(row[-1].u1 for row in rows)[int(0.9 * (len(rows) - 1))]
        self.width = high - low
        self.em = median(piece.em for piece in pieces)
        edge = high - max(0.12 * self.width, 1.5 * self.em)
        self.fill = sum(row[-1].u1 >= edge and _solid(row) for row in rows) / len(rows)
        self.letters = median(sum(_letters(piece.text) for piece in row) for row in rows)


def _side(pieces: Sequence[Piece]) -> _Side:
    return _Side(pieces)


def _solid(row: Sequence[Piece]) -> bool:
    """Little but words between the row's ends: justified text, not the cells of a table."""
    return sum(piece.u1 - piece.u0 for piece in row) >= 0.7 * (row[-1].u1 - row[0].u0)


def _letters(text: str) -> int:
    """Length in Latin letters: a Chinese character says about as much as two."""
    return len(text) + sum(map(is_cjk_char, text)) if not text.isascii() else len(text)


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
