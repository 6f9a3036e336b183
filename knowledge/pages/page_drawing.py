"""Draws one page of a PDF or picture file as PNG, in the sandbox's child. Knows no Django, no database, no settings."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pypdfium2 as pypdfium
import pypdfium2.raw as pdfium
from numpy.typing import NDArray

from knowledge.ingestion.blocks import Block, Image, ParseContext, ParsedDocument, Source, assemble
from knowledge.ingestion.parsers.pdf.opening import open_document
from knowledge.ingestion.parsers.pictures import frame, frames_of, opened
from portal.kernel.errors import ParseError

WIDTH = 1_100
MAX_PIXELS = 3_000_000
# `mark` and `warn` of the light theme: the paper is white in both.
MARK, WARN = np.array([255, 229, 138]), np.array([138, 82, 0])
BAR = 4
# Where PDFium looks for fonts that a file does not bring along; the sandbox may hide them.
FONT_FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts")
FIRST_IDEOGRAPHIC = 0x2E80


def draw(source: Source, context: ParseContext) -> ParsedDocument:
    """The page as the document's one picture. `source.name` is JSON: {"page": from 1, "boxes": [[l, t, r, b], …]}.

    Boxes are in points from the top left corner, as in `Block.bbox`. Raises `ParseError` (those of
    opening, `page_missing`, `fonts_not_embedded`).
    """
    wanted = json.loads(source.name)
    if source.mime.startswith("image/"):
        return _drawn(source, *_picture(source, int(wanted["page"]), context), wanted)
    document, _ = open_document(source, context)
    number = int(wanted["page"])
    if not 1 <= number <= len(document):
        raise ParseError("This document has no such page.", code="page_missing")
    page = document[number - 1]
    width, height = page.get_size()
    scale = min(WIDTH / max(width, 1.0), (MAX_PIXELS / max(width * height, 1.0)) ** 0.5)
    _refuse_missing_fonts(page)
    return _drawn(source, _rendered(page, scale), scale, wanted)


def _drawn(source: Source, pixels: NDArray[np.uint8], scale: float, wanted: dict[str, Any]) -> ParsedDocument:
    for box in wanted["boxes"]:
        _mark(pixels, [edge * scale for edge in box])
    image = Image(key=f"page-{wanted['page']}", mime="image/png", data=png(pixels))
    return assemble(source.mime, [Block("paragraph", "Page")], images=[image])


def _picture(source: Source, number: int, context: ParseContext) -> tuple[NDArray[np.uint8], float]:
    """A page of a picture file, no wider than a page of a PDF is drawn, and its scale."""
    with opened(source.path, context) as picture:
        if not 1 <= number <= frames_of(picture):
            raise ParseError("This document has no such page.", code="page_missing")
        upright = frame(picture, number)
    width, height = upright.size
    scale = min(1.0, WIDTH / width, (MAX_PIXELS / (width * height)) ** 0.5)
    small = upright.resize((max(1, round(width * scale)), max(1, round(height * scale))))
    return np.array(small, dtype=np.uint8), scale


def _refuse_missing_fonts(page: pypdfium.PdfPage) -> None:
    """A page whose Chinese, Japanese or Korean fonts are not in the file would be drawn without its text."""
    if any(os.access(folder, os.R_OK) for folder in FONT_FOLDERS):
        return
    text = page.get_textpage()
    for item in page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_TEXT]):
        font = pdfium.FPDFTextObj_GetFont(item.raw)
        if pdfium.FPDFFont_GetIsEmbedded(font) == 0 and _has_ideographs(item, text):
            raise ParseError("The fonts of this page are not in the file.", code="fonts_not_embedded")


def _has_ideographs(item: pypdfium.PdfObject, text: pypdfium.PdfTextPage) -> bool:
    length = pdfium.FPDFTextObj_GetText(item.raw, text.raw, None, 0)
    buffer = (pdfium.FPDF_WCHAR * (length // 2 + 1))()
    pdfium.FPDFTextObj_GetText(item.raw, text.raw, buffer, length)
    return any(unit >= FIRST_IDEOGRAPHIC for unit in buffer)


def _rendered(page: pypdfium.PdfPage, scale: float) -> NDArray[np.uint8]:
    bitmap = page.render(scale=scale, rev_byteorder=True)
    rgb: NDArray[np.uint8] = np.array(bitmap.to_numpy()[:, :, :3], dtype=np.uint8)
    return rgb


def _mark(pixels: NDArray[np.uint8], box: Sequence[float]) -> None:
    """Colour a rectangle as a highlighter does, with a bar along its left side."""
    rows, columns = pixels.shape[:2]
    left, top, right, bottom = (round(edge) for edge in box)
    left, right = max(0, left - 3), min(columns, right + 3)
    top, bottom = max(0, top - 2), min(rows, bottom + 2)
    if left >= right or top >= bottom:
        return
    area = pixels[top:bottom, left:right].astype(np.uint16)
    pixels[top:bottom, left:right] = (area * MARK.astype(np.uint16) // 255).astype(np.uint8)
    pixels[top:bottom, max(0, left - BAR - 2) : max(0, left - 2)] = WARN.astype(np.uint8)


def png(pixels: NDArray[np.uint8]) -> bytes:
    """An RGB picture of shape (rows, columns, 3) as PNG (PNG specification, third edition; filter 0)."""
    rows, columns = pixels.shape[:2]
    lines = np.zeros((rows, columns * 3 + 1), dtype=np.uint8)
    lines[:, 1:] = pixels.reshape(rows, columns * 3)
    header = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunks(parts))


def _chunks(parts: Iterable[tuple[bytes, bytes]]) -> Iterable[bytes]:
    for kind, data in parts:
        yield struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
