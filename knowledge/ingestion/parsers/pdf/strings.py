"""UTF-16 strings out of PDFium: titles, metadata, annotations. Broken ones come out mended, never as an error."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

import pypdfium2.raw as pdfium

from .cleaning import scrub

MAX_BYTES = 1 << 20
MAX_ATTACHMENTS = 20


def read_string(call: Callable[[Any, int], int]) -> str:
    """Text from a PDFium function that fills (buffer, bytes) and returns the bytes it needs, a final NUL included."""
    size = call(None, 0)
    if not 2 < size <= MAX_BYTES:
        return ""
    buffer = ctypes.create_string_buffer(size)
    call(buffer, size)
    return scrub(buffer.raw[: size - 2].decode("utf-16-le", "replace")).strip()


def contents_of(annotation: Any) -> str:
    """What a reader wrote into an annotation."""
    wide = ctypes.POINTER(pdfium.FPDF_WCHAR)
    return read_string(
        lambda buffer, size: pdfium.FPDFAnnot_GetStringValue(
            annotation, b"Contents", ctypes.cast(buffer, wide) if buffer is not None else None, size
        )
    )


def metadata_of(document: Any, key: str) -> str:
    """A value of the document's information dictionary."""
    name = key.encode("ascii") + b"\x00"
    return read_string(lambda buffer, size: pdfium.FPDF_GetMetaText(document, name, buffer, size))


def title_of(bookmark: Any) -> str:
    """The title of an outline entry."""
    return read_string(lambda buffer, size: pdfium.FPDFBookmark_GetTitle(bookmark, buffer, size))


def attachments_of(document: Any) -> list[str]:
    """The names of the files that travel inside the document, at most `MAX_ATTACHMENTS`."""
    names: list[str] = []
    wide = ctypes.POINTER(pdfium.FPDF_WCHAR)
    for index in range(min(pdfium.FPDFDoc_GetAttachmentCount(document), MAX_ATTACHMENTS)):
        attachment = pdfium.FPDFDoc_GetAttachment(document, index)
        if attachment:
            names.append(read_string(partial(_attachment_name, attachment, wide)))
    return [name for name in names if name]


def _attachment_name(attachment: Any, wide: Any, buffer: Any, size: int) -> int:
    given = ctypes.cast(buffer, wide) if buffer is not None else None
    return int(pdfium.FPDFAttachment_GetName(attachment, given, size))
