"""What a file is, by its content; its name only chooses between kinds of text.

A name that promises one type over the content of another is refused, except where both are text.
"""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path
from typing import Any

from knowledge.ingestion.blocks import ParseContext
from knowledge.ingestion.parsers import BY_EXTENSION, BY_MIME
from knowledge.ingestion.parsers.encodings import has_control_characters, wide_encoding
from knowledge.ingestion.parsers.images import image_header
from portal.kernel.errors import ParseError

HEAD = 64 * 1024
MAX_PIXELS = ParseContext().max_image_pixels
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
OOXML = "application/vnd.openxmlformats-officedocument."
ODF = "application/vnd.oasis.opendocument.text"
EPUB, ZIP, PDF, RTF, EMAIL = (
    "application/epub+zip",
    "application/zip",
    "application/pdf",
    "application/rtf",
    "message/rfc822",
)
XLS, DOC, PPT = "application/vnd.ms-excel", "application/msword", "application/vnd.ms-powerpoint"
TEXTS = frozenset(
    {"text/plain", "text/markdown", "text/html", "text/csv", "text/tab-separated-values", "application/json",
     "application/jsonl", EMAIL}
)  # fmt: skip
# The part that makes a zip a document, and the type it then is.
PARTS = (
    ("word/document.xml", OOXML + "wordprocessingml.document"),
    ("xl/workbook.xml", OOXML + "spreadsheetml.sheet"),
    ("xl/workbook.bin", OOXML + "spreadsheetml.sheet"),
    ("ppt/presentation.xml", OOXML + "presentationml.presentation"),
)
# What is surely not a document, by its first bytes.
BINARY = (
    b"MZ", b"\x7fELF", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"\xca\xfe\xba\xbe", b"\xcf\xfa\xed\xfe", b"7z\xbc\xaf",
    b"Rar!", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"OggS", b"ID3", b"RIFF", b"\x00\x00\x01\x00", b"SQLite format 3",
    b"\x28\xb5\x2f\xfd", b"II*\x00", b"MM\x00*",
)  # fmt: skip
# Names under which nobody should get a file back, whatever lies inside.
PROGRAMS = frozenset(
    {"exe", "scr", "pif", "bat", "cmd", "msi", "msp", "dll", "sys", "cpl", "ps1", "vbs", "vbe", "js", "jse", "wsf",
     "wsh", "hta", "jar", "lnk", "url", "reg", "scf", "sh", "apk"}
)  # fmt: skip
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_HTML = re.compile(rb"<(?:!doctype\s+html|html|head|body|meta|title|div|p|table|h[1-6])\b", re.IGNORECASE)
_HEADER = re.compile(
    rb"\A(?:From [^\n]*\n)?(?:(?:Received|Return-Path|Delivered-To|From|To|Subject|Date|Message-ID|MIME-Version|"
    rb"X-[\w-]+|Reply-To|DKIM-Signature|Content-Type):[^\n]*\n(?:[ \t][^\n]*\n)*){2}",
    re.IGNORECASE,
)


def sniff(path: Path, name: str) -> str:
    """The MIME type of the file at `path`, which people call `name`.

    Raises `ParseError`: `empty_file`, `unsupported_type`, `type_mismatch`, `password_protected`,
    `damaged_file`.
    """
    with path.open("rb") as file:
        head = file.read(HEAD)
    if not head:
        raise ParseError("The file is empty.", code="empty_file")
    if extension_of(name) in PROGRAMS or _hides_its_type(name):
        raise ParseError("This type of file can not be read.", code="unsupported_type")
    promised = BY_EXTENSION.get(extension_of(name))
    picture = _picture_type(head)
    if picture is not None:
        # Cameras and messengers call pictures of one kind by the name of another; as pictures both are read.
        if promised is not None and not promised.mime.startswith("image/"):
            raise _mismatch(name)
        _refuse_bomb(head)
        return picture
    if head.startswith(BINARY) and _is_binary(head):
        raise _mismatch(name) if promised else ParseError("This type of file can not be read.", code="unsupported_type")
    found = _binary_type(path, head, name) or _text_type(head, promised.mime if promised else None, name)
    if promised is None or promised.mime == found or (found in TEXTS and promised.mime in (*TEXTS, XLS)):
        return found
    if promised.mime in (DOC, PPT) and (found in (RTF, "text/html") or found.startswith(OOXML)):
        return found  # what many programs write under the old names
    raise _mismatch(name)


