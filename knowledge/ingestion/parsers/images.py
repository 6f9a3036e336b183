"""Pictures inside documents: recognised and measured by their header alone, never decoded."""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple

from knowledge.ingestion.blocks import Image, ParseContext

SMALLEST_SIDE = 16  # pixels; below that it is a bullet or a tracking pixel
LONGEST_STRIP = 30  # times its shorter side; beyond that it is a rule
_JPEG_FRAMES = frozenset({0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF})


class Header(NamedTuple):
    """What the first bytes of a picture say; width and height in pixels."""

    mime: str
    width: int
    height: int


class Pictures:
    """Collects the pictures of one document, each stored once, and what was left out and why."""

    def __init__(self, context: ParseContext) -> None:
        self._context = context
        self._kept: dict[str, Image] = {}
        self._bytes = 0
        self._too_large: list[str] = []
        self._decorative: set[str] = set()
        self._not_shown: set[str] = set()
        self.left_out = 0

    @property
    def images(self) -> tuple[Image, ...]:
        return tuple(self._kept.values())

    @property
    def warnings(self) -> list[str]:
        """A sentence for each reason for which pictures were left out."""
        named = (
            (len(self._decorative), "pictures_decorative: %s pictures were left out as decoration: too small to show."),
            (len(self._not_shown), "pictures_not_shown: %s pictures are of a kind that can not be shown safely."),
            (self.left_out, "pictures_left_out: %s pictures were too large or too many."),
        )
        return [*self._too_large, *(sentence % count for count, sentence in named if count)]

    def add(self, data: bytes, alt: str = "", *, name: str = "") -> str | None:
        """The key of the picture, or None when it is no raster image a browser shows, decoration, or too large."""
        key = hashlib.sha256(data).hexdigest()
        header = image_header(data)
        if header is None:
            self._not_shown.add(key)
            return None
        if is_decoration(header.width, header.height):
            self._decorative.add(key)
            return None
        if header.width * header.height > self._context.max_image_pixels:
            self._too_large.append(
                f"image_too_large: The picture {name or 'in the document'} has "
                f"{header.width} x {header.height} pixels and was left out."
            )
            return None
        known = self._kept.get(key)
        if known is None and not self._has_room(len(data)):
            self.left_out += 1
            return None
        if known is None or (alt and not known.alt):
            self._kept[key] = Image(key=key, mime=header.mime, data=data, alt=alt)
        self._bytes += len(data) if known is None else 0
        return key

    @property
    def is_full(self) -> bool:
        """No further picture would be kept, whatever its size."""
        return not self._has_room(0)

    def _has_room(self, size: int) -> bool:
        return len(self._kept) < self._context.max_images and self._bytes + size <= self._context.max_image_bytes


def is_decoration(width: int, height: int) -> bool:
    """Whether a picture of so many pixels says nothing: a bullet, a tracking pixel, or a rule."""
    shorter, longer = sorted((width, height))
    return shorter < SMALLEST_SIDE or longer > LONGEST_STRIP * shorter


def image_header(data: bytes) -> Header | None:
    """Type and size of a PNG, JPEG, GIF, BMP or WebP; None for anything else (SVG, EMF and WMF are programs)."""
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            return Header("image/png", *struct.unpack(">II", data[16:24]))
        if data.startswith((b"GIF87a", b"GIF89a")):
            return Header("image/gif", *struct.unpack("<HH", data[6:10]))
        if data.startswith(b"BM"):
            width, height = struct.unpack("<ii", data[18:26])
            return Header("image/bmp", abs(width), abs(height))
        if data.startswith(b"\xff\xd8"):
            return _jpeg(data)
        if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
            return _webp(data)
    except struct.error:
        return None
    return None


def _jpeg(data: bytes) -> Header | None:
    position = 2
    while position + 9 <= len(data):
        if data[position] != 0xFF:
            return None
        marker = data[position + 1]
        if marker == 0xFF:
            position += 1
            continue
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack(">HH", data[position + 5 : position + 9])
            return Header("image/jpeg", width, height)
        if 0xD0 <= marker <= 0xD8 or marker == 0x01:
            position += 2
            continue
        position += 2 + int(struct.unpack(">H", data[position + 2 : position + 4])[0])
    return None


def _webp(data: bytes) -> Header | None:
    kind = data[12:16]
    if kind == b"VP8X":
        return Header(
            "image/webp", 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
        )
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", data[26:30])
        return Header("image/webp", width & 0x3FFF, height & 0x3FFF)
    if kind == b"VP8L" and len(data) >= 25:
        bits = int.from_bytes(data[21:25], "little")
        return Header("image/webp", 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF))
    return None
