"""Glyphs of one page out of PDFium, as numpy arrays in the coordinates of the page as displayed.

PDFium is asked for one character at a time, and a page has thousands. The calls here go through
prototypes without argument conversion, driven by `map`, and write straight into numpy buffers:
about 1 µs a character for everything, where the wrapped calls take ten times as long.

Displayed coordinates: points, origin at the top left corner of the crop box after /Rotate, y down.
"""

from __future__ import annotations

import ctypes
import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import numpy as np
import pypdfium2.raw as pdfium
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Faces = dict[int, tuple[bool, bool]]

RIGHT, UP, LEFT, DOWN, SKEWED = range(5)
NONE, GUESSED, TYPED = range(3)
SKEW_DEGREES = 12.0
BOLD_NAME = re.compile(r"bold|black|heavy|semibold|demi(?!light)|simhei|[-_,]B(?:d|$)", re.IGNORECASE)
MIN_LEAN, MAX_LEAN = 0.05, 0.5
FORCE_BOLD = 1 << 18
MONO_NAME = re.compile(
    r"courier|mono(?!type)|nimbusmon|typewriter|inconsolata|lettergothic|consol|menlo"
    r"|fira ?code|source ?code|cmtt|sftt|lmtt",
    re.IGNORECASE,
)
HYPHEN_MARKS = (0x0002, 0xFFFE)  # PDFium's stand-ins for a hyphen that ends a line

LAST_CODE = 0x10FFFF


def code_set(*codes: int) -> NDArray[np.bool_]:
    """A set of characters to look codes up in: `members[code]`, for codes up to LAST_CODE."""
    members = np.zeros(LAST_CODE + 1, np.bool_)
    members[list(codes)] = True
    return members


SPACES = code_set(0x09, 0x0A, 0x0D, 0x20, 0xA0, 0x3000, *range(0x2000, 0x200B), 0x202F, 0x205F)
_HANDLE = ctypes.c_void_p
_INT = ctypes.c_int


