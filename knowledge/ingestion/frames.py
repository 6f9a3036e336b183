"""How a parsed document crosses the process border: length-prefixed JSON and picture bytes, never pickle.

The writer may have been taken over by the document it read, so the reader checks every value.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from typing import Any, TypeVar, get_args

from knowledge.ingestion.blocks import Block, BlockKind, Image, ParsedDocument

HEADER = struct.Struct(">cQ")
PROGRESS, DOCUMENT, IMAGE, ERROR = b"P", b"D", b"I", b"E"
KINDS: frozenset[str] = frozenset(get_args(BlockKind))
Frame = tuple[bytes, bytes]
Kind = TypeVar("Kind")


class FrameError(Exception):
    """The bytes are no frames of ours."""


def frame(kind: bytes, body: bytes) -> bytes:
    return HEADER.pack(kind, len(body)) + body


def json_frame(kind: bytes, value: object) -> bytes:
    return frame(kind, json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))


def document_frames(document: ParsedDocument) -> Iterator[bytes]:
    """The pictures, then the document. Texts of blocks are not repeated: they are slices of the whole text."""
    for image in document.images:
        head = json.dumps([image.key, image.mime, image.alt]).encode()
        yield frame(IMAGE, struct.pack(">I", len(head)) + head + image.data)
    paths: dict[tuple[str, ...], int] = {}
    rows = [
        [
            block.kind, block.start, block.end, block.level, paths.setdefault(block.heading_path, len(paths)),
            block.page, block.sheet, block.rows, block.slide, block.bbox, block.image, block.ocr,
        ]
        for block in document.blocks
    ]  # fmt: skip
    yield json_frame(
        DOCUMENT,
        {
            "mime": document.mime,
            "text": document.text,
            "blocks": rows,
            "paths": list(paths),
            "warnings": document.warnings,
            "page_count": document.page_count,
            "title": document.title,
            "metadata": document.metadata,
            "unread": document.unread,
        },
    )


class Reader:
    """Cuts a stream of bytes into frames. Raises `FrameError` when more than `limit` bytes come."""

    def __init__(self, limit: int) -> None:
        self._buffer = bytearray()
        self._left = limit

    def feed(self, data: bytes) -> Iterator[Frame]:
        self._left -= len(data)
        if self._left < 0:
            raise FrameError
        self._buffer += data
        while len(self._buffer) >= HEADER.size:
            kind, size = HEADER.unpack_from(self._buffer)
            if size > self._left + len(self._buffer):
                raise FrameError
            end = HEADER.size + size
            if len(self._buffer) < end:
                return
            body = bytes(memoryview(self._buffer)[HEADER.size : end])
            del self._buffer[:end]
            yield kind, body


def read_document(body: bytes, images: list[Image]) -> ParsedDocument:
    """The document of a `DOCUMENT` frame. Raises `FrameError`."""
    try:
        value = json.loads(body)
        text = _string(value["text"])
        paths = [tuple(_string(title) for title in path) for path in value["paths"]]
        blocks = tuple(_block(row, text, paths) for row in value["blocks"])
        return ParsedDocument(
            mime=_string(value["mime"]),
            text=text,
            blocks=blocks,
            warnings=tuple(_string(warning) for warning in value["warnings"]),
            images=tuple(images),
            page_count=_optional(int, value["page_count"]),
            title=_string(value["title"]),
            metadata={_string(key): _string(fact) for key, fact in value["metadata"].items()},
            unread=tuple(int(page) for page in value["unread"]),
        )
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise FrameError from error


def read_image(body: bytes) -> Image:
    """The picture of an `IMAGE` frame; its key is computed again. Raises `FrameError`."""
    try:
        (size,) = struct.unpack_from(">I", body)
        _, mime, alt = json.loads(body[4 : 4 + size])
        data = body[4 + size :]
        return Image(key=hashlib.sha256(data).hexdigest(), mime=_string(mime), data=data, alt=_string(alt))
    except (ValueError, TypeError, struct.error, RecursionError) as error:
        raise FrameError from error


def read_json(body: bytes) -> dict[str, Any]:
    """The object in a small frame. Raises `FrameError`."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise FrameError from error
    if not isinstance(value, dict):
        raise FrameError
    return value


def _block(row: list[Any], text: str, paths: list[tuple[str, ...]]) -> Block:
    kind, start, end, level, path, page, sheet, rows, slide, bbox, image, ocr = row
    if kind not in KINDS or not (type(start) is type(end) is int and 0 <= start <= end <= len(text)):
        raise FrameError
    return Block(
        kind=kind,
        text=text[start:end],
        level=_optional(int, level),
        heading_path=paths[path],
        page=_optional(int, page),
        sheet=_optional(str, sheet),
        rows=_pair(rows) if rows else None,
        slide=_optional(int, slide),
        bbox=_box(bbox) if bbox else None,
        image=_optional(str, image),
        start=start,
        end=end,
        ocr=bool(ocr),
    )


def _pair(value: list[Any]) -> tuple[int, int]:
    first, last = value
    return int(first), int(last)


def _box(value: list[Any]) -> tuple[float, float, float, float]:
    left, top, right, bottom = map(float, value)
    return left, top, right, bottom


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise FrameError
    return value


def _optional(kind: type[Kind], value: Any) -> Kind | None:
    if value is not None and not isinstance(value, kind):
        raise FrameError
    return value