def sniff_start(path: Path, name: str) -> None:
    """Refuse by the first bytes of a file (at `path`) what can not become the type that its name says.

    Containers (zip, OLE) and what only the end of a file can tell are left to `sniff`. Errors as `sniff`.
    """
    with path.open("rb") as file:
        head = file.read(HEAD)
    promised = BY_EXTENSION.get(extension_of(name))
    container = head.startswith((OLE, b"PK\x03\x04", b"PK\x05\x06"))
    if promised is not None and container:
        if promised.mime in (*TEXTS, PDF, RTF):
            raise _mismatch(name)
        return
    if container or (promised is not None and promised.mime == PDF and b"%PDF-" in head):
        return
    sniff(path, name)


def extension_of(name: str) -> str:
    """The extension of a file name, lower case, without the dot; control and direction marks do not hide it.

    What follows the last dot of "Part 1. Overview" is none.
    """
    stem, dot, extension = _UNSEEN.sub("", name).rpartition(".")
    return extension.lower() if dot and stem.strip("./\\ ") and not re.search(r"\s", extension) else ""


def _hides_its_type(name: str) -> bool:
    """A settings file of a server (`.htaccess`), or a name whose real end some systems do not show (`x.exe. .`)."""
    plain = _UNSEEN.sub("", name).replace("\\", "/").rpartition("/")[2]
    if plain.endswith((".", " ")):
        return True
    return plain.startswith(".") and "." not in plain[1:] and plain[1:].lower() not in BY_EXTENSION


