"""What an RTF document says: bytes decoded by font, gathered into paragraphs, table rows and notes."""

from __future__ import annotations

import re

from knowledge.ingestion.blocks import Block, ParseContext
from knowledge.ingestion.parsers.drawing import NO_ALT
from knowledge.ingestion.parsers.encodings import known_codec, normalise
from knowledge.ingestion.parsers.images import Pictures
from knowledge.ingestion.parsers.outline import Outline
from knowledge.ingestion.parsers.rtf_tokens import SYMBOL, Group
from knowledge.ingestion.parsers.tables import markdown_table
from knowledge.ingestion.parsers.word_symbols import private_use

_HEADING_STYLE = re.compile(r"(?:heading|标题|見出し|überschrift|titre)\s*(\d)", re.IGNORECASE)
# "Page 3 of 9", "第 3 页 共 9 页", "- 3 -": says nothing once there are no pages.
_PAGE_MARK = re.compile(r"(?:page|seite|p\.)?[\s\d/|.,of\-–—第页共頁]*", re.IGNORECASE)
_LINK = re.compile(r'HYPERLINK\s+"?(https?://[^"\s]+)')
TEXT_DESTINATIONS = frozenset({"body", "footnote", "annotation"})


class Body:
    """Receives decoded pieces in order and builds blocks."""

    def __init__(self, context: ParseContext) -> None:
        self.blocks: list[Block] = []
        self.pictures = Pictures(context)
        self.fonts: dict[int, str] = {}
        self._font_names: dict[int, str] = {}
        self._symbols = ""  # the symbol font that the waiting bytes are set in
        self.title = ""
        self._ansi = "cp1252"
        self._outline = Outline()
        self._bytes = bytearray()
        self._codec = ""
        self._sink: list[str] = []
        self._text: list[str] = []
        self._cells: list[str] = []
        self._rows: list[list[str]] = []
        self._notes: list[tuple[int, str]] = []
        self._note: list[str] = []
        self._note_count = 0
        self._side: list[str] = []  # text of font, style, title, field and picture destinations
        self._headings: dict[int, int] = {}
        self._links: list[str] = []
        self._shown: list[str] = []
        self._running: dict[str, None] = {}  # heads and foots of pages, each once

    def code_page(self, number: int) -> None:
        """The code page of text in fonts that name none."""
        name = {65001: "utf-8", 10000: "mac_roman"}.get(number) or known_codec(f"cp{number}")
        self._ansi = name or "cp1252"

    def add_bytes(self, value: bytes, group: Group) -> None:
        """Bytes in the code page of the present font; half a character waits for the next bytes."""
        sink = self._sink_of(group)
        if sink is None:
            return
        codec = (self.fonts.get(group.font) if group.destination != "fonttbl" else "") or self._ansi
        symbols = self._symbol_font(group)
        if sink is not self._sink or codec != self._codec or symbols != self._symbols:
            self.flush()
            self._sink, self._codec, self._symbols = sink, codec, symbols
        self._bytes += value

    def add_text(self, value: str, group: Group) -> None:
        self.flush()
        sink = self._sink_of(group)
        if sink is not None:
            symbols = self._symbol_font(group)
            sink.append(private_use(value, symbols) if symbols else value)

    def flush(self) -> None:
        """Decode what waits."""
        if not self._bytes:
            return
        if self._codec == SYMBOL:
            places = "".join(chr(0xF000 + byte) if byte > 0x20 else chr(byte) for byte in self._bytes)
            self._sink.append(private_use(places, self._symbols or "wingdings"))
        else:
            self._sink.append(bytes(self._bytes).decode(self._codec, "replace"))
        self._bytes.clear()

    def _symbol_font(self, group: Group) -> str:
        return self._font_names.get(group.font, "") if self.fonts.get(group.font) == SYMBOL else ""

    def begin_destination(self, group: Group) -> None:
        self.flush()
        if group.destination == "footnote":
            self._note_count += 1
            self._text.append(f"[{self._note_count}]")
            self._note = []
        elif group.destination == "annotation":
            self._note = []
        elif group.destination in ("pict", "running"):
            self._side = []

    def end_destination(self, closed: Group, outer: Group) -> None:
        self.flush()
        kind = closed.destination
        if kind in ("footnote", "annotation"):
            text = _tidy("".join(self._note))
            if text:
                self._notes.append((self._note_count if kind == "footnote" else 0, text))
            self._note = []
        elif kind == "title":
            title = normalise("".join(self._side))
            self.title = title if title.strip("? ") else ""  # what a wrong code page left
        elif kind == "fldinst":
            link = _LINK.search("".join(self._side))
            if link and outer.destination in TEXT_DESTINATIONS:
                self._links.append(link[1])
        elif kind == "running":
            text = _tidy("".join(self._side))
            if text and not _PAGE_MARK.fullmatch(text):
                self._running[text] = None
        elif kind == "pict":
            self._picture()
        self._side = []

    def end_paragraph(self, group: Group) -> None:
        self.flush()
        if group.destination in ("footnote", "annotation"):
            self._note.append("\n")
        elif group.destination == "running":
            self._side.append("\n")
        elif group.destination != "body":
            return
        elif group.in_table:
            self._text.append("\n")
        else:
            self._end_table()
            self._paragraph(group.outline or self._headings.get(group.style, 0))

    def end_cell(self, group: Group, *, nested: bool) -> None:
        self.flush()
        if group.destination != "body":
            return
        if nested:  # a table inside a cell is running text: cells by commas, rows by semicolons
            _end_piece(self._text, ", ")
            return
        self._cells.append(self._take())

    def end_row(self, group: Group, *, nested: bool) -> None:
        self.flush()
        if nested:
            _end_piece(self._text, "; ")
        if nested or group.destination != "body":
            return
        if self._cells:
            self._rows.append(self._cells)
            self._cells = []

    def finish(self) -> None:
        """End whatever is open at the end of the file."""
        self.flush()
        if self._cells:
            self._rows.append([*self._cells, self._take()])
            self._cells = []
        self._end_table()
        self._paragraph(0)
        self.blocks.extend(Block(kind="paragraph", text=text) for text in self._running)

    def _sink_of(self, group: Group) -> list[str] | None:
        if group.hidden:
            return None
        if group.destination == "body":
            return self._text
        if group.destination in ("footnote", "annotation"):
            return self._note
        if group.destination == "fonttbl":
            return _FontName(self._font_names, group.font)
        if group.destination == "stylesheet":
            return _StyleName(self._headings, group.style)
        return self._side if group.destination in ("title", "fldinst", "pict", "running") else None

    def _take(self) -> str:
        while self._text and self._text[-1] in (", ", "; "):
            self._text.pop()
        text = _tidy("".join(self._text))
        self._text.clear()
        links = [link for link in dict.fromkeys(self._links) if link not in text]
        self._links.clear()
        return " ".join([text, *(f"<{link}>" for link in links)]) if text else ""

    def _paragraph(self, level: int) -> None:
        text = self._take()
        heading = self._outline.heading(level, text) if text and level else None
        if heading:
            self.blocks.append(heading)
        elif text:
            self.blocks.append(Block(kind="paragraph", text=text, heading_path=self._outline.path))
        self._extras()

    def _end_table(self) -> None:
        if self._rows:
            text = markdown_table(self._rows)
            self._rows = []
            self.blocks.append(Block(kind="table", text=text, heading_path=self._outline.path))

    def _extras(self) -> None:
        path = self._outline.path
        for key in self._shown:
            self.blocks.append(Block(kind="image", text=NO_ALT, heading_path=path, image=key))
        for number, text in self._notes:
            self.blocks.append(Block(kind="note", text=f"[{number}] {text}" if number else text, heading_path=path))
        self._shown.clear()
        self._notes.clear()

    def _picture(self) -> None:
        try:
            data = bytes.fromhex("".join("".join(self._side).split()))
        except ValueError:
            return
        key = self.pictures.add(data)
        if key:
            self._shown.append(key)


class _StyleName(list[str]):
    """Receives the name of one style of the style sheet and notes whether it is a heading."""

    def __init__(self, headings: dict[int, int], style: int) -> None:
        super().__init__()
        self._headings = headings
        self._style = style

    def append(self, value: str) -> None:
        found = _HEADING_STYLE.search(value)
        if found and 1 <= int(found[1]) <= 9:
            self._headings[self._style] = int(found[1])


class _FontName(list[str]):
    """Receives the name of one font of the font table."""

    def __init__(self, names: dict[int, str], font: int) -> None:
        super().__init__()
        self._names = names
        self._font = font

    def append(self, value: str) -> None:
        self._names[self._font] = (self._names.get(self._font, "") + value).rstrip("; ").lower()


def _end_piece(parts: list[str], mark: str) -> None:
    """Close a nested cell or row; what closes twice keeps the later mark."""
    while parts and parts[-1] in (", ", "; ", "\n"):
        parts.pop()
    if parts:
        parts.append(mark)


def _tidy(text: str) -> str:
    lines = (re.sub(r"[ \t\xa0]+", " ", line).strip() for line in normalise(text).split("\n"))
    return private_use("\n".join(line for line in lines if line), "wingdings")
