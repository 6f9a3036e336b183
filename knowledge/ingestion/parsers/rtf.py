"""RTF to blocks: paragraphs, headings by style or outline level, tables, footnotes, pictures.

Our own reader instead of a library, because text must be decoded by the font it stands in (\\fcharset,
\\ansicpg), a double-byte character may be half escaped (`\\'95A`), and footnotes and tables must stay.
Reference: Rich Text Format Specification 1.9.1.
"""

from __future__ import annotations

from knowledge.ingestion.blocks import Block, ParseContext, ParsedDocument, Source, assemble
from knowledge.ingestion.parsers.encodings import known_codec
from knowledge.ingestion.parsers.rtf_body import Body
from knowledge.ingestion.parsers.rtf_tokens import CODE_PAGES, Group, tokens
from portal.kernel.errors import ParseError

MIME = "application/rtf"
MAX_DEPTH = 1_000
# Destinations whose text belongs to the document, though the file may mark them as skippable.
KEPT = frozenset(
    {
        "shppict", "shpinst", "shptxt", "shp", "fldrslt", "field", "listtext", "pntext", "rtf", "result", "ud", "do",
        "moMath", "moMathPara", "nesttableprops",
    }
)  # fmt: skip
SKIPPED = frozenset(
    {
        "colortbl", "listtable", "listoverridetable", "revtbl", "rsidtbl", "generator", "filetbl", "ftnsep",
        "ftnsepc", "ftncn", "aftnsep",
        "aftnsepc", "aftncn", "pgdsctbl", "xe", "tc", "bkmkstart", "bkmkend", "objdata", "objclass", "objname",
        "nonshppict", "sp",
        "shprslt", "themedata", "colorschememapping", "latentstyles", "datastore", "pn", "pnseclvl", "panose", "falt",
        "atnid", "atnauthor", "atnref", "atndate", "atrfstart", "atrfend", "listpicture", "mmathPict", "author",
        "operator", "company", "keywords", "comment", "doccomm", "subject", "manager", "category", "userprops",
        "hlinkbase", "template", "private", "xmlnstbl", "wgrffmtfilter", "nonesttables",
    }
)  # fmt: skip
RUNNING = frozenset({"header", "headerl", "headerr", "headerf", "footer", "footerl", "footerr", "footerf"})
BREAKS = frozenset({"par", "sect", "page", "column"})
CHARACTERS = {
    "tab": "\t", "line": "\n", "lbr": "\n", "emdash": "—", "endash": "–", "emspace": " ", "enspace": " ",
    "qmspace": " ", "bullet": "•", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”",
}  # fmt: skip
ESCAPED = {b"~": " ", b"_": "-"}
ANSI_HALVES = {"mac": 10000, "pc": 437, "pca": 850}  # what the file's head says instead of \\ansicpg
MATHS = {"mden": "/", "msup": "^", "msub": "_", "mdeg": "", "mrad": "√"}  # written before what the group holds


def parse(source: Source, context: ParseContext) -> ParsedDocument:
    """Blocks of an RTF file. Raises `ParseError` (`type_mismatch`, `nested_too_deep`)."""
    data = source.read()
    if not data.lstrip().startswith(b"{\\rtf"):
        raise ParseError("The content of this file is not what its name says.", code="type_mismatch")
    reader = _Reader(Body(context))
    reader.read(data)
    body = reader.body
    body.finish()
    context.progress(1, 1)
    return assemble(
        MIME,
        body.blocks,
        warnings=body.pictures.warnings,
        images=body.pictures.images,
        title=" ".join(body.title.split()),
    )


def blocks_of(data: bytes, context: ParseContext) -> list[Block]:
    """The blocks of RTF that stands inside another document, without its pictures. Raises `ParseError`."""
    reader = _Reader(Body(context))
    reader.read(data)
    reader.body.finish()
    return [block for block in reader.body.blocks if block.image is None]