def _picture_type(head: bytes) -> str | None:
    """The MIME type of a raster picture that can be read, by its header; None for anything else."""
    if head.startswith((b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+")):
        return "image/tiff"
    if head.startswith(b"\xff\xd8\xff"):  # its size may stand behind kilobytes of what the camera noted
        return "image/jpeg"
    header = image_header(head)
    # Two letters alone make no picture of a text that begins with "BM".
    if header is None or (head.startswith(b"BM") and head[6:10] != bytes(4)):
        return None
    return header.mime if header.mime in BY_MIME and header.width > 0 and header.height > 0 else None


def _refuse_bomb(head: bytes) -> None:
    header = image_header(head)
    if header is not None and header.width * header.height > MAX_PIXELS:
        raise ParseError("This picture has more than %(limit)s pixels.", code="too_many_pixels", limit=MAX_PIXELS)


def _binary_type(path: Path, head: bytes, name: str) -> str | None:
    if head.startswith(OLE):
        return _ole_type(path)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zip_type(path)
    start = head.lstrip(b"\x00\t\n\r\x0c \xef\xbb\xbf")
    if start.startswith(b"{\\rtf"):
        return RTF
    begins = start.startswith(b"%PDF-") and (extension_of(name) == "pdf" or b" obj" in head)
    if begins or _is_headless_pdf(path, head, name):
        return PDF
    return None


def _is_headless_pdf(path: Path, head: bytes, name: str) -> bool:
    """A PDF whose header stands late or is missing, which readers forgive; a text that quotes one is no PDF."""
    if b"%PDF-" not in head[:1024] and extension_of(name) != "pdf":
        return False
    with path.open("rb") as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(max(0, size - 2048))
        tail = file.read()
    return re.search(rb"\d \d+ obj\b", head) is not None and b"startxref" in tail and b"%%EOF" in tail


def _ole_type(path: Path) -> str:
    import olefile

    try:
        with olefile.OleFileIO(str(path)) as container:
            streams = {entry[0].lower() for entry in container.listdir()}
            protected = bool({"encryptedpackage", "encryptioninfo"} & streams) or _is_encrypted(container, streams)
    except (OSError, ValueError, IndexError, TypeError) as error:
        raise ParseError("The file is damaged or incomplete.", code="damaged_file") from error
    if protected:
        raise ParseError("This file is protected by a password. Save it without one.", code="password_protected")
    if {"workbook", "book"} & streams:
        return XLS
    for stream, mime in (("worddocument", DOC), ("powerpoint document", PPT)):
        if stream in streams:
            return mime
    raise ParseError("This type of file can not be read.", code="unsupported_type")


def _is_encrypted(container: Any, streams: set[str]) -> bool:
    """Old Word and PowerPoint files with a password: [MS-DOC] 2.5.2 (fEncrypted), [MS-PPT] 2.3.2 (headerToken)."""
    if "worddocument" in streams:
        with container.openstream("WordDocument") as stream:
            head = stream.read(12)
        return len(head) == 12 and bool(head[11] & 0x01)
    if "powerpoint document" in streams and "current user" in streams:
        with container.openstream("Current User") as stream:
            head = stream.read(16)
        return bool(head[12:16] == b"\xdf\xc4\xd1\xf3")
    return False


def _zip_type(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as directory:
            names = set(directory.namelist())
            if "mimetype" in names and directory.getinfo("mimetype").file_size < 200:
                with directory.open("mimetype") as stream:
                    kind = stream.read(200).decode("ascii", "replace").strip()
                if kind in (EPUB, ODF):
                    return kind
                if kind.startswith("application/vnd.oasis.opendocument."):
                    raise ParseError("This type of file can not be read.", code="unsupported_type")
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError, ValueError) as error:
        raise ParseError("The file is damaged or incomplete.", code="damaged_file") from error
    lowered = {name.replace("\\", "/").lower() for name in names}
    for part, mime in PARTS:
        if part in lowered:
            return mime
    return _renamed_part(lowered) or ZIP


def _renamed_part(names: set[str]) -> str | None:
    """Office files may call their main part otherwise; the folder still tells."""
    if "[content_types].xml" not in names:
        return None
    for folder, mime in (("word/", PARTS[0][1]), ("xl/", PARTS[1][1]), ("ppt/", PARTS[3][1])):
        if any(name.startswith(folder) and name.endswith(".xml") for name in names):
            return mime
    return None


def _text_type(head: bytes, promised: str | None, name: str) -> str:
    if _is_binary(head):
        if promised is not None:
            raise _mismatch(name)
        raise ParseError("This type of file can not be read.", code="unsupported_type")
    if promised in TEXTS:
        return promised or "text/plain"
    if promised == XLS:  # what many systems export as .xls is a web page or tab-separated text
        return "text/html" if _HTML.search(head) else "text/tab-separated-values"
    if promised in (DOC, PPT) and _HTML.search(head):
        return "text/html"
    if promised is not None:
        raise _mismatch(name)
    if extension_of(name):
        raise ParseError("This type of file can not be read.", code="unsupported_type")
    if _HEADER.match(head.replace(b"\r\n", b"\n")):
        return EMAIL
    return "text/html" if _HTML.search(head[:1024]) else "text/plain"


def _is_binary(head: bytes) -> bool:
    """Whether this is no text in any encoding; a few stray control characters do not count."""
    return has_control_characters(head) and wide_encoding(head) is None


def _mismatch(name: str) -> ParseError:
    row = BY_EXTENSION[extension_of(name)]
    return ParseError(
        "The content of this file is not %(label)s, as its name says.",
        code="type_mismatch",
        label=BY_MIME[row.mime].label,
    )
