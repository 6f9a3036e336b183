"""A tiny `.xls` for tests: BIFF8 records in an OLE container ([MS-XLS] 2.4, [MS-CFB] 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import pack

SECTOR = 512
FREE, END, FAT = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
Value = str | float | bool | tuple[float, int]  # a number with its style index


def workbook(sheets: Mapping[str, Sequence[Sequence[Value]]], formats: Sequence[str] = (), hidden: str = "") -> bytes:
    """An old workbook. Style 15 + n (as in Excel's own files) shows numbers by `formats[n]`."""
    styles = b"".join(_record(0x041E, pack("<H", 164 + n) + _text16(code)) for n, code in enumerate(formats))
    kinds = [0] * 15 + [164 + n for n in range(len(formats))] + [0]
    styles += b"".join(_record(0x00E0, pack("<HH", 0, kind) + b"\0" * 16) for kind in kinds)
    bodies = [_sheet(rows) for rows in sheets.values()]
    bound = [_record(0x0085, pack("<IBB", 0, name == hidden, 0) + _text8(name)) for name in sheets]
    start = (
        _record(0x0809, pack("<HHHHII", 0x0600, 0x0005, 0, 0, 0, 0x0600)) + _record(0x0042, pack("<H", 1200)) + styles
    )
    position = len(start) + sum(map(len, bound)) + 4
    for index, (name, body) in enumerate(zip(sheets, bodies, strict=True)):
        bound[index] = _record(0x0085, pack("<IBB", position, name == hidden, 0) + _text8(name))
        position += len(body)
    return container(start + b"".join(bound) + _record(0x000A, b"") + b"".join(bodies))


def container(stream: bytes, name: str = "Workbook") -> bytes:
    """An OLE container with one stream, padded so that it needs no mini stream."""
    stream = stream.ljust(max(4096, -(-len(stream) // SECTOR) * SECTOR), b"\0")
    count = len(stream) // SECTOR
    fat = [FAT, END, *range(3, count + 2), END]
    table = pack(f"<{len(fat)}I", *fat).ljust(SECTOR, b"\xff")
    entries = _entry("Root Entry", 5, child=1, start=END, size=0) + _entry(
        name, 2, child=FREE, start=2, size=len(stream)
    )
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 16 + pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6) + b"\0" * 6
    header += pack("<IIIIIIIII", 0, 1, 1, 0, 4096, END, 0, END, 0) + pack("<I", 0)
    return header.ljust(SECTOR, b"\xff") + table + entries.ljust(SECTOR, b"\0") + stream


def _sheet(rows: Sequence[Sequence[Value]]) -> bytes:
    width = max(map(len, rows), default=0)
    body = _record(0x0809, pack("<HHHHII", 0x0600, 0x0010, 0, 0, 0, 0x0600))
    body += _record(0x0200, pack("<IIHHH", 0, len(rows), 0, width, 0))
    for row, cells in enumerate(rows):
        for column, value in enumerate(cells):
            body += _cell(row, column, value)
    return body + _record(0x000A, b"")


def _cell(row: int, column: int, value: Value) -> bytes:
    number, style = value if isinstance(value, tuple) else (value, 0)
    place = pack("<HHH", row, column, style)
    if isinstance(number, bool):
        return _record(0x0205, place + pack("<BB", number, 0))
    if isinstance(number, str):
        return _record(0x0204, place + _text16(number)) if number else b""
    return _record(0x0203, place + pack("<d", number))


def _record(kind: int, data: bytes) -> bytes:
    return pack("<HH", kind, len(data)) + data


def _text8(text: str) -> bytes:
    return pack("<BB", len(text), 1) + text.encode("utf-16-le")


def _text16(text: str) -> bytes:
    return pack("<HB", len(text), 1) + text.encode("utf-16-le")


def _entry(name: str, kind: int, *, child: int, start: int, size: int) -> bytes:
    raw = (name + "\0").encode("utf-16-le")
    links = pack("<HBBIII", len(raw), kind, 1, FREE, FREE, child)
    return raw.ljust(64, b"\0") + links + b"\0" * 36 + pack("<IQ", start, size)