class _Reader:
    """Follows groups and control words and hands text to the body."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self._group = Group()
        self._outer: list[Group] = []
        self._default_font = 0
        self._starred = False
        self._to_skip = 0  # fallback characters behind \u
        self._surrogate = 0

    def read(self, data: bytes) -> None:
        for kind, value, number in tokens(data):
            if kind == "text":
                self._bytes(value)
            elif kind == "hex":
                self._bytes(bytes([number or 0]))
            elif kind == "word":
                self._word(value.decode("ascii"), number)
            elif kind == "symbol":
                self._symbol(value)
            elif kind == "open":
                self._open()
            elif not self._close():
                return

    def _open(self) -> None:
        if len(self._outer) >= MAX_DEPTH:
            raise ParseError("The file is nested too deep to be read safely.", code="nested_too_deep")
        self._to_skip = 0
        self.body.flush()
        outer = self._group
        self._outer.append(outer)
        self._group = outer.inner()
        if outer.two_forms:  # of \\upr the first form is without Unicode, the second with it
            outer.two_forms = False
            self._group.destination = "skip"

    def _close(self) -> bool:
        self._to_skip = 0
        self.body.flush()
        closed = self._group
        if not self._outer:
            return False
        self._group = self._outer.pop()
        if closed.destination != self._group.destination:
            self.body.end_destination(closed, self._group)
        return bool(self._outer)

    def _bytes(self, value: bytes) -> None:
        if self._to_skip:
            skipped = min(self._to_skip, len(value))
            self._to_skip -= skipped
            value = value[skipped:]
        if value:
            self.body.add_bytes(value, self._group)

    def _symbol(self, value: bytes) -> None:
        if value in (b"{", b"}", b"\\"):  # may be the second half of a double-byte character
            self._bytes(value)
            return
        self._to_skip = 0
        if value == b"*":
            self._starred = True
        elif value in ESCAPED:
            self.body.add_text(ESCAPED[value], self._group)
        elif value in (b"\n", b"\r"):
            self._end_paragraph()

    def _word(self, word: str, number: int | None) -> None:
        starred, self._starred = self._starred, False
        group = self._group
        if word == "u" and number is not None:
            self._unicode(number)
            return
        self._to_skip = 0
        if self._destination(word, starred):
            return
        if word in CHARACTERS:
            self.body.add_text(CHARACTERS[word], group)
        elif word in BREAKS:
            self._end_paragraph()
        elif word in ("cell", "nestcell"):
            self.body.end_cell(group, nested=word == "nestcell")
        elif word in ("row", "nestrow"):
            self.body.end_row(group, nested=word == "nestrow")
        else:
            self._format(word, number)

    def _destination(self, word: str, starred: bool) -> bool:
        """Whether `word` opens a destination; what is marked skippable and unknown is skipped."""
        group = self._group
        if group.destination == "skip":
            return True
        if word in ("fonttbl", "stylesheet", "footnote", "annotation", "pict", "fldinst"):
            group.destination = word
            self.body.begin_destination(group)
        elif word in RUNNING:
            group.destination = "running"
            self.body.begin_destination(group)
        elif word == "title" and group.destination == "info":
            group.destination = "title"
        elif word == "info":
            group.destination = "info"
        elif word in SKIPPED or _is_property_of_maths(word) or (starred and word not in KEPT):
            group.destination = "skip"
        else:
            return False
        return True

    def _format(self, word: str, number: int | None) -> None:
        group = self._group
        on = number != 0
        if word == "f":
            self.body.flush()
            group.font = number or 0
        elif word == "fcharset" and group.destination == "fonttbl":
            self.body.fonts[group.font] = CODE_PAGES.get(number or 0, "")
        elif word == "cpg" and group.destination == "fonttbl":
            self.body.fonts[group.font] = known_codec(f"cp{number}") or ""
        elif word in ANSI_HALVES and len(self._outer) == 1:
            self.body.code_page(ANSI_HALVES[word])
        elif word == "upr":
            group.two_forms = True
        elif word in MATHS:
            self.body.add_text(MATHS[word], group)
        elif word == "ansicpg":
            self.body.code_page(number or 1252)
        elif word == "deff":
            self._default_font = group.font = number or 0
        elif word == "uc":
            group.fallback = number if number is not None else 1
        elif word in ("v", "deleted"):
            group.hidden = on
        elif word == "plain":
            self.body.flush()
            group.hidden, group.font = False, self._default_font
        elif word == "pard":
            group.paragraph()
        elif word == "intbl":
            group.in_table = True
        elif word == "s":
            group.style = number or 0
        elif word == "outlinelevel" and (number or 0) < 9:
            group.outline = (number or 0) + 1

    def _unicode(self, number: int) -> None:
        code = number + 0x10000 if number < 0 else number
        if 0xD800 <= code < 0xDC00:
            self._surrogate = code
        elif 0xDC00 <= code < 0xE000 and self._surrogate:
            code = 0x10000 + ((self._surrogate - 0xD800) << 10) + (code - 0xDC00)
            self._surrogate = 0
            self.body.add_text(chr(code), self._group)
        elif code <= 0x10FFFF:
            self.body.add_text(chr(code), self._group)
        self._to_skip = self._group.fallback

    def _end_paragraph(self) -> None:
        self.body.end_paragraph(self._group)


def _is_property_of_maths(word: str) -> bool:
    return word.startswith("m") and word.endswith("Pr")
