"""Reading zip files that nobody vouches for: the only place that inflates entries of an uploaded archive.

Sizes in the central directory are the sender's claim, so nothing here trusts them: bytes are counted
as they come out, per entry (ratio) and over the archive together with all archives inside it
(`Budget`). Nothing is ever written to disk, so a name like `../../x` is only a name.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from knowledge.ingestion.blocks import ParseContext
from portal.kernel.errors import ParseError

CHUNK = 64 * 1024
# A short entry may compress better than 100:1 without being a bomb (3,000 equal paragraphs do), and
# does no harm: the ratio is judged once an entry has given this many bytes.
RATIO_FLOOR = 8 * 1024 * 1024
LOCAL_HEADER = struct.Struct("<4s5H3I2H")
STORED, DEFLATED = 0, 8
ENCRYPTED_FLAG, UTF8_FLAG = 0x1, 0x800


@dataclass(slots=True)
class Budget:
    """What an archive and every archive inside it may still use; shared by reference."""

    entries: int
    bytes: int

    @classmethod
    def of(cls, context: ParseContext) -> Budget:
        return cls(context.max_archive_entries, context.max_archive_bytes)


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of an archive. `raw_name` is the name as stored, `utf8` whether the archive says it is UTF-8."""

    name: str
    raw_name: bytes
    utf8: bool
    info: zipfile.ZipInfo = field(repr=False, compare=False)

    @property
    def is_dir(self) -> bool:
        return self.name.endswith("/")


class Archive:
    """A zip file under the limits of a `ParseContext`.

    Raises `ParseError` with code `empty_file`, `type_mismatch` (no zip at all), `damaged_file`,
    `password_protected` or `archive_limit`, from the constructor and from every read.
    """

    def __init__(self, file: Path | bytes, context: ParseContext, *, budget: Budget | None = None) -> None:
        self._context = context
        self._budget = budget or Budget.of(context)
        self._file: IO[bytes] = file.open("rb") if isinstance(file, Path) else io.BytesIO(file)
        try:
            self.entries = self._directory()
        except BaseException:
            self._file.close()
            raise
        self._by_name = {entry.name: entry for entry in reversed(self.entries)}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    @property
    def names(self) -> tuple[str, ...]:
        """Names in the order of the directory, folders (ending in `/`) included."""
        return tuple(entry.name for entry in self.entries)

    def read(self, name: str | Entry, *, at_most: int | None = None) -> bytes:
        """All bytes of an entry, or its first `at_most` bytes. KeyError if there is no such name."""
        parts: list[bytes] = []
        size = 0
        for part in self.stream(name):
            parts.append(part)
            size += len(part)
            if at_most is not None and size >= at_most:
                break
        return b"".join(parts)[:at_most]

    def open(self, name: str | Entry) -> IO[bytes]:
        """An entry as a binary stream that inflates as it is read. KeyError if there is no such name."""
        return io.BufferedReader(_Inflating(self.stream(name)), CHUNK)

    def nested(self, name: str | Entry) -> Archive:
        """The archive inside this archive; both draw on one budget."""
        return Archive(self.read(name), self._context, budget=self._budget)

    def stream(self, name: str | Entry) -> Iterator[bytes]:
        """The bytes of an entry, piece by piece, counted against ratio and budget, CRC checked at the end."""
        entry = name if isinstance(name, Entry) else self._by_name[name]
        if entry.info.flag_bits & ENCRYPTED_FLAG:
            raise ParseError("This archive is protected by a password.", code="password_protected")
        if entry.info.compress_type not in (STORED, DEFLATED):
            raise _damaged()
        return self._inflate(entry)

    def _directory(self) -> tuple[Entry, ...]:
        head = self._file.read(4)
        if not head:
            raise ParseError("The file is empty.", code="empty_file")
        if not head.startswith(b"PK"):
            raise ParseError("The content of this file is not what its name says.", code="type_mismatch")
        try:
            with zipfile.ZipFile(self._file) as directory:
                infos = directory.infolist()
        except (zipfile.BadZipFile, struct.error, ValueError, NotImplementedError, EOFError, OSError) as error:
            raise _damaged() from error
        self._budget.entries -= len(infos)
        if self._budget.entries < 0:
            raise ParseError(
                "The archive holds more than %(limit)s files.",
                code="archive_limit",
                limit=self._context.max_archive_entries,
            )
        return tuple(_entry(info) for info in infos)

    def _inflate(self, entry: Entry) -> Iterator[bytes]:
        position = self._data_offset(entry.info)
        left = entry.info.compress_size
        inflater = zlib.decompressobj(-zlib.MAX_WBITS) if entry.info.compress_type == DEFLATED else None
        consumed = produced = checksum = 0
        while left > 0 and not (inflater and inflater.eof):
            self._file.seek(position)
            raw = self._file.read(min(CHUNK, left))
            if not raw:
                raise _damaged()
            position += len(raw)
            left -= len(raw)
            consumed += len(raw)
            for part in _inflated(inflater, raw):
                produced += len(part)
                self._charge(len(part), consumed, produced)
                checksum = zlib.crc32(part, checksum)
                yield part
        if (inflater and not inflater.eof and entry.info.compress_size) or checksum != entry.info.CRC:
            raise _damaged()

    def _charge(self, size: int, consumed: int, produced: int) -> None:
        self._budget.bytes -= size
        if produced > RATIO_FLOOR and produced > consumed * self._context.max_archive_ratio:
            raise ParseError("The file expands too far when unpacked.", code="archive_limit")
        if self._budget.bytes < 0:
            raise ParseError("The file is too large when unpacked.", code="archive_limit")

    def _data_offset(self, info: zipfile.ZipInfo) -> int:
        self._file.seek(info.header_offset)
        header = self._file.read(LOCAL_HEADER.size)
        if len(header) < LOCAL_HEADER.size or not header.startswith(b"PK\x03\x04"):
            raise _damaged()
        fields = LOCAL_HEADER.unpack(header)
        return info.header_offset + LOCAL_HEADER.size + int(fields[9]) + int(fields[10])


class _Inflating(io.RawIOBase):
    """A raw stream over the pieces of one entry."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = piece
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def _inflated(inflater: zlib._Decompress | None, raw: bytes) -> Iterator[bytes]:
    """What `raw` inflates to, at most 64 KiB a piece, so that a bomb is caught at its first step."""
    if inflater is None:
        yield raw
        return
    try:
        while raw:
            part = inflater.decompress(raw, CHUNK)
            if part:
                yield part
            raw = inflater.unconsumed_tail
    except zlib.error as error:
        raise _damaged() from error


def _entry(info: zipfile.ZipInfo) -> Entry:
    utf8 = bool(info.flag_bits & UTF8_FLAG)
    raw = info.orig_filename.encode("utf-8" if utf8 else "cp437", "replace")
    return Entry(name=entry_name(raw, utf8=utf8), raw_name=raw, utf8=utf8, info=info)


def entry_name(raw: bytes, *, utf8: bool) -> str:
    """The name as its author saw it.

    Without the UTF-8 flag the standard says code page 437, but Windows tools write the local code
    page (GBK in China) and macOS writes UTF-8; ASCII is the same in all of them.
    """
    for encoding in ("utf-8",) if utf8 else ("utf-8", "gb18030"):
        try:
            return raw.decode(encoding).replace("\x00", "").replace("\\", "/")
        except UnicodeDecodeError:
            continue
    return raw.decode("utf-8" if utf8 else "cp437", "replace").replace("\x00", "").replace("\\", "/")


def _damaged() -> ParseError:
    return ParseError("The file is damaged or incomplete.", code="damaged_file")
