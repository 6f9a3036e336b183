"""The walk through an OpenDocument body: blocks in reading order or, inside a cell, lines of text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from knowledge.ingestion.blocks import Block
from knowledge.ingestion.parsers.archive import Archive
from knowledge.ingestion.parsers.characters import storable
from knowledge.ingestion.parsers.drawing import NO_ALT
from knowledge.ingestion.parsers.images import Pictures
from knowledge.ingestion.parsers.odt_numbers import TEXT, Labels, Levels, label
from knowledge.ingestion.parsers.outline import Outline
from knowledge.ingestion.parsers.tables import Cell, markdown_table, place, trimmed
from knowledge.ingestion.parsers.xml import Element, integer
from portal.kernel.errors import ParseError

OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
DRAW = "{urn:oasis:names:tc:opendocument:xmlns:drawing:1.0}"
SVG = "{urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0}"
DC = "{http://purl.org/dc/elements/1.1/}"
HREF = "{http://www.w3.org/1999/xlink}href"
HEADING, PARAGRAPH, LIST, NOTE, COMMENT = (
    f"{TEXT}h",
    f"{TEXT}p",
    f"{TEXT}list",
    f"{TEXT}note",
    f"{OFFICE}annotation",
)
_CONTENTS = frozenset(
    f"{TEXT}{name}" for name in ("table-of-content", "illustration-index", "table-index", "alphabetical-index")
)
_LEFT_OUT = frozenset(
    {
        f"{TEXT}tracked-changes",
        f"{TEXT}note-citation",
        f"{TEXT}ruby-text",
        f"{TEXT}sequence-decls",
        f"{OFFICE}forms",
        f"{OFFICE}annotation-end",
        f"{TEXT}hidden-text",
    }
)
MAX_REPEAT = 1000


class OdtBody:
    """Turns body elements into blocks."""

    def __init__(self, labels: Labels, archive: Archive, pictures: Pictures) -> None:
        self.left_out_contents = 0
        self._labels = labels
        self._archive = archive
        self._pictures = pictures
        self._outline = Outline()
        self._notes = 0
        self._attached: list[Block] = []

    def blocks(self, element: Element) -> list[Block]:
        """The blocks of a body in reading order."""
        found: list[Block] = []
        for child in element:
            name = child.tag
            if name == HEADING:
                self._heading(child, found)
            elif name == PARAGRAPH:
                found.append(self._here(Block(kind="paragraph", text=self._text(child).strip())))
            elif name == LIST and child.find(f".//{HEADING}") is not None:
                found.extend(self.blocks(child))  # numbered headings are saved as items of a list
            elif name == LIST:
                found.append(self._here(Block(kind="list", text="\n".join(self._list(child)))))
            elif name == f"{TABLE}table":
                found.append(self._here(Block(kind="table", text=self._table(child))))
            elif name in _CONTENTS:
                self.left_out_contents += 1
            elif name == f"{DRAW}frame" or name.startswith(DRAW):
                self._frame(child)
            elif name not in _LEFT_OUT:
                found.extend(self.blocks(child))
            attached, self._attached = self._attached, []
            found.extend(self._here(block) for block in attached)
        return found

    def inline(self, element: Element) -> str:
        """The text of a body, a line for each paragraph, for cells, notes and frames."""
        return "\n".join(line for line in self._lines(element) if line.strip())

    def _here(self, block: Block) -> Block:
        return replace(block, heading_path=self._outline.path)

    def _heading(self, element: Element, found: list[Block]) -> None:
        text = self._text(element).strip()
        depth = max(1, min(integer(element.get(f"{TEXT}outline-level"), 1), 9))
        if not text:
            return
        numbered = element.get(f"{TEXT}is-list-header") != "true"
        heading = self._outline.heading(depth, (self._labels.heading(depth) if numbered else "") + text)
        if heading:
            found.append(heading)

    def _lines(self, element: Element) -> Iterator[str]:
        for child in element:
            name = child.tag
            if name in (PARAGRAPH, HEADING):
                yield self._text(child).strip()
            elif name == LIST:
                yield from self._list(child)
            elif name == f"{TABLE}table":
                rows = trimmed(self._grid(child))
                yield "; ".join(", ".join(" ".join(cell.split()) for cell in row if cell.strip()) for row in rows)
            elif name.startswith(DRAW):
                self._frame(child)
            elif name not in _LEFT_OUT and name not in _CONTENTS:
                yield from self._lines(child)

    def _list(self, element: Element, levels: Levels | None = None, above: tuple[int, ...] = ()) -> Iterator[str]:
        style = element.get(f"{TEXT}style-name")
        levels = self._labels.levels(style) if style else levels or {}
        depth = len(above)
        start = levels[depth + 1].start if depth + 1 in levels else 1
        counter = start - 1
        for item in element:
            if item.tag == f"{TEXT}list-item":
                counter = integer(item.get(f"{TEXT}start-value"), counter + 1)
            mark = label(levels, [*above, counter]) if item.tag == f"{TEXT}list-item" else ""
            for child in item:
                if child.tag == LIST:
                    yield from self._list(child, levels, (*above, counter))
                    continue
                lines = [self._text(child)] if child.tag in (PARAGRAPH, HEADING) else list(self._lines(child))
                for line in lines:
                    if line.strip():
                        yield "  " * depth + mark + line.strip()
                        mark = ""

    def _table(self, element: Element) -> str:
        return markdown_table(trimmed(self._grid(element)))

    def _grid(self, element: Element) -> list[list[str]]:
        rows: list[list[Cell]] = []
        for row in _rows(element):
            line: list[Cell] = []
            for cell in row:
                repeat = min(integer(cell.get(f"{TABLE}number-columns-repeated"), 1), MAX_REPEAT)
                covered = cell.tag == f"{TABLE}covered-table-cell"
                text = "" if covered else self.inline(cell)
                # Covered cells are present in the file, so each cell takes its own place.
                line.extend([Cell(text)] * (max(repeat, 1) if len(line) < MAX_REPEAT else 0))
            times = integer(row.get(f"{TABLE}number-rows-repeated"), 1) if any(cell.text for cell in line) else 1
            rows.extend([line] * max(1, min(times, MAX_REPEAT)))
        return place(rows)

    def _text(self, element: Element) -> str:
        return storable("".join(self._parts(element)))

    def _parts(self, element: Element) -> Iterator[str]:
        if element.text:
            yield " ".join(element.text.split("\n"))
        for child in element:
            name = child.tag
            if name == f"{TEXT}s":
                yield " " * min(integer(child.get(f"{TEXT}c"), 1), MAX_REPEAT)
            elif name == f"{TEXT}tab":
                yield "\t"
            elif name == f"{TEXT}line-break":
                yield "\n"
            elif name == NOTE:
                yield self._note(child)
            elif name == COMMENT:
                self._comment(child)
            elif name.startswith(DRAW) and name != f"{DRAW}a":
                self._frame(child)
            elif name not in _LEFT_OUT:
                yield from self._parts(child)
            if child.tail:
                yield " ".join(child.tail.split("\n"))

    def _note(self, element: Element) -> str:
        self._notes += 1
        mark = f"[{self._notes}]"
        for body in element.iterchildren(f"{TEXT}note-body"):
            self._attached.append(Block(kind="note", text=f"{mark} {self.inline(body)}"))
        return mark

    def _comment(self, element: Element) -> None:
        author = storable("".join(element.xpath("string(*[local-name()='creator'])"))).strip()
        text = "\n".join(self._text(part) for part in element.iter(PARAGRAPH)).strip()
        if text:
            self._attached.append(Block(kind="note", text=f"{author}: {text}" if author else text))

    def _frame(self, element: Element) -> None:
        """A text box or picture: its blocks follow the paragraph it hangs on; of several pictures the first counts."""
        boxes = list(element.iterchildren(f"{DRAW}text-box"))
        if not boxes and element.tag not in (f"{DRAW}frame", f"{DRAW}image"):
            lines = self.inline(element)  # a drawn shape: its own text, and groups of shapes
            self._attached.append(Block(kind="paragraph", text=lines))
            return
        for box in boxes:
            outer, self._attached = self._attached, []
            outer.extend(self.blocks(box))
            self._attached = outer + self._attached
        for image in element.iterchildren(f"{DRAW}image"):
            self._picture(element, image.get(HREF, ""))
            break

    def _picture(self, frame: Element, name: str) -> None:
        texts = (frame.findtext(f"{SVG}{part}", "") for part in ("desc", "title"))
        alt = storable(" ".join(next((text for text in texts if text.strip()), "").split()))
        name = name.removeprefix("./")
        try:
            data = self._archive.read(name) if name in self._archive else b""
        except ParseError as error:
            if error.code != "damaged_file":
                raise
            data = b""
        key = self._pictures.add(data, alt, name=name) if data else None
        if key or alt:
            self._attached.append(Block(kind="image" if key else "paragraph", text=alt or NO_ALT, image=key))


def _rows(element: Element) -> Iterator[Element]:
    """The rows of a table, also those in row groups and header rows."""
    for child in element:
        if child.tag == f"{TABLE}table-row":
            yield child
        elif child.tag in (f"{TABLE}table-header-rows", f"{TABLE}table-row-group", f"{TABLE}table-rows"):
            yield from _rows(child)
