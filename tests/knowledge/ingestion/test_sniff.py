"""Type by content."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import pytest

from knowledge.ingestion.parsers import ACCEPTED_EXTENSIONS, BY_EXTENSION, FILE_TYPES, parser_for
from knowledge.ingestion.sniff import extension_of, sniff
from portal.kernel.errors import ParseError

OOXML = "application/vnd.openxmlformats-officedocument."
EXE = b"MZ\x90\x00\x03\x00\x00\x00\x04\x00" + bytes(range(256)) * 4
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
PDF = b"%PDF-1.4\n1 0 obj\n<<>>\nendobj\ntrailer<<>>\nstartxref\n9\n%%EOF"


def zipped(*names: str, **contents: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name in names:
            archive.writestr(name, contents.get(name, "x"))
    return data.getvalue()


def ole(*streams: str) -> bytes:
    """A compound file (MS-CFB) whose directory names these streams, all empty."""
    head = struct.pack("<8s16xHHHHH6x", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 62, 3, 0xFFFE, 9, 6)
    head += struct.pack("<9I", 0, 1, 1, 0, 4096, 0xFFFFFFFE, 0, 0xFFFFFFFE, 0)
    head += b"".join(struct.pack("<I", 0 if index == 0 else 0xFFFFFFFF) for index in range(109))
    fat = struct.pack("<II", 0xFFFFFFFD, 0xFFFFFFFE) + b"\xff" * 504
    directory = b""
    for index, name in enumerate(["Root Entry", *streams]):
        raw = name.encode("utf-16-le")
        right = index + 1 if 0 < index < len(streams) else 0xFFFFFFFF
        child = 1 if index == 0 and streams else 0xFFFFFFFF
        directory += raw.ljust(64, b"\0") + struct.pack(
            "<HBBIII16xIQQIQ", len(raw) + 2, 5 if index == 0 else 2, 1, 0xFFFFFFFF, right, child, 0, 0, 0, 0xFFFFFFFE, 0
        )
    return head + fat + directory.ljust(512, b"\0")


def mime(tmp_path: Path, data: bytes, name: str) -> str:
    path = tmp_path / "stored"
    path.write_bytes(data)
    return sniff(path, name)


def refusal(tmp_path: Path, data: bytes, name: str) -> str:
    with pytest.raises(ParseError) as caught:
        mime(tmp_path, data, name)
    assert str(tmp_path) not in str(caught.value)
    return caught.value.code


@pytest.mark.parametrize(
    ("data", "name", "expected"),
    [
        (PDF, "a.pdf", "application/pdf"),
        (b"\n\njunk\n" + PDF, "a.PDF", "application/pdf"),
        (PDF[8:], "headless.pdf", "application/pdf"),
        (PDF, "no extension", "application/pdf"),
        (zipped("[Content_Types].xml", "word/document.xml"), "a.docx", OOXML + "wordprocessingml.document"),
        (zipped("[Content_Types].xml", "word/document2.xml"), "a.docx", OOXML + "wordprocessingml.document"),
        (zipped("[Content_Types].xml", "xl/workbook.xml"), "a.xlsx", OOXML + "spreadsheetml.sheet"),
        (zipped("[Content_Types].xml", "ppt/presentation.xml"), "a.pptx", OOXML + "presentationml.presentation"),
        (zipped("mimetype", mimetype="application/epub+zip"), "a.epub", "application/epub+zip"),
        (zipped("a.txt"), "a.zip", "application/zip"),
        (b"{\\rtf1 x}", "a.rtf", "application/rtf"),
        (b"{\\rtf1 x}", "letter.doc", "application/rtf"),
        (ole("Workbook"), "a.xls", "application/vnd.ms-excel"),
        ("制度".encode("gbk"), "a.txt", "text/plain"),
        ("制度".encode("utf-16-le") * 9, "a.csv", "text/csv"),
        (b"# Title", "README.md", "text/markdown"),
        (b"<p>x", "page", "text/html"),
        (b"Subject: x\nFrom: y\n\nz", "mail", "message/rfc822"),
        (b"words", "no extension", "text/plain"),
        (b"words", "Part 1. Overview", "text/plain"),
        (b"words", ".pdf", "text/plain"),
        (PDF, ".pdf", "application/pdf"),
        (b"words", ".hidden.txt", "text/plain"),
        (b"<html><table>", "export.xls", "text/html"),
        (b"a\tb\n1\t2\n", "export.xls", "text/tab-separated-values"),
        (b"%PDF-1.4 is how a PDF begins, says this text.", "notes.txt", "text/plain"),
    ],
)
def test_content_decides(tmp_path: Path, data: bytes, name: str, expected: str) -> None:
    assert mime(tmp_path, data, name) == expected


@pytest.mark.parametrize(
    ("data", "name", "code"),
    [
        (b"", "a.pdf", "empty_file"),
        (EXE, "report.pdf", "type_mismatch"),
        (EXE, "report.docx", "type_mismatch"),
        (EXE, "notes.txt", "type_mismatch"),
        (EXE, "setup.exe", "unsupported_type"),
        (EXE, "invoice\u202efdp.exe", "unsupported_type"),
        (PDF, "report.pdf.exe", "unsupported_type"),
        (b"words", "report.pdf\x00.exe", "unsupported_type"),
        (b"words", "report.exe\x00.pdf", "type_mismatch"),
        (b"Deny from all", ".htaccess", "unsupported_type"),
        (b"words", "site/.env", "unsupported_type"),
        (b"words", "trailing. . .", "unsupported_type"),
        (b"words", "report.exe.", "unsupported_type"),
        (bytes(range(1, 256)) * 4, "notes.md", "type_mismatch"),
        (PNG, "a.docx", "type_mismatch"),
        (PNG, "a.pdf", "type_mismatch"),
        (PDF, "a.txt", "type_mismatch"),
        (PDF, "a.docx", "type_mismatch"),
        (b"plain text", "a.docx", "type_mismatch"),
        (b"plain text", "a.pdf", "type_mismatch"),
        (b"<xml/>", "a.xml", "unsupported_type"),
        (b"<svg/>", "a.svg", "unsupported_type"),
        (zipped("hello.txt"), "a.docx", "type_mismatch"),
        (zipped("[Content_Types].xml", "xl/workbook.xml"), "a.docx", "type_mismatch"),
        (zipped("[Content_Types].xml", "word/document.xml")[:-30], "a.docx", "damaged_file"),
        (ole("EncryptionInfo", "EncryptedPackage"), "a.docx", "password_protected"),
        (ole("Contents"), "a.msg", "unsupported_type"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 cut off", "a.xls", "damaged_file"),
        (zipped("mimetype", mimetype="application/vnd.oasis.opendocument.spreadsheet"), "a.ods", "unsupported_type"),
    ],
)
def test_what_is_not_what_it_seems_is_refused(tmp_path: Path, data: bytes, name: str, code: str) -> None:
    assert refusal(tmp_path, data, name) == code


@pytest.mark.parametrize(
    ("name", "extension"),
    [
        ("a.PDF", "pdf"),
        ("double.pdf.exe", "exe"),
        ("invoice\u202efdp.exe", "exe"),
        ("report.exe\x00.pdf", "pdf"),
        (".htaccess", ""),
        ("..", ""),
        ("no extension", ""),
        ("emoji 😀 文件.txt", "txt"),
        ("a.txt\u200b", "txt"),
    ],
)
def test_extension_is_what_people_can_not_see_through(name: str, extension: str) -> None:
    assert extension_of(name) == extension


def test_every_row_of_the_table_has_a_parser_and_its_own_extensions() -> None:
    assert len(BY_EXTENSION) == sum(len(row.extensions) for row in FILE_TYPES)
    assert all(callable(parser_for(row.mime)) for row in FILE_TYPES)
    assert {".pdf", ".docx", ".csv", ".eml", ".zip"} <= set(ACCEPTED_EXTENSIONS)


def test_unknown_mime_type_has_no_parser() -> None:
    with pytest.raises(ParseError) as caught:
        parser_for("image/svg+xml")
    assert caught.value.code == "unsupported_type"
