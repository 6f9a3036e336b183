"""One page: load it with PDFium, read text and drawing, and turn them into drafts of blocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pypdfium2.raw as pdfium
from numpy.typing import NDArray

from .cleaning import clean_glyphs
from .columns import in_reading_order
from .fields import undrawn_text, with_undrawn
from .glyphs import DOWN, SKEWED, Canvas, Faces, Glyphs, canvas_of, read_glyphs
from .paragraphs import Draft, drafts_of_region
from .pictures import PagePictures
from .pieces import Box, Piece, Reading, mark_vertical_writing, pieces_of
from .rules import grids_of, read_drawing
from .strings import contents_of
from .tables import Table, ruled_tables

OVERFLOW = 2.0  # points outside the page at which text still counts as on it
_FILLED_IN = (pdfium.FPDF_ANNOT_WIDGET, pdfium.FPDF_ANNOT_FREETEXT)
_NOTES = (pdfium.FPDF_ANNOT_TEXT, pdfium.FPDF_ANNOT_HIGHLIGHT, pdfium.FPDF_ANNOT_UNDERLINE)
MAX_ANNOTATIONS = 2_000
MIN_DRAWN = 20  # objects on a page without text and pictures that may be letters drawn as curves
SCAN_SHARE = 0.6  # of the page's area
SCAN_LETTERS = 60  # a stamp, a page number, a line that the scanner added
MONO_PAGE = 0.8  # a page with more of it is typewritten, and no listing


class PageError(Exception):
    """PDFium could not load this page."""


@dataclass(slots=True)
class PageResult:
    """Drafts of a page in reading order, and what the document needs to know about it."""

    drafts: list[Draft]
    canvas: Canvas
    pictures: int = 0
    objects: int = 0
    removed: int = 0  # forbidden characters taken out
    garbled: bool = False
    is_scan: bool = False  # hardly more than one picture that covers the page

    @property
    def drawn(self) -> bool:
        """Something stands on the page, be it text that is drawn as curves."""
        return self.pictures > 0 or self.objects >= MIN_DRAWN


@contextmanager
def loaded(document: Any, number: int) -> Iterator[Any]:
    """Page `number` (from 1) of an open PDFium document, until it is closed. Raises PageError when there is none."""
    page = pdfium.FPDF_LoadPage(document, number - 1)
    if not page:
        raise PageError(number)
    try:
        yield page
    finally:
        pdfium.FPDF_ClosePage(page)


def read_page(document: Any, page: Any, number: int, fonts: Faces, pictures: PagePictures) -> PageResult:
    """What stands on a loaded page."""
    canvas = canvas_of(page)
    glyphs, removed = _glyphs(page, canvas, fonts)
    notes, fields, undrawn = _annotations(page, document.formenv, canvas, number)
    if fields:
        glyphs, removed = _with_fields(page, document, number, canvas, glyphs, removed, fonts)
    drawing = read_drawing(page)
    result = PageResult([], canvas, len(drawing.pictures), drawing.objects, removed)
    if glyphs is not None and len(glyphs):
        result.garbled = glyphs.garbled
        result.drafts = _drafts(glyphs, drawing.lines, canvas, number)
    if result.drafts and drawing.pictures and not result.garbled:
        boxes = [(row[0], row[1], row[2], row[3]) for row in canvas.boxes(drawing.picture_boxes).tolist()]
        result.is_scan = _is_scan(result.drafts, boxes, canvas)
        found = list(zip(drawing.pictures, boxes, strict=True))
        result.drafts = pictures.place(result.drafts, found, canvas, number)
    if undrawn and not result.garbled:
        result.drafts = with_undrawn(result.drafts, undrawn)
    result.drafts.extend(notes)
    return result


def _is_scan(drafts: list[Draft], pictures: list[Box], canvas: Canvas) -> bool:
    largest = max((right - left) * (bottom - top) for left, top, right, bottom in pictures)
    letters = sum(char.isalnum() for draft in drafts for char in draft.text)
    return largest >= SCAN_SHARE * canvas.width * canvas.height and letters <= SCAN_LETTERS


def _glyphs(page: Any, canvas: Canvas, fonts: Faces) -> tuple[Glyphs | None, int]:
    textpage = pdfium.FPDFText_LoadPage(page)
    if not textpage:
        return None, 0
    try:
        raw = read_glyphs(textpage, canvas, fonts)
    finally:
        pdfium.FPDFText_ClosePage(textpage)
    if raw is None:
        return None, 0
    glyphs, removed = clean_glyphs(raw)
    return _on_page(glyphs, canvas), removed


def _on_page(glyphs: Glyphs, canvas: Canvas) -> Glyphs:
    """Text outside the page is seen by nobody and goes, unless the page box is wrong and all text is outside."""
    on = on_canvas(glyphs, canvas)
    return glyphs.take(np.flatnonzero(on)) if on.any() and not on.all() else glyphs


def on_canvas(glyphs: Glyphs, canvas: Canvas) -> NDArray[np.bool_]:
    """Which glyphs have their middle on the page."""
    x = (glyphs.box[:, 0] + glyphs.box[:, 2]) / 2
    y = (glyphs.box[:, 1] + glyphs.box[:, 3]) / 2
    on: NDArray[np.bool_] = (
        (x >= -OVERFLOW) & (x <= canvas.width + OVERFLOW) & (y >= -OVERFLOW) & (y <= canvas.height + OVERFLOW)
    )
    return on


def _annotations(page: Any, form: Any, canvas: Canvas, number: int) -> tuple[list[Draft], bool, list[Draft]]:
    """Readers' notes, whether the page has form fields or text boxes to flatten, and those without a drawing."""
    notes: list[Draft] = []
    undrawn: list[Draft] = []
    fields = False
    for i in range(min(pdfium.FPDFPage_GetAnnotCount(page), MAX_ANNOTATIONS)):
        annotation = pdfium.FPDFPage_GetAnnot(page, i)
        if not annotation:
            continue
        kind = pdfium.FPDFAnnot_GetSubtype(annotation)
        fields = fields or kind in _FILLED_IN
        if pdfium.FPDFAnnot_GetFlags(annotation) & pdfium.FPDF_ANNOT_FLAG_HIDDEN:
            pass
        elif kind in _NOTES and (text := contents_of(annotation)):
            notes.append(Draft("note", text, number, _box(annotation, canvas), 0.0))
        elif kind in _FILLED_IN and (text := undrawn_text(annotation, form)):
            undrawn.append(Draft("paragraph", text, number, _box(annotation, canvas), 0.0))
        pdfium.FPDFPage_CloseAnnot(annotation)
    return notes, fields, undrawn


