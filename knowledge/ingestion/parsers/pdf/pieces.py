"""Glyphs to pieces of text: runs that stand together on one base line, in reading coordinates.

Reading coordinates turn with the text: u grows along the line, v from line to line, so that upright,
rotated and vertically written text go through the same layout.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .cleaning import decode, is_cjk, is_cjk_char, is_rtl, tidy
from .glyphs import DOWN, GUESSED, LEFT, RIGHT, TYPED, UP, Canvas, Floats, Glyphs, corners

SPLIT_GAP = 0.8  # em: a wider gap ends a piece
SPACE_GAP = 0.25  # em: a wider gap is a space though none was typed
PIECE_GAP = 0.15  # em: the same between pieces, where a typed space may have been lost
SMALL = 0.8  # of the letters beside it: exponents, indexes and marks of notes
LONGEST_RAISED = 12  # characters
BASE_DRIFT = 0.25  # em: base lines closer than this are one line

RTL_FROM, CJK_FROM = 0x590, 0x2E80  # no character below is right-to-left, or written without spaces

Box = tuple[float, float, float, float]


@dataclass(slots=True)
class Piece:
    """A run of text on one line. (u0, v0, u1, v1) is its box, `base` its base line, all in reading coordinates."""

    text: str
    u0: float
    v0: float
    u1: float
    v1: float
    base: float
    em: float
    bold: bool = False
    mono: bool = False
    key: int = 0
    table: int = -1  # >= 0: stands for a whole table


@dataclass(frozen=True, slots=True)
class Reading:
    """The map between displayed and reading coordinates for one direction of text."""

    frame: int
    width: float
    height: float

    @classmethod
    def of(cls, frame: int, canvas: Canvas) -> Reading:
        return cls(frame, canvas.width, canvas.height)

    def points(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        if self.frame == UP:
            return self.height - y, x
        if self.frame == LEFT:
            return self.width - x, self.height - y
        if self.frame == DOWN:
            return y, self.width - x
        return x, y

    def boxes(self, boxes: Floats) -> Floats:
        ua, va = self.points(boxes[:, 0], boxes[:, 1])
        ub, vb = self.points(boxes[:, 2], boxes[:, 3])
        return corners(ua, va, ub, vb)

    def displayed(self, box: Box) -> Box:
        """A box in reading coordinates back to (left, top, right, bottom) on the page."""
        u0, v0, u1, v1 = box
        if self.frame == UP:
            return v0, self.height - u1, v1, self.height - u0
        if self.frame == LEFT:
            return self.width - u1, self.height - v1, self.width - u0, self.height - v0
        if self.frame == DOWN:
            return self.width - v1, u0, self.width - v0, u1
        return box


def mark_vertical_writing(glyphs: Glyphs) -> bool:
    """Chinese and Japanese set in columns: upright glyphs, each below the one before. They read DOWN.

    Returns whether the page has such text.
    """
    if len(glyphs) < 2 or glyphs.code.max() < CJK_FROM:
        return False
    x, y = glyphs.origin[:, 0], glyphs.origin[:, 1]
    em = np.maximum(glyphs.em[1:], 1.0)
    below = (np.abs(np.diff(x)) < 0.2 * em) & (np.abs(np.diff(y) - em) < 0.6 * em)
    below &= is_cjk(glyphs.code[1:]) & is_cjk(glyphs.code[:-1]) & (glyphs.frame[1:] == RIGHT)
    vertical = np.zeros(len(glyphs), np.bool_)
    vertical[1:] |= below
    vertical[:-1] |= below
    if vertical.sum() < 4 or vertical.mean() < 0.3:
        return False
    # On a page that is set in columns, a lone character (a one-letter title) reads with them.
    if vertical.mean() > 0.6:
        vertical |= is_cjk(glyphs.code) & (glyphs.frame == RIGHT)
    glyphs.frame[vertical] = DOWN
    return True


def pieces_of(glyphs: Glyphs, reading: Reading, keys: NDArray[np.int64] | None = None) -> list[Piece]:
    """Cut glyphs (all of one direction) into pieces. Where `keys` changes a piece ends; it is kept in `Piece.key`."""
    count = len(glyphs)
    if not count:
        return []
    box = reading.boxes(glyphs.box)
    base = reading.points(glyphs.origin[:, 0], glyphs.origin[:, 1])[1]
    em = np.maximum(glyphs.em, 0.5)
    flat = (box[:, 3] - box[:, 1]) < 0.3 * em
    box[flat, 1] = base[flat] - 0.8 * em[flat]
    box[flat, 3] = base[flat] + 0.2 * em[flat]
    broken, space = _joints(glyphs, box, base, em)
    if keys is not None:
        broken |= keys[1:] != keys[:-1]
    starts = np.concatenate([[0], np.flatnonzero(broken) + 1])
    ends = np.concatenate([starts[1:], [count]])
    spaced = np.flatnonzero(space & ~broken) + 1
    text = decode(np.insert(glyphs.code, spaced, 32))
    moved = np.searchsorted(spaced, starts, side="right")
    moved_ends = np.searchsorted(spaced, ends, side="left")
    left = np.minimum.reduceat(box[:, 0], starts).tolist()
    top = np.minimum.reduceat(box[:, 1], starts).tolist()
    right = np.maximum.reduceat(box[:, 2], starts).tolist()
    bottom = np.maximum.reduceat(box[:, 3], starts).tolist()
    largest = np.maximum.reduceat(em, starts)
    size = largest.tolist()
    heavy = (np.add.reduceat(glyphs.bold.astype(np.int64), starts) == ends - starts).tolist()
    mono = (np.add.reduceat(glyphs.mono.astype(np.int64), starts) * 5 >= (ends - starts) * 4).tolist()
    # A piece that begins with a raised or lowered figure stands on the line of its larger letters.
    large = em >= 0.9 * np.repeat(largest, ends - starts)
    bases = base[np.minimum.reduceat(np.where(large, np.arange(count), count), starts)].tolist()
    key = keys[starts].tolist() if keys is not None else [0] * len(starts)
    return [
        Piece(
            tidy(text[first:last]), left[i], top[i], right[i], bottom[i], bases[i], size[i], heavy[i], mono[i], key[i]
        )
        for i, (first, last) in enumerate(zip((starts + moved).tolist(), (ends + moved_ends).tolist(), strict=True))
    ]


def _joints(glyphs: Glyphs, box: Floats, base: Floats, em: Floats) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """For each pair of neighbours: does a piece end between them, and is there a space?"""
    size = np.maximum(em[1:], em[:-1])
    drift = np.abs(np.diff(base))
    gap = box[1:, 0] - box[:-1, 2]
    shared = (np.abs(np.diff(box[:, 0])) < 0.01) & (np.abs(np.diff(box[:, 2])) < 0.01)
    near = ((gap > -0.6 * size) & (gap < SPLIT_GAP * size)) | shared
    highest = int(glyphs.code.max())
    rtl = is_rtl(glyphs.code) if highest >= RTL_FROM else None
    if rtl is not None and rtl.any():
        backwards = box[:-1, 0] - box[1:, 2]
        mixed = (rtl[1:] | rtl[:-1]) & (glyphs.line[1:] == glyphs.line[:-1])
        near |= mixed & (np.minimum(np.abs(gap), np.abs(backwards)) < SPLIT_GAP * size)
        near |= mixed & (drift < BASE_DRIFT * size)
        gap = np.where(rtl[1:] | rtl[:-1], 0.0, gap)
    level = drift <= BASE_DRIFT * size
    raised = (drift < 0.6 * size) & (np.abs(gap) < 0.3 * size) & (np.abs(np.diff(em)) > 0.15 * size)
    if raised.any():
        overlap = np.minimum(box[1:, 3], box[:-1, 3]) - np.maximum(box[1:, 1], box[:-1, 1])
        level |= raised & (overlap > 0.3 * np.minimum(box[1:, 3] - box[1:, 1], box[:-1, 3] - box[:-1, 1]))
    # A space that PDFium guessed between glyphs that touch comes from a double it saw and we took out.
    hint = (glyphs.space[1:] == TYPED) | ((glyphs.space[1:] == GUESSED) & (gap > 0.1 * size))
    if rtl is not None and rtl.any():
        hint |= glyphs.space[1:] > 0
    space = hint | (gap > SPACE_GAP * size)
    if highest >= CJK_FROM:
        cjk = is_cjk(glyphs.code)
        space = np.where(cjk[1:] & cjk[:-1], (hint & (gap > 0.2 * size)) | (gap > 0.6 * size), space)
    return ~(near & level), space & ~shared


def rows_of(pieces: Iterable[Piece]) -> list[list[Piece]]:
    """Pieces by base line, top to bottom; within a row from left to right."""
    rows: list[list[Piece]] = []
    anchor = tolerance = 0.0
    for piece in sorted(pieces, key=lambda item: (item.base, item.u0)):
        if rows and piece.base - anchor <= tolerance and piece.table < 0 and rows[-1][0].table < 0:
            rows[-1].append(piece)
            continue
        rows.append([piece])
        anchor = piece.base
        tolerance = 0.35 * piece.em
    rows = _with_raised(rows)
    for row in rows:
        row.sort(key=lambda item: item.u0)
    return rows


def _with_raised(rows: list[list[Piece]]) -> list[list[Piece]]:
    """Rows of small figures that touch the line below (exponents) or above (indexes) become part of it."""
    result: list[list[Piece]] = []
    for row in rows:
        if result and _hangs_on(row, result[-1]):
            result[-1].extend(row)
        elif result and _hangs_on(result[-1], row):
            result[-1] = [*row, *result[-1]]
        else:
            result.append(row)
    return result


def _hangs_on(small: Sequence[Piece], line: Sequence[Piece]) -> bool:
    em = max(piece.em for piece in line)
    if abs(small[0].base - line[0].base) >= 0.6 * em or any(piece.table >= 0 for piece in (*small, *line)):
        return False
    return all(
        piece.em <= SMALL * em
        and len(piece.text) <= LONGEST_RAISED
        and any(min(abs(piece.u0 - other.u1), abs(other.u0 - piece.u1)) < 0.4 * em for other in line)
        for piece in small
    )


def joined(row: list[Piece]) -> list[Piece]:
    """A row with neighbours closer than a split gap made one piece: many PDFs place each word on its own."""
    result: list[Piece] = []
    for piece in row:
        last = result[-1] if result else None
        if last is None or piece.table >= 0 or last.table >= 0:
            result.append(piece)
            continue
        gap = piece.u0 - last.u1
        size = max(piece.em, last.em)
        if gap > SPLIT_GAP * size or gap < -0.6 * size or piece.key != last.key:
            result.append(piece)
            continue
        glue = " " if gap > (0.5 if _both_cjk(last.text, piece.text) else PIECE_GAP) * size else ""
        result[-1] = Piece(
            last.text + glue + piece.text,
            min(last.u0, piece.u0),
            min(last.v0, piece.v0),
            max(last.u1, piece.u1),
            max(last.v1, piece.v1),
            last.base,
            size,
            last.bold and piece.bold,
            last.mono and piece.mono,
            last.key,
        )
    return result


def _both_cjk(before: str, after: str) -> bool:
    return bool(before and after) and is_cjk_char(before[-1]) and is_cjk_char(after[0])


def glued(parts: Iterable[str]) -> str:
    """Texts that follow each other: a space between them, none between two Chinese or Japanese characters."""
    text = ""
    for part in parts:
        text = text + part if not text or _both_cjk(text, part) else f"{text} {part}"
    return text
