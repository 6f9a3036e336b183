"""The text of one Word paragraph: insertions in and deletions out, fields by their results, symbols as Unicode.

What stands in a paragraph but is no text of it (text boxes, pictures, references to notes) is handed
back beside the text, in order. Source: ECMA-376 part 1, 17.3 and 17.16.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from knowledge.ingestion.parsers.characters import figures, storable
from knowledge.ingestion.parsers.ooxml import ALTERNATE, chosen, on
from knowledge.ingestion.parsers.word_numbering import VAL, W
from knowledge.ingestion.parsers.word_styles import PLAIN, Style, Styles
from knowledge.ingestion.parsers.word_symbols import M, maths, private_use, symbol
from knowledge.ingestion.parsers.xml import Element, integer

V = "{urn:schemas-microsoft-com:vml}"
BOX = f"{W}txbxContent"
RUN, PARAGRAPH_PROPERTIES, RUN_PROPERTIES, TEXT = f"{W}r", f"{W}pPr", f"{W}rPr", f"{W}t"
# Containers inside a paragraph (or a body) that are looked through, and those that are left out.
THROUGH = frozenset(
    f"{W}{name}"
    for name in (
        "ins",
        "moveTo",
        "hyperlink",
        "smartTag",
        "customXml",
        "fldSimple",
        "sdtContent",
        "dir",
        "bdo",
        "rubyBase",
    )
)
_LITERAL = {f"{W}tab": "\t", f"{W}br": "\n", f"{W}cr": "\n", f"{W}noBreakHyphen": "-", f"{W}ptab": "\t"}
_GRAPHIC = frozenset({f"{W}drawing", f"{W}pict", f"{W}object"})
_PICTURED = ("}pic", "}imagedata", "}chart", "}relIds")
TINY = 4  # half points; text of 2 pt or less is not meant to be read


@dataclass(frozen=True, slots=True)
class Graphic:
    """A picture (`pic:pic`, `v:imagedata`), chart or diagram reference, with the drawing's alternative text."""

    element: Element
    alt: str = ""


@dataclass(slots=True)
class Line:
    """A paragraph read: its text without label, and what hangs on it.

    `notes` are (kind, id) with kind `footnote`, `endnote` or `comment`; `boxes` are `w:txbxContent`,
    `graphics` are pictures, charts and diagrams.
    """

    text: str = ""
    style: Style = PLAIN
    label: str | None = None
    depth: int = 0
    level: int | None = None
    joins_next: bool = False
    notes: list[tuple[str, str]] = field(default_factory=list)
    boxes: list[Element] = field(default_factory=list)
    graphics: list[Graphic] = field(default_factory=list)