def _box(annotation: Any, canvas: Canvas) -> Box:
    rect = pdfium.FS_RECTF()
    pdfium.FPDFAnnot_GetRect(annotation, rect)
    left, top, right, bottom = canvas.boxes(np.array([[rect.left, rect.bottom, rect.right, rect.top]], np.float64))[
        0
    ].tolist()
    return left, top, right, bottom


def _with_fields(
    page: Any,
    document: Any,
    number: int,
    canvas: Canvas,
    plain: Glyphs | None,
    removed: int,
    fonts: Faces,
) -> tuple[Glyphs | None, int]:
    """Text with form fields and text boxes, which PDFium leaves out until they are flattened into the page.

    Flattening can spoil a page, so its text counts only if it is longer and has no more control characters.
    """
    if pdfium.FPDFPage_Flatten(page, pdfium.FLAT_NORMALDISPLAY) != pdfium.FLATTEN_SUCCESS:
        return plain, removed
    again = pdfium.FPDF_LoadPage(document, number - 1)
    if not again:
        return plain, removed
    try:
        flat, flat_removed = _glyphs(again, canvas, fonts)
    finally:
        pdfium.FPDF_ClosePage(again)
    before = len(plain) if plain is not None else 0
    if flat is not None and len(flat) > before and flat_removed <= removed:
        return flat, flat_removed
    return plain, removed


def _drafts(glyphs: Glyphs, lines: Any, canvas: Canvas, number: int) -> list[Draft]:
    vertical = mark_vertical_writing(glyphs)
    if glyphs.mono.any() and glyphs.mono.mean() > MONO_PAGE:
        glyphs.mono[:] = False
    counts = np.bincount(glyphs.frame, minlength=SKEWED + 1)
    main = int(np.argmax(counts[:SKEWED])) if counts[:SKEWED].any() else SKEWED
    drafts: list[Draft] = []
    if main != SKEWED:
        reading = Reading.of(main, canvas)
        tables, taken = ruled_tables(glyphs, grids_of(lines, canvas, reading), canvas, reading)
        if taken.any():
            glyphs = glyphs.take(np.flatnonzero(~taken))
        drafts = _flow(glyphs, main, tables, canvas, number, vertical and main == DOWN)
    for frame in range(SKEWED + 1):
        if frame != main and counts[frame]:
            for draft in _flow(glyphs, frame, [], canvas, number):
                draft.upright = False
                drafts.append(draft)
    if main == SKEWED:
        drafts = _flow(glyphs, SKEWED, [], canvas, number)
    return drafts


def _flow(
    glyphs: Glyphs, frame: int, tables: list[Table], canvas: Canvas, number: int, vertical: bool = False
) -> list[Draft]:
    chosen = np.flatnonzero(glyphs.frame == frame)
    reading = Reading.of(frame, canvas)
    if len(chosen) < len(glyphs):
        glyphs = glyphs.take(chosen)
    pieces = pieces_of(glyphs, reading) if frame != SKEWED else _skewed(glyphs)
    for at, table in enumerate(tables):
        u0, v0, u1, v1 = table.box
        pieces.append(Piece("", u0, v0, u1, v1, v0, table.em, table=at))
    if not pieces:
        return []
    regions = in_reading_order(pieces, vertical) if frame != SKEWED else [[[piece] for piece in pieces]]
    return [draft for rows in regions for draft in drafts_of_region(rows, tables, number, reading)]


def _skewed(glyphs: Glyphs) -> list[Piece]:
    """Text at an odd angle (stamps, watermarks), in PDFium's order: one piece for each line PDFium sees."""
    if not len(glyphs):
        return []
    starts = np.flatnonzero(np.concatenate([[True], np.diff(glyphs.line) != 0])).tolist()
    pieces: list[Piece] = []
    for first, end in zip(starts, [*starts[1:], len(glyphs)], strict=True):
        part = glyphs.take(np.arange(first, end))
        text = "".join(
            (" " if space and i else "") + chr(code)
            for i, (code, space) in enumerate(zip(part.code, part.space, strict=True))
        )
        u0, v0 = part.box[:, :2].min(axis=0).tolist()
        u1, v1 = part.box[:, 2:].max(axis=0).tolist()
        pieces.append(Piece(text, u0, v0, u1, v1, v1, float(part.em.max())))
    return pieces
