"""The walk through a Word body: paragraphs and tables in order, as blocks or, inside a cell, as text.

Source: ECMA-376 part 1, 17.2 (main document), 17.4 (tables), 17.9 (numbering), 17.13 (annotations).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from knowledge.ingestion.blocks import Block, BlockKind
from knowledge.ingestion.parsers.characters import storable
from knowledge.ingestion.parsers.ooxml import ALTERNATE, chosen, on
from knowledge.ingestion.parsers.outline import Outline
from knowledge.ingestion.parsers.tables import markdown_table, trimmed
from knowledge.ingestion.parsers.word_notes import Notes
from knowledge.ingestion.parsers.word_numbering import BULLET, VAL, Numbering, W
from knowledge.ingestion.parsers.word_runs import THROUGH, Graphic, Line, RunReader, note_mark
from knowledge.ingestion.parsers.word_styles import Styles
from knowledge.ingestion.parsers.xml import Element, integer

PARAGRAPH, TABLE, ROW, CELL, SDT = f"{W}p", f"{W}tbl", f"{W}tr", f"{W}tc", f"{W}sdt"
ALT_CHUNK = f"{W}altChunk"
MAX_SPAN = 1000
GROUPED: dict[str, BlockKind] = {"list": "list", "code": "code", "quote": "quote"}


class Body:
    """Turns body elements into blocks. `graphics` and `chunk` read pictures and embedded documents."""

    def __init__(
        self,
        styles: Styles,
        numbering: Numbering,
        notes: Notes,
        graphics: Callable[[Graphic], list[Block]],
        chunk: Callable[[Element], list[Block]],
    ) -> None:
        self.outline = Outline()
        self.runs = RunReader(styles)
        self.left_out_contents = 0
        self._styles = styles
        self._numbering = numbering
        self._notes = notes
        self._graphics = graphics
        self._chunk = chunk
        self._blocks: list[Block] = []
        self._group: list[str] = []
        self._group_kind = ""

    def blocks(self, element: Element, tick: Callable[[int], None] = lambda done: None) -> list[Block]:
        """The blocks of a body, in reading order."""
        outer = self._blocks, self._group, self._group_kind
        self._blocks, self._group, self._group_kind = [], [], ""
        for number, item in enumerate(self._lines(element)):
            if isinstance(item, Line):
                self._paragraph(item)
            elif item.tag == TABLE:
                self._table(item)
            else:
                self._close()
                self._blocks.extend(self._placed(self._chunk(item)))
            if number % 500 == 499:
                tick(number)
        self._close()
        found = self._blocks
        self._blocks, self._group, self._group_kind = outer
        return found

    def inline(self, element: Element, attached: list[Block] | None = None) -> str:
        """The text of a body on lines of its own: for cells, notes, headers. Pictures and notes go to `attached`."""
        lines: list[str] = []
        for item in self._lines(element):
            if not isinstance(item, Line):
                lines.append(self._nested(item, attached) if item.tag == TABLE else "")
                continue
            lines.append(f"{item.label or ''}{item.text.strip()}" if item.text.strip() else "")
            lines.extend(self.inline(box, attached) for box in item.boxes)
            if attached is not None:
                attached.extend(self._attached(item))
        return "\n".join(line for line in lines if line.strip())

    def note_block(self, key: tuple[str, str], element: Element) -> Block:
        """A footnote, endnote or comment as a block; a comment begins with its author."""
        text = self.inline(element)
        if key[0] == "comment":
            author = storable(element.get(f"{W}author", "")).strip()
            return Block(kind="note", text=f"{author}: {text}" if author and text else text)
        mark = note_mark(key[0], self.runs.note_numbers.get(key, 0))
        return Block(kind="note", text=f"[{mark}] {text}" if text else "")

    def _lines(self, element: Element) -> Iterator[Line | Element]:
        """Paragraphs read, tables and embedded documents as elements; a deleted paragraph mark joins two lines."""
        carried: Line | None = None
        for item in self._flow(element):
            if item.tag != PARAGRAPH:
                if carried is not None:
                    yield carried
                    carried = None
                yield item
                continue
            line = self._read(item)
            if carried is not None:
                line.text = carried.text + line.text
                line.notes[:0], line.boxes[:0], line.graphics[:0] = carried.notes, carried.boxes, carried.graphics
            carried = line if line.joins_next else None
            if carried is None:
                yield line
        if carried is not None:
            yield carried

    def _flow(self, element: Element) -> Iterator[Element]:
        for child in element:
            name = child.tag
            if name == PARAGRAPH or name in (TABLE, ALT_CHUNK):
                yield child
            elif name == SDT:
                gallery = child.find(f"{W}sdtPr/{W}docPartObj/{W}docPartGallery")
                if gallery is not None and gallery.get(VAL, "").startswith("Table of Contents"):
                    self.left_out_contents += 1
                    continue
                for content in child.iterchildren(f"{W}sdtContent"):
                    yield from self._flow(content)
            elif name == ALTERNATE:
                yield from self._flow(chosen(child))
            elif name in THROUGH:
                yield from self._flow(child)

    def _read(self, paragraph: Element) -> Line:
        line = self.runs.read(paragraph)
        properties = paragraph.find(f"{W}pPr")
        identifier, numbers, outline = self._styles.default, None, None
        if properties is not None:
            for child in properties:
                name = child.tag
                if name == f"{W}pStyle":
                    identifier = child.get(VAL, "")
                elif name == f"{W}numPr":
                    numbers = child
                elif name == f"{W}outlineLvl":
                    outline = integer(child.get(VAL), 9)
                elif name == f"{W}rPr":
                    line.joins_next = child.find(f"{W}del") is not None or child.find(f"{W}moveFrom") is not None
        line.style = style = self._styles.get(identifier)
        line.level = style.level
        if outline is not None and 0 <= outline < 9:
            line.level = outline + 1
        if not line.joins_next:
            self._number(line, identifier, numbers)
        if style.hidden and line.text:
            self.runs.hidden += 1
            line.text = ""
        return line

    def _number(self, line: Line, identifier: str, numbers: Element | None) -> None:
        style = line.style
        list_id, depth = style.list_id, style.list_level
        if numbers is not None:
            list_element, depth_element = numbers.find(f"{W}numId"), numbers.find(f"{W}ilvl")
            list_id = list_element.get(VAL, "") if list_element is not None else list_id
            depth = integer(depth_element.get(VAL)) if depth_element is not None else depth
        if not list_id or list_id == "0":
            return
        if depth is None or numbers is None:
            tied = self._numbering.level_of_style(list_id, identifier)
            depth = tied if tied is not None else depth or 0
        line.depth = depth
        line.label = self._numbering.label(list_id, depth)

    def _paragraph(self, line: Line) -> None:
        text = line.text
        if line.style.kind == "toc":
            self.left_out_contents += bool(text.strip())
        elif line.level is not None and text.strip():
            self._close()
            label = "" if line.label == f"{BULLET} " else line.label or ""
            heading = self.outline.heading(min(line.level, 9), label + text)
            if heading:
                self._blocks.append(heading)
        elif line.label is not None and text.strip():
            self._join("list", "  " * line.depth + (line.label + text.strip()).replace("\n", "\n" + "  " * line.depth))
        elif line.style.kind in GROUPED and text.strip():
            self._join(line.style.kind, text)
        elif text.strip():
            self._close()
            self._blocks.append(Block(kind="paragraph", text=text.strip(), heading_path=self.outline.path))
        elif self._group_kind == "code":
            self._group.append("")
        if line.boxes or line.graphics or line.notes:
            self._close()
            for box in line.boxes:
                self._blocks.extend(self.blocks(box))
            self._blocks.extend(self._placed(self._attached(line)))

    def _attached(self, line: Line) -> list[Block]:
        found = [block for graphic in line.graphics for block in self._graphics(graphic)]
        for key in line.notes:
            element = self._notes.take(key)
            if element is not None:
                found.append(self.note_block(key, element))
        return found

    def _placed(self, blocks: list[Block]) -> list[Block]:
        path = self.outline.path
        return [replace(block, heading_path=path + block.heading_path) for block in blocks]

    def _join(self, kind: str, text: str) -> None:
        if self._group_kind != kind:
            self._close()
            self._group_kind = kind
        self._group.append(text)

    def _close(self) -> None:
        if self._group:
            text = "\n".join(self._group)
            if self._group_kind == "code":
                text = f"```\n{text.strip(chr(10))}\n```"
            self._blocks.append(Block(kind=GROUPED[self._group_kind], text=text, heading_path=self.outline.path))
        self._group, self._group_kind = [], ""

    def _table(self, table: Element) -> None:
        self._close()
        rows = self._rows(table)
        cells = [cell for row in rows for cell in _cells(row)]
        if len(cells) == 1:  # a frame around text, not a table
            self._blocks.extend(self.blocks(cells[0]))
            return
        attached: list[Block] = []
        grid = [self._row(row, attached) for row in rows]
        head = 0
        while head < len(rows) and _is_head(rows[head]):
            head += 1
        if not head and len(grid) > 2 and _is_title(grid[0]) and not _is_title(grid[1]):
            # A first row merged across is the table's title; the row below it is what a part must repeat.
            title = "".join(grid.pop(0)).strip()
            self._blocks.append(Block(kind="paragraph", text=title, heading_path=self.outline.path))
        text = markdown_table(trimmed(grid), head if 0 < head < len(rows) and head <= 3 else 1)
        self._blocks.append(Block(kind="table", text=text, heading_path=self.outline.path))
        self._blocks.extend(self._placed(attached))

    def _rows(self, table: Element) -> list[Element]:
        """The rows that are not deleted, also inside content controls."""
        found: list[Element] = []
        for child in table:
            if child.tag == ROW:
                properties = child.find(f"{W}trPr")
                if properties is None or properties.find(f"{W}del") is None:
                    found.append(child)
            elif child.tag == SDT or child.tag in THROUGH:
                found.extend(self._rows(child))
        return found

    def _row(self, row: Element, attached: list[Block] | None) -> list[str]:
        """A row of the grid: the value of a merged cell stands once, at its first row and column."""
        before = row.find(f"{W}trPr/{W}gridBefore")
        line: list[str] = [""] * min(integer(before.get(VAL)) if before is not None else 0, MAX_SPAN)
        for cell in _cells(row):
            properties = cell.find(f"{W}tcPr")
            span, covered = 1, False
            for child in properties if properties is not None else ():
                name = child.tag
                if name == f"{W}gridSpan":
                    span = max(1, min(integer(child.get(VAL), 1), MAX_SPAN))
                elif name in (f"{W}vMerge", f"{W}hMerge"):
                    covered = covered or child.get(VAL, "continue") != "restart"
                elif name == f"{W}cellDel":
                    covered = True
            line.append("" if covered else self.inline(cell, attached))
            line.extend([""] * (span - 1))
        return line

    def _nested(self, table: Element, attached: list[Block] | None) -> str:
        """A table inside a cell as running text: cells by commas, rows by semicolons."""
        rows = trimmed([self._row(row, attached) for row in self._rows(table)])
        return "; ".join(", ".join(" ".join(cell.split()) for cell in row if cell.strip()) for row in rows)


def _cells(element: Element) -> Iterator[Element]:
    for child in element:
        if child.tag == CELL:
            yield child
        elif child.tag == SDT or child.tag in THROUGH:
            yield from _cells(child)


def _is_head(row: Element) -> bool:
    mark = row.find(f"{W}trPr/{W}tblHeader")
    return mark is not None and on(mark.get(VAL))


def _is_title(cells: list[str]) -> bool:
    return len(cells) > 1 and bool(cells[0].strip()) and not any(cell.strip() for cell in cells[1:])
