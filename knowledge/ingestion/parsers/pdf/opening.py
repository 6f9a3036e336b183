"""Opening a PDF: which files are refused, with which code, and what is mended first."""

from __future__ import annotations

import re
from pathlib import Path

import pypdfium2 as pypdfium
import pypdfium2.raw as pdfium

from knowledge.ingestion.blocks import ParseContext, Source
from portal.kernel.errors import ParseError

HEADER_SEARCH = 1 << 20
_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])|/ObjStm")


def open_document(source: Source, context: ParseContext) -> tuple[pypdfium.PdfDocument, Path | bytes]:
    """Open `source` with PDFium. Returns the document and what a second reader should open.

    Raises ParseError: `empty_file`, `not_a_pdf`, `damaged_file`, `password_protected`, `too_many_pages`.
    A file with an owner password only opens with the empty user password.
    """
    if source.path.stat().st_size == 0:
        raise ParseError("This file is empty.", code="empty_file")
    given: Path | bytes = source.path
    try:
        document = pypdfium.PdfDocument(source.path)
    except pypdfium.PdfiumError as error:
        data = source.read()
        _refuse_encrypted(error, data)
        given = _mended(data)
        try:
            document = pypdfium.PdfDocument(given)
        except pypdfium.PdfiumError as second:
            _refuse_encrypted(second, given)
            raise _damaged(given) from second
    pages = len(document)
    if pages < 1:
        document.close()
        raise ParseError("This PDF has no pages.", code="damaged_file")
    if pages > context.max_pages:
        document.close()
        raise ParseError(
            "This PDF has %(pages)s pages, more than the limit of %(limit)s.",
            code="too_many_pages",
            pages=pages,
            limit=context.max_pages,
        )
    return document, given


def has_page_objects(source: Source) -> bool:
    """Whether the bytes hold a page at all. PDFium makes up a blank one for some broken files."""
    return _PAGE.search(source.read()) is not None


def _refuse_encrypted(error: pypdfium.PdfiumError, data: bytes) -> None:
    # PDFium may report the error of an earlier file in this process, so the file itself must say it too.
    code = getattr(error, "err_code", None)
    if code in (pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY) and b"/Encrypt" in data:
        raise ParseError(
            "This PDF is protected by a password; upload a copy without one.", code="password_protected"
        ) from error


def _mended(data: bytes) -> bytes:
    """The bytes with their header where PDFium looks for it. Raises ParseError `not_a_pdf`."""
    at = data.find(b"%PDF-", 0, HEADER_SEARCH)
    if at >= 0:
        return data[at:] if at else data
    if b"endobj" in data and (b"trailer" in data or b"/Root" in data or b"/Catalog" in data):
        return b"%PDF-1.7\n" + data
    raise ParseError("This file is not a PDF.", code="not_a_pdf")


def _damaged(data: bytes) -> ParseError:
    if b"/Pages" in data and _PAGE.search(data) is None:
        return ParseError("This PDF has no pages.", code="damaged_file")
    return ParseError("This PDF is damaged or cut off; save or download it again.", code="damaged_file")
