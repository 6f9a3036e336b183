"""A fast path through worksheets: rows and cells as nearly all programs write them, found by pattern.

Only UTF-8 parts without namespace prefixes are scanned, and within them only rows in which every
cell matches; everything else is left to the XML parser. Nothing is expanded here: a row with `&`
is an unusual row, so entities never come into play.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator

from knowledge.ingestion.parsers.ooxml import transitional
from knowledge.ingestion.parsers.xml import Readable, integer, refuse_dtd
from portal.kernel.errors import ParseError

HEAD = 64 * 1024
PIECE = 512 * 1024
# Column letters, style, type, "<f" if it has a formula, value, inline text.
UsualCell = tuple[str, str, str, str, str, str]
_CELL = re.compile(
    r'<c(?: r="([A-Z]{1,3})[0-9]{1,7}")?(?: s="([0-9]{1,6})")?(?: t="([a-zA-Z]{1,10})")?'
    r"(?:/>|>(?:(<f)(?: [^>]*)?(?:/>|>[^<]*</f>))?"
    r'(?:<v>([^<]*)</v>|<v/>|<is><t(?: xml:space="preserve")?>([^<]*)</t></is>)?</c>)'
)
_ROOT = re.compile(r'\s*(?:<\?xml version="1\.[01]"(?: encoding="(?:utf|UTF)-8")?[^>]*\?>)?\s*(<worksheet[^>]*>)')
_UNUSUAL = re.compile(r"&|<!|[\x00-\x08\x0b-\x1f]")
_NUMBER = re.compile(r'\br="([0-9]{1,7})"')
_MERGE = re.compile(r'<mergeCell\s[^>]*?\bref="([^"]{1,40})"')
_ROW_END, _DATA_END = "</row>", "</sheetData>"


class Rewound(io.RawIOBase):
    """A stream with its first bytes put back."""

    def __init__(self, head: bytes, stream: Readable) -> None:
        self._head = head
        self._stream = stream

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._head:
            part = self._head if size < 0 else self._head[:size]
            self._head = self._head[len(part) :]
            return part + self._stream.read() if size < 0 else part
        return self._stream.read(size)


class Scan:
    """One worksheet part being scanned; read `rows`, then `merges`."""

    def __init__(self, root: str, stream: Readable) -> None:
        self._root = root
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self.complete = False

    def rows(self) -> Iterator[tuple[int | None, str]]:
        """Row numbers (None if the file does not say) and what stands between `<row …>` and `</row>`."""
        pending: list[str] = []
        tail = ""
        while True:
            data = self._stream.read(PIECE)
            piece = self._decoder.decode(data, final=not data)
            pending.append(piece)
            window = tail + piece
            tail = window[-len(_DATA_END) :]
            if data and _ROW_END not in window and _DATA_END not in window:
                continue
            *ended, last = "".join(pending).split(_ROW_END)
            yield from map(_row, ended)
            pending = [last]
            if _DATA_END in last or not data:
                self.complete = _DATA_END in last or "<sheetData/>" in last
                self._rest = last
                return

    def merges(self) -> Iterator[str]:
        """References of the merged ranges, which stand behind the rows."""
        parts = [self._rest]
        while data := self._stream.read(PIECE):
            parts.append(self._decoder.decode(data))
        return (found[1] for found in _MERGE.finditer("".join(parts)))

    def as_document(self, number: int | None, content: str) -> bytes:
        """An unusual row as an XML document of its own, with the namespaces of the part."""
        place = "" if number is None else f' r="{number}"'
        return transitional(f"{self._root}<row{place}>{content}</row></worksheet>".encode())


def scan_of(head: bytes, stream: Readable) -> Scan | None:
    """A scan of the part that begins with `head`, or None if the XML parser has to read it.

    Raises `ParseError` (`unsafe_xml`) for a DTD.
    """
    refuse_dtd(head)
    try:
        text = head[: head.index(b"<sheetData")].removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except ValueError:  # no <sheetData> there, or not UTF-8
        return None
    root = _ROOT.match(text)
    return Scan(root[1], stream) if root and not root[1].endswith("/>") else None


def usual_cells(content: str) -> list[UsualCell] | None:
    """The cells of a row, or None unless every one of them is written in the usual way."""
    if _UNUSUAL.search(content):
        return None
    cells: list[UsualCell] = _CELL.findall(content)
    return cells if len(cells) == content.count("<c ") + content.count("<c>") + content.count("<c/>") else None


def _row(part: str) -> tuple[int | None, str]:
    start = part.rfind("<row")
    if start < 0:
        raise ParseError("The file is damaged or incomplete.", code="damaged_file")
    end = part.find(">", start)
    found = _NUMBER.search(part, start, end)
    return (integer(found[1]) if found else None), part[end + 1 :]