class RunReader:
    """Reads paragraphs; remembers the open fields, which may span several, and counts what is hidden."""

    def __init__(self, styles: Styles) -> None:
        self._styles = styles
        self._fields: list[bool] = []  # True while inside the instruction of a field
        self._parts: list[str] = []
        self._line = Line()
        self.hidden = 0
        self.note_numbers: dict[tuple[str, str], int] = {}
        self._counts: dict[str, int] = {}

    def read(self, paragraph: Element) -> Line:
        """The paragraph's text and attachments; style, label and level are the caller's business."""
        self._parts, self._line = [], Line()
        # An instruction never spans paragraphs in practice; a field left open must not swallow the rest.
        self._fields = [False for _ in self._fields]
        self._inline(paragraph)
        self._line.text = storable("".join(self._parts))
        return self._line

    def _inline(self, element: Element) -> None:
        for child in element:
            name = child.tag
            if name == RUN:
                self._run(child)
            elif name in THROUGH:
                self._inline(child)
            elif name == f"{W}sdt":
                for content in child.iterchildren(f"{W}sdtContent"):
                    self._inline(content)
            elif name == ALTERNATE:
                self._inline(chosen(child))
            elif name in (f"{M}oMath", f"{M}oMathPara"):
                self._parts.append(maths(child))

    def _run(self, run: Element) -> None:
        font = position = ""
        for child in run:
            name = child.tag
            if name == TEXT:
                if not any(self._fields):
                    text = child.text or ""
                    text = private_use(text, font) if font else text
                    self._parts.append(figures(text, raised=position == "superscript") if position else text)
            elif name == RUN_PROPERTIES:
                if self._is_hidden(child):
                    self.hidden += any(True for _ in run.iterchildren(TEXT))
                    return
                font, position = _symbol_font(child), _position(child)
            elif name in _LITERAL:
                self._parts.append(_LITERAL[name])
            else:
                self._special(child, name)

    def _special(self, child: Element, name: str) -> None:
        if name == f"{W}fldChar":
            self._field(child)
        elif name == f"{W}sym":
            self._parts.append(symbol(child.get(f"{W}font", ""), child.get(f"{W}char", "")))
        elif name in (f"{W}footnoteReference", f"{W}endnoteReference"):
            self._note(name[len(W) : -len("Reference")], child.get(f"{W}id", ""))
        elif name == f"{W}commentReference":
            self._line.notes.append(("comment", child.get(f"{W}id", "")))
        elif name in _GRAPHIC:
            self._graphic(child)
        elif name == ALTERNATE:
            self._alternate_in_run(child)
        elif name == f"{W}ruby":
            self._inline_all(child, f"{W}rubyBase")
        elif name == RUN:
            self._run(child)
        elif name in THROUGH:
            self._inline(child)

    def _inline_all(self, element: Element, name: str) -> None:
        for part in element.iterchildren(name):
            self._inline(part)

    def _alternate_in_run(self, element: Element) -> None:
        for child in chosen(element):
            if child.tag in _GRAPHIC:
                self._graphic(child)
            elif child.tag == TEXT:
                self._parts.append(child.text or "")
            elif isinstance(child.tag, str):
                self._special(child, child.tag)

    def _note(self, kind: str, identifier: str) -> None:
        key = (kind, identifier)
        if key not in self.note_numbers:
            self._counts[kind] = self._counts.get(kind, 0) + 1
        number = self.note_numbers.setdefault(key, self._counts[kind])
        self._parts.append(f"[{note_mark(kind, number)}]")
        self._line.notes.append(key)

    def _field(self, element: Element) -> None:
        kind = element.get(f"{W}fldCharType")
        if kind == "begin":
            self._fields.append(True)
            self._form_field(element)
        elif kind == "separate" and self._fields:
            self._fields[-1] = False
        elif kind == "end" and self._fields:
            self._fields.pop()

    def _form_field(self, element: Element) -> None:
        box = element.find(f"{W}ffData/{W}checkBox")
        if box is not None:
            state = box.find(f"{W}checked")
            state = state if state is not None else box.find(f"{W}default")
            self._parts.append("☒" if state is not None and on(state.get(VAL)) else "☐")
        choices = element.find(f"{W}ffData/{W}ddList")
        if choices is not None:
            chosen_one = choices.find(f"{W}result")
            entries = [entry.get(VAL, "") for entry in choices.iterchildren(f"{W}listEntry")]
            index = integer(chosen_one.get(VAL)) if chosen_one is not None else 0
            self._parts.append(entries[index] if 0 <= index < len(entries) else "")

    def _graphic(self, element: Element) -> None:
        """Text boxes and pictures of a drawing, each once: of alternatives only the first counts."""
        alt = ""
        stack = [element]
        while stack:
            current = stack.pop()
            name = str(current.tag)
            if name == BOX:
                self._line.boxes.append(current)
                continue
            if name == ALTERNATE:
                stack.append(chosen(current))
                continue
            if name.endswith("}docPr"):
                alt = current.get("descr") or current.get("title") or ""
            elif name == f"{V}shape":
                alt = current.get("alt") or alt
            elif name == f"{V}textpath" and current.get("string"):
                self._parts.append(current.get("string"))
            elif name.endswith(_PICTURED):
                self._line.graphics.append(Graphic(current, storable(" ".join(alt.split()))))
                continue
            stack.extend(reversed(current))

    def _is_hidden(self, properties: Element) -> bool:
        hidden = False
        for child in properties:
            name = child.tag
            if name == f"{W}vanish" or name == f"{W}webHidden":
                hidden = name == f"{W}vanish" and on(child.get(VAL))
            elif name == f"{W}rStyle":
                hidden = hidden or self._styles.get(child.get(VAL, "")).hidden
            elif name == f"{W}sz" and 0 < integer(child.get(VAL), 99) <= TINY:
                hidden = True
        return hidden


def note_mark(kind: str, number: int) -> str:
    """How a note is named in the text: footnotes by number, endnotes by `e` and number."""
    return f"{'e' if kind == 'endnote' else ''}{number}"


def _position(properties: Element) -> str:
    """superscript, subscript or ""."""
    found = properties.find(f"{W}vertAlign")
    value = found.get(VAL, "") if found is not None else ""
    return value if value in ("superscript", "subscript") else ""


def _symbol_font(properties: Element) -> str:
    fonts = properties.find(f"{W}rFonts")
    name = str(fonts.get(f"{W}ascii", "")) if fonts is not None else ""
    return name if name.lower() in ("symbol", "wingdings", "wingdings 2") else ""