def bind(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """A PDFium function called by address, without the conversions that the wrapper adds to each call."""
    address = ctypes.cast(getattr(pdfium, name), ctypes.c_void_p).value
    assert address is not None
    function: Callable[..., Any] = ctypes.CFUNCTYPE(result, *arguments)(address)
    return function


unicode_at = bind("FPDFText_GetUnicode", ctypes.c_uint, _HANDLE, _INT)
_loose_box_at = bind("FPDFText_GetLooseCharBox", _INT, _HANDLE, _INT, _HANDLE)
_origin_at = bind("FPDFText_GetCharOrigin", _INT, _HANDLE, _INT, _HANDLE, _HANDLE)
object_at = bind("FPDFText_GetTextObject", ctypes.c_size_t, _HANDLE, _INT)
_generated_at = bind("FPDFText_IsGenerated", _INT, _HANDLE, _INT)
_hyphen_at = bind("FPDFText_IsHyphen", _INT, _HANDLE, _INT)
_map_error_at = bind("FPDFText_HasUnicodeMapError", _INT, _HANDLE, _INT)
_matrix_at = bind("FPDFText_GetMatrix", _INT, _HANDLE, _INT, _HANDLE)
font_size_at = bind("FPDFText_GetFontSize", ctypes.c_double, _HANDLE, _INT)
_font_of = bind("FPDFTextObj_GetFont", _HANDLE, _HANDLE)
_font_name = bind("FPDFFont_GetBaseFontName", ctypes.c_size_t, _HANDLE, _HANDLE, ctypes.c_size_t)
_font_flags = bind("FPDFFont_GetFlags", _INT, _HANDLE)


@dataclass(frozen=True, slots=True)
class Canvas:
    """The page as displayed: how page space maps to it. `turns` are quarter turns clockwise."""

    left: float
    bottom: float
    right: float
    top: float
    turns: int

    @property
    def width(self) -> float:
        return self.top - self.bottom if self.turns % 2 else self.right - self.left

    @property
    def height(self) -> float:
        return self.right - self.left if self.turns % 2 else self.top - self.bottom

    def points(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Page space (origin bottom left, y up) to displayed coordinates."""
        if self.turns == 0:
            return x - self.left, self.top - y
        if self.turns == 1:
            return y - self.bottom, x - self.left
        if self.turns == 2:
            return self.right - x, y - self.bottom
        return self.top - y, self.right - x

    def boxes(self, boxes: Floats) -> Floats:
        """Rows of (x0, y0, x1, y1) in page space, any corner order, to displayed (left, top, right, bottom)."""
        xa, ya = self.points(boxes[:, 0], boxes[:, 1])
        xb, yb = self.points(boxes[:, 2], boxes[:, 3])
        return corners(xa, ya, xb, yb)


def corners(xa: Floats, ya: Floats, xb: Floats, yb: Floats) -> Floats:
    """Rows of (left, top, right, bottom) from two opposite corners each."""
    boxes = np.empty((len(xa), 4))
    np.minimum(xa, xb, out=boxes[:, 0])
    np.minimum(ya, yb, out=boxes[:, 1])
    np.maximum(xa, xb, out=boxes[:, 2])
    np.maximum(ya, yb, out=boxes[:, 3])
    return boxes


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One row a visible glyph, in PDFium's order; white space is only remembered as `space` before a glyph.

    `code` Unicode scalar; `box` (left, top, right, bottom) with the font's ascent and descent; `origin`
    on the base line; `em` font size in points; `frame` reading direction (RIGHT, UP, LEFT, DOWN, SKEWED);
    `space` NONE, GUESSED by PDFium or TYPED;
    `line` a number that changes where PDFium breaks a line; `owner` the text object it is drawn by.
    """

    code: NDArray[np.uint32]
    box: Floats
    origin: Floats
    em: Floats
    frame: NDArray[np.int8]
    bold: NDArray[np.bool_]
    mono: NDArray[np.bool_]
    space: NDArray[np.int8]
    line: NDArray[np.int32]
    owner: NDArray[np.uint64]
    garbled: bool

    def __len__(self) -> int:
        return len(self.code)

    def take(self, index: NDArray[Any]) -> Glyphs:
        return Glyphs(
            self.code[index],
            self.box[index],
            self.origin[index],
            self.em[index],
            self.frame[index],
            self.bold[index],
            self.mono[index],
            self.space[index],
            self.line[index],
            self.owner[index],
            self.garbled,
        )


def canvas_of(page: Any) -> Canvas:
    """The displayed box of a loaded page."""
    rect = pdfium.FS_RECTF()
    pdfium.FPDF_GetPageBoundingBox(page, rect)
    return Canvas(rect.left, rect.bottom, rect.right, rect.top, pdfium.FPDFPage_GetRotation(page) % 4)


def read_glyphs(textpage: Any, canvas: Canvas, fonts: Faces) -> Glyphs | None:
    """All glyphs of a text page, or None when it has none. `fonts` remembers fonts over one document."""
    handle = ctypes.cast(textpage, ctypes.c_void_p).value
    count = max(pdfium.FPDFText_CountChars(textpage), 0)
    code = np.fromiter(map(unicode_at, repeat(handle), range(count)), np.uint32, count)
    owner = np.fromiter(map(object_at, repeat(handle), range(count)), np.uint64, count)
    visible = visible_among(code, owner)
    if not len(visible):
        return None
    seen, drawn = visible.tolist(), len(visible)
    loose = np.zeros((drawn, 4), np.float32)
    read_boxes(handle, seen, loose.ctypes.data)
    origin = np.zeros((drawn, 2), np.float64)
    read_origins(handle, seen, origin.ctypes.data)
    owners = owner[visible]
    changes = np.ones(drawn, np.bool_)
    np.not_equal(owners[1:], owners[:-1], out=changes[1:])
    starts = np.flatnonzero(changes)
    matrices = np.zeros((len(starts), 6), np.float32)
    firsts = visible[starts].tolist()
    read_matrices(handle, firsts, matrices.ctypes.data)
    sizes = np.fromiter(map(font_size_at, repeat(handle), firsts), np.float64, len(starts))
    faces = np.array([face_of(value, fonts) for value in owners[starts].tolist()], np.bool_).reshape(-1, 2)
    glyphs = glyphs_of(Raw(code, owner, visible, loose, origin, starts, matrices, sizes, faces), canvas)
    codes = glyphs.code
    for mark in np.flatnonzero((codes == HYPHEN_MARKS[0]) | (codes == HYPHEN_MARKS[1])):
        if _hyphen_at(handle, int(visible[mark])) == 1:
            codes[mark] = 0x2D
    return replace(glyphs, garbled=True) if _is_garbled(handle, visible, code[visible]) else glyphs


def visible_among(code: NDArray[np.uint32], owner: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Which characters are drawn: no white space, and none that PDFium made up."""
    return np.flatnonzero(~_blank(code, owner))


def _blank(code: NDArray[np.uint32], owner: NDArray[np.uint64]) -> NDArray[np.bool_]:
    blank: NDArray[np.bool_] = SPACES[np.minimum(code, LAST_CODE)] | (owner == 0)
    return blank


def read_boxes(handle: int | None, indexes: Sequence[int], at: int) -> None:
    """Four float32 a character to the address `at`: left, top, right, bottom in page space."""
    deque(map(_loose_box_at, repeat(handle), indexes, range(at, at + 16 * len(indexes), 16)), 0)


def read_origins(handle: int | None, indexes: Sequence[int], at: int) -> None:
    """Two float64 a character to the address `at`."""
    end = at + 16 * len(indexes)
    deque(map(_origin_at, repeat(handle), indexes, range(at, end, 16), range(at + 8, end, 16)), 0)


def read_matrices(handle: int | None, indexes: Sequence[int], at: int) -> None:
    """Six float32 a character to the address `at`."""
    deque(map(_matrix_at, repeat(handle), indexes, range(at, at + 24 * len(indexes), 24)), 0)


@dataclass(frozen=True, slots=True)
class Raw:
    """What PDFium says of a page's characters, in page space.

    `code` and `owner` of all characters; `visible` are the drawn ones, `loose` and `origin` theirs; a run of one
    text object begins at each of `starts` (places in `visible`) with its matrix, font size, and (bold, monospaced).
    """

    code: NDArray[np.uint32]
    owner: NDArray[np.uint64]
    visible: NDArray[np.intp]
    loose: NDArray[np.float32]
    origin: Floats
    starts: NDArray[np.intp]
    matrices: NDArray[np.float32]
    sizes: Floats
    faces: NDArray[np.bool_]


def glyphs_of(raw: Raw, canvas: Canvas) -> Glyphs:
    """The drawn characters as displayed, garbled or not; writes over the arrays of `raw`."""
    code, visible, loose, origin = raw.code, raw.visible, raw.loose, raw.origin
    em, frame, bold, mono, slant = _styles(raw, canvas.turns)
    if slant.any():  # the box of a letter that leans reaches over its neighbour, and hides the space before that
        loose[:, 2] -= slant * np.maximum(loose[:, 1] - origin[:, 1], 0)  # left, top, right, bottom
        loose[:, 0] += slant * np.maximum(origin[:, 1] - loose[:, 3], 0)
    x, y = canvas.points(origin[:, 0], origin[:, 1])
    origin[:, 0], origin[:, 1] = x.copy(), y.copy()
    breaks = np.cumsum((code == 0x0A) | (code == 0x0D))
    before = np.empty_like(visible)
    before[0], before[1:] = -1, visible[:-1]
    typing = np.zeros(len(code) + 1, np.int64)
    np.cumsum(_blank(code, raw.owner) & (raw.owner != 0), out=typing[1:])
    typed = typing[visible] - typing[before + 1]
    return Glyphs(
        code=code[visible],
        box=canvas.boxes(loose.astype(np.float64)),
        origin=origin,
        em=em,
        frame=frame,
        bold=bold,
        mono=mono,
        space=np.where(typed > 0, TYPED, np.where(visible - before > 1, GUESSED, NONE)).astype(np.int8),
        line=breaks[visible].astype(np.int32),
        owner=raw.owner[visible],
        garbled=False,
    )


def _styles(raw: Raw, turns: int) -> tuple[Floats, NDArray[np.int8], NDArray[np.bool_], NDArray[np.bool_], Floats]:
    """Font size in points, reading direction, bold, monospaced and slant a glyph; asked once a run of one text object.

    Slant: how far letters that were made italic by leaning them move to the right for each point upwards.
    """
    starts, matrices = raw.starts, raw.matrices
    a, b, c, d = (matrices[:, i].astype(np.float64) for i in range(4))
    along = np.hypot(a, b)
    height = np.divide(np.abs(a * d - b * c), along, out=np.hypot(c, d), where=along > 0)
    size = np.abs(raw.sizes) * height
    lean = np.where((np.abs(b) < 1e-3 * along) & (a * d > 0), c / np.where(d == 0, 1.0, d), 0.0)
    lean[(lean < MIN_LEAN) | (lean > MAX_LEAN)] = 0.0
    angle = np.degrees(np.arctan2(b, a))
    quarter = np.round(angle / 90)
    frame = ((quarter.astype(np.int64) - turns) % 4).astype(np.int8)
    frame[np.abs(angle - quarter * 90) > SKEW_DEGREES] = SKEWED
    lengths = np.empty_like(starts)
    lengths[:-1], lengths[-1] = starts[1:] - starts[:-1], len(raw.visible) - starts[-1]
    face = np.repeat(raw.faces, lengths, axis=0)
    return np.repeat(size, lengths), np.repeat(frame, lengths), face[:, 0], face[:, 1], np.repeat(lean, lengths)


def face_of(text_object: int, known: Faces) -> tuple[bool, bool]:
    """Whether the font of a text object is bold, and whether it is a typewriter's or programmer's font."""
    font = _font_of(text_object)
    if not font:
        return False, False
    answer = known.get(font)
    if answer is None:
        buffer = ctypes.create_string_buffer(128)
        _font_name(font, ctypes.addressof(buffer), 128)
        name = buffer.value.decode("utf-8", "replace")
        bold = bool(BOLD_NAME.search(name)) or bool(_font_flags(font) & FORCE_BOLD)
        answer = known[font] = bold, bool(MONO_NAME.search(name))
    return answer


def _is_garbled(handle: int | None, visible: NDArray[np.intp], codes: NDArray[np.uint32]) -> bool:
    """Whether the text layer is rubbish: control or private characters, and more than 30 % of glyphs unmapped.

    Neither sign alone is enough: fonts without a ToUnicode map are often right, and an odd character
    or two are common. Glyphs are asked only when the first sign is there.
    """
    if codes.min() >= 0x20 and codes.max() < 0x7F:
        return False
    odd = (
        (codes < 0x20) | ((codes >= 0x7F) & (codes < 0xA0)) | ((codes >= 0xE000) & (codes < 0xF900)) | (codes == 0xFFFD)
    )
    if odd.sum() < max(2, 0.005 * len(codes)):
        return False
    errors = np.fromiter(map(_map_error_at, repeat(handle), visible.tolist()), np.int32, len(visible))
    return bool((errors == 1).mean() > 0.3) or bool(odd.mean() > 0.3 and odd.sum() > 20)
