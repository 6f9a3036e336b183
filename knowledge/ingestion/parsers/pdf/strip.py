"""Pages of a few plain lines, laid out many at a time.

On a page of a line or two the price is not its characters but some 150 calls of numpy for whatever
their number. Pages that hold nothing but a little upright ASCII text are therefore read one by one,
and their glyphs become lines together: with the page as the key that ends a piece, so that the very
rules of other pages give the very same result. A page that turns out to be otherwise (off the page, turned,
typewritten) is left to `read_page`.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Iterator
from itertools import groupby, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cleaning import doubles_among
from .columns import in_reading_order
from .glyphs import (
    RIGHT,
    Canvas,
    Faces,
    Glyphs,
    Raw,
    bind,
    face_of,
    font_size_at,
    glyphs_of,
    object_at,
    read_boxes,
    read_matrices,
    read_origins,
    unicode_at,
    visible_among,
)
from .page import PageResult, on_canvas
from .paragraphs import drafts_of_region
from .pieces import Reading, pieces_of
from .rules import count_objects, only_text

WORTH_IT = 8  # pages of a document; below it there is nothing to share
MAX_CHARACTERS = 300  # of a page
MAX_OBJECTS = 12  # of a page
MAX_PAGES = 64
_HANDLE, _INT = ctypes.c_void_p, ctypes.c_int
_annotations = bind("FPDFPage_GetAnnotCount", _INT, _HANDLE)
_load_text = bind("FPDFText_LoadPage", _HANDLE, _HANDLE)
_close_text = bind("FPDFText_ClosePage", None, _HANDLE)
_count = bind("FPDFText_CountChars", _INT, _HANDLE)
_box_of_page = bind("FPDF_GetPageBoundingBox", _INT, _HANDLE, _HANDLE)
_rotation = bind("FPDFPage_GetRotation", _INT, _HANDLE)


class Strip:
    """Pages in order that wait for their layout. `fonts` remembers fonts over one document."""

    def __init__(self, fonts: Faces) -> None:
        self._fonts = fonts
        self._rect = (ctypes.c_float * 4)()
        self._boxes = np.empty((MAX_PAGES * MAX_CHARACTERS, 4), np.float32)
        self._origins = np.empty((MAX_PAGES * MAX_CHARACTERS, 2), np.float64)
        self._matrices = np.empty((MAX_PAGES * MAX_CHARACTERS, 6), np.float32)
        self._canvas: Canvas | None = None
        self._useful = True
        self._empty()

    def _empty(self) -> None:
        self._numbers: list[int] = []
        self._objects: list[int] = []
        self._ends: list[int] = []  # of each page, in characters
        self._code = array("I")
        self._owner = array("Q")
        self._starts: list[int] = []  # of runs of one text object, in characters
        self._sizes: list[float] = []
        self._faces: list[tuple[bool, bool]] = []

    @property
    def full(self) -> bool:
        return len(self._numbers) >= MAX_PAGES

    def take(self, page: Any, number: int) -> bool:
        """Read a loaded page if it seems to be of the plain kind and fits to those that wait; else change nothing."""
        handle = ctypes.cast(page, ctypes.c_void_p).value
        if not self._useful or self.full or _annotations(handle) > 0:
            return False
        objects = count_objects(handle)
        if not 0 < objects <= MAX_OBJECTS or not only_text(handle, objects) or _rotation(handle) % 4:
            return False
        canvas = self._canvas_of(handle)
        if self._numbers and canvas != self._canvas:
            return False
        textpage = _load_text(handle)
        if not textpage:
            return False
        try:
            count = _count(textpage)
            if not 0 < count <= MAX_CHARACTERS:
                return False
            self._canvas = canvas
            self._read(textpage, count)
        finally:
            _close_text(textpage)
        self._numbers.append(number)
        self._objects.append(objects)
        self._ends.append(len(self._code))
        return True

    def _canvas_of(self, page: int | None) -> Canvas:
        _box_of_page(page, ctypes.addressof(self._rect))
        left, top, right, bottom = self._rect
        return Canvas(left, bottom, right, top, 0)

    def _read(self, textpage: int, count: int) -> None:
        at, indexes = len(self._code), range(count)
        owners = list(map(object_at, repeat(textpage), indexes))
        self._code.extend(map(unicode_at, repeat(textpage), indexes))
        self._owner.extend(owners)
        read_boxes(textpage, indexes, self._boxes.ctypes.data + 16 * at)
        read_origins(textpage, indexes, self._origins.ctypes.data + 16 * at)
        starts = [0, *(i for i in range(1, count) if owners[i] != owners[i - 1])]
        read_matrices(textpage, starts, self._matrices.ctypes.data + 24 * len(self._starts))
        self._starts.extend([at + start for start in starts])
        self._sizes.extend(map(font_size_at, repeat(textpage), starts))
        self._faces.extend([face_of(owners[i], self._fonts) if owners[i] else (False, False) for i in starts])

    def results(self) -> Iterator[tuple[int, PageResult | None]]:
        """Number and result of each page that waited, in order; None for a page that `read_page` must read."""
        if not self._numbers:
            return
        canvas, numbers, objects = self._canvas, self._numbers, self._objects
        assert canvas is not None
        glyphs, page = self._glyphs(canvas)
        self._empty()
        plain = _plain(glyphs, page, canvas, len(numbers))
        self._useful = bool(plain.mean() > 0.5)
        kept = np.flatnonzero(plain[page])
        glyphs, page = glyphs.take(kept), page[kept]
        reading = Reading.of(RIGHT, canvas)
        pieces = groupby(pieces_of(glyphs, reading, page), key=lambda piece: piece.key)
        by_page = {key: list(run) for key, run in pieces}
        for at, number in enumerate(numbers):
            if not plain[at]:
                yield number, None
                continue
            regions = in_reading_order(by_page[at])
            drafts = [draft for rows in regions for draft in drafts_of_region(rows, [], number, reading)]
            yield number, PageResult(drafts, canvas, objects=objects[at])

    def _glyphs(self, canvas: Canvas) -> tuple[Glyphs, NDArray[np.int64]]:
        """The drawn glyphs of all pages, and the place of each one's page."""
        code = np.array(self._code, np.uint32)
        owner = np.array(self._owner, np.uint64)
        visible = visible_among(code, owner)
        page = np.searchsorted(np.array(self._ends), visible, side="right")
        # A run may begin with a space: it begins at its first drawn glyph, and goes without any.
        at = np.searchsorted(visible, np.array(self._starts))
        lengths = np.diff(np.append(at, len(visible)))
        drawn = np.flatnonzero(lengths > 0)
        raw = Raw(
            code,
            owner,
            visible,
            self._boxes[visible],
            self._origins[visible],
            at[drawn],
            self._matrices[drawn],
            np.array(self._sizes)[drawn],
            np.array(self._faces, np.bool_)[drawn],
        )
        return (glyphs_of(raw, canvas), page) if len(visible) else (_nothing(), page)


def _nothing() -> Glyphs:
    none = np.zeros(0)
    whole, flag, pair = none.astype(np.uint32), none.astype(np.bool_), np.zeros((0, 4))
    small = none.astype(np.int8)
    return Glyphs(
        whole, pair, pair[:, :2], none, small, flag, flag, small, none.astype(np.int32), none.astype(np.uint64), False
    )


def _plain(glyphs: Glyphs, page: NDArray[np.int64], canvas: Canvas, pages: int) -> NDArray[np.bool_]:
    """Which pages hold text, all of it upright ASCII that is on the page, set once, in a font for reading."""
    odd = (glyphs.code < 0x20) | (glyphs.code >= 0x7F) | (glyphs.frame != RIGHT) | glyphs.mono
    odd |= ~on_canvas(glyphs, canvas) | doubles_among(glyphs, page)
    drawn = np.bincount(page, minlength=pages)
    plain: NDArray[np.bool_] = (drawn > 0) & (np.bincount(page, weights=odd, minlength=pages) == 0)
    return plain
