"""Pictures of a PDF page: which are kept, as what, and where they stand among the text.

Full-page pictures are scans or backgrounds, small ones are ornaments; neither is kept. A JPEG leaves
as it is stored; anything else is decoded by PDFium and packed as PNG.
"""

from __future__ import annotations

import ctypes
import re
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pypdfium2.raw as pdfium
from numpy.typing import NDArray

from knowledge.ingestion.blocks import Image, ParseContext
from knowledge.ingestion.parsers.drawing import NO_ALT
from knowledge.ingestion.parsers.images import Pictures

from .glyphs import Canvas
from .paragraphs import Draft
from .pieces import Box

MIN_SIDE = 24.0  # points and pixels
FULL_PAGE = 0.7  # share of the page's area
MAX_STORED = 64_000_000  # bytes of a picture as stored in the file
MAX_DECODED = 16_000_000  # pixels of a picture that is not stored as JPEG
CAPTION_REACH = 36.0  # points below a picture
_CAPTION = re.compile(r"(?:fig(?:ure|\.)?|image|图|圖|图片|附图)\s*[\dA-Z一二三四五六七八九十]", re.IGNORECASE)


class PagePictures:
    """Collects the pictures of one document over its pages, each stored once and shown at its first place."""

    def __init__(self, context: ParseContext) -> None:
        self._pictures = Pictures(context)
        self._limit = context.max_image_pixels
        self._seen: set[str] = set()

    @property
    def images(self) -> tuple[Image, ...]:
        return self._pictures.images

    @property
    def warnings(self) -> list[str]:
        return self._pictures.warnings

    def place(self, drafts: list[Draft], found: Sequence[tuple[int, Box]], canvas: Canvas, number: int) -> list[Draft]:
        """The drafts of page `number` with a draft for each picture kept. `found`: image objects and their boxes."""
        for item, box in found:
            width, height = box[2] - box[0], box[3] - box[1]
            if min(width, height) < MIN_SIDE or width * height > FULL_PAGE * canvas.width * canvas.height:
                continue
            caption = _caption(drafts, box)
            key = self._keep(item, caption)
            if key is None or key in self._seen:
                continue
            self._seen.add(key)
            draft = Draft("image", caption or NO_ALT, number, box, 0.0, image=key)
            at = _position(drafts, box)
            drafts = [*drafts[:at], draft, *drafts[at:]]
        return drafts

    def _keep(self, item: int, caption: str) -> str | None:
        width, height = ctypes.c_uint(), ctypes.c_uint()
        handle = ctypes.cast(item, pdfium.FPDF_PAGEOBJECT)
        pdfium.FPDFImageObj_GetImagePixelSize(handle, width, height)
        pixels = width.value * height.value
        if min(width.value, height.value) < MIN_SIDE:
            return None
        if pixels > self._limit or self._pictures.is_full:
            self._pictures.left_out += 1
            return None
        data = _stored_jpeg(handle) or (_as_png(handle) if pixels <= MAX_DECODED else b"")
        if not data:
            self._pictures.left_out += 1
            return None
        return self._pictures.add(data, caption)


def _stored_jpeg(item: Any) -> bytes:
    """The picture as stored, when JPEG is its last coding (PDFium undoes only those before it)."""
    filters = pdfium.FPDFImageObj_GetImageFilterCount(item)
    name = ctypes.create_string_buffer(32)
    if filters < 1 or not pdfium.FPDFImageObj_GetImageFilter(item, filters - 1, name, 32):
        return b""
    if name.value not in (b"DCTDecode", b"DCT"):
        return b""
    size = pdfium.FPDFImageObj_GetImageDataDecoded(item, None, 0)
    if not 0 < size <= MAX_STORED:
        return b""
    buffer = ctypes.create_string_buffer(size)
    pdfium.FPDFImageObj_GetImageDataDecoded(item, buffer, size)
    return buffer.raw if buffer.raw.startswith(b"\xff\xd8") else b""


def _as_png(item: Any) -> bytes:
    """The picture decoded by PDFium, as an 8-bit PNG."""
    bitmap = pdfium.FPDFImageObj_GetBitmap(item)
    if not bitmap:
        return b""
    try:
        width, height = pdfium.FPDFBitmap_GetWidth(bitmap), pdfium.FPDFBitmap_GetHeight(bitmap)
        stride, form = pdfium.FPDFBitmap_GetStride(bitmap), pdfium.FPDFBitmap_GetFormat(bitmap)
        channels = {pdfium.FPDFBitmap_Gray: 1, pdfium.FPDFBitmap_BGR: 3}.get(form, 4)
        address = ctypes.cast(pdfium.FPDFBitmap_GetBuffer(bitmap), ctypes.POINTER(ctypes.c_uint8))
        rows = np.ctypeslib.as_array(address, shape=(height, stride))[:, : width * channels]
        pixels = rows.reshape(height, width, channels)
        if channels > 1:
            order = [2, 1, 0, 3] if form == pdfium.FPDFBitmap_BGRA else [2, 1, 0]
            pixels = pixels[:, :, order]
        return _png(np.ascontiguousarray(pixels))
    finally:
        pdfium.FPDFBitmap_Destroy(bitmap)


def _png(pixels: NDArray[np.uint8]) -> bytes:
    """Pixels (height, width, 1 grey | 3 RGB | 4 RGBA) as a PNG file (W3C PNG specification, filter 0)."""
    height, width, channels = pixels.shape
    colour = {1: 0, 3: 2, 4: 6}[channels]
    lines = np.zeros((height, 1 + width * channels), np.uint8)
    lines[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 4)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in parts
    )


def _caption(drafts: Sequence[Draft], box: Box) -> str:
    """The text close below a picture that begins like "Figure 3" or "图3"."""
    for draft in drafts:
        below = draft.box[1] - box[3]
        beside = min(draft.box[2], box[2]) - max(draft.box[0], box[0])
        if -4 <= below <= CAPTION_REACH and beside > 0 and _CAPTION.match(draft.text):
            return draft.text[:200]
    return ""


def _position(drafts: Sequence[Draft], box: Box) -> int:
    """Where a picture stands in reading order: after the last text above it in its own column."""
    at = 0
    found = False
    for i, draft in enumerate(drafts):
        beside = min(draft.box[2], box[2]) - max(draft.box[0], box[0])
        if draft.box[3] <= box[1] + 6 and beside > 0:
            at, found = i + 1, True
    if found:
        return at
    below = (i for i, draft in enumerate(drafts) if draft.box[1] >= box[3] - 6)
    return next(below, len(drafts))
