"""File type to parser: the one table. A new type is one row here, one module and one test module.

Parsers are imported when first asked for, so that a process pays only for what it reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

from knowledge.ingestion.blocks import Parser
from portal.kernel.errors import ParseError

_OOXML = "application/vnd.openxmlformats-officedocument."


@dataclass(frozen=True, slots=True)
class FileType:
    """How one kind of file is read. `extensions` are lower case without a dot, `limit_mb` is per file."""

    mime: str
    module: str
    extensions: tuple[str, ...]
    label: str
    limit_mb: int


def _row(mime: str, module: str, extensions: str, label: str, limit_mb: int) -> FileType:
    return FileType(mime, f"knowledge.ingestion.parsers.{module}", tuple(extensions.split()), label, limit_mb)


FILE_TYPES: tuple[FileType, ...] = (
    _row("application/pdf", "pdf", "pdf", "PDF", 200),
    _row(f"{_OOXML}wordprocessingml.document", "docx", "docx docm dotx", "Word", 100),
    _row(f"{_OOXML}spreadsheetml.sheet", "xlsx", "xlsx xlsm xltx", "Excel", 100),
    _row("application/vnd.ms-excel", "xls", "xls", "Excel 97–2003", 100),
    _row(f"{_OOXML}presentationml.presentation", "pptx", "pptx pptm ppsx", "PowerPoint", 200),
    _row("application/vnd.oasis.opendocument.text", "odt", "odt", "OpenDocument text", 100),
    _row("application/rtf", "rtf", "rtf", "RTF", 50),
    _row("text/html", "html", "html htm xhtml", "HTML", 50),
    _row("text/markdown", "markdown", "md markdown mkd", "Markdown", 20),
    _row("text/plain", "text", "txt text log", "Text", 50),
    _row("text/csv", "delimited", "csv", "CSV", 100),
    _row("text/tab-separated-values", "delimited", "tsv tab", "TSV", 100),
    _row("application/json", "json_document", "json", "JSON", 50),
    _row("application/jsonl", "json_document", "jsonl ndjson", "JSON Lines", 100),
    _row("message/rfc822", "message", "eml mht mhtml", "E-mail", 50),
    _row("application/epub+zip", "epub", "epub", "EPUB", 100),
    _row("application/zip", "bundle", "zip", "ZIP of documents", 500),
    _row("application/msword", "legacy", "doc dot wps", "Word 97–2003", 100),
    _row("application/vnd.ms-powerpoint", "legacy", "ppt pps pot dps", "PowerPoint 97–2003", 200),
    _row("image/png", "pictures", "png", "PNG", 50),
    _row("image/jpeg", "pictures", "jpg jpeg", "JPEG", 50),
    _row("image/tiff", "pictures", "tif tiff", "TIFF", 100),
    _row("image/webp", "pictures", "webp", "WebP", 50),
    _row("image/bmp", "pictures", "bmp", "BMP", 100),
)
BY_MIME: dict[str, FileType] = {row.mime: row for row in FILE_TYPES}
BY_EXTENSION: dict[str, FileType] = {extension: row for row in FILE_TYPES for extension in row.extensions}
ACCEPTED_EXTENSIONS: tuple[str, ...] = tuple(f".{extension}" for extension in BY_EXTENSION)


def file_type(mime: str) -> FileType:
    """The row of a MIME type. Raises `ParseError` (`unsupported_type`)."""
    try:
        return BY_MIME[mime]
    except KeyError:
        raise ParseError("This type of file can not be read.", code="unsupported_type") from None


def parser_for(mime: str) -> Parser:
    """The parser of a MIME type, imported now. Raises `ParseError` (`unsupported_type`)."""
    parser: Parser = import_module(file_type(mime).module).parse
    return parser
