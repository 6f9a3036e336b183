"""The shapes of one slide as blocks: text with its bullets, tables, charts, SmartArt, pictures, groups.

Source: ECMA-376 part 1, 19.3 (slides) and 21.1 (DrawingML text and tables).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from knowledge.ingestion.blocks import Block
from knowledge.ingestion.parsers.drawing import (
    C,
    chart_blocks,
    diagram_blocks,
    paragraph_text,
    paragraphs,
    picture_blocks,
)
from knowledge.ingestion.parsers.images import Pictures
from knowledge.ingestion.parsers.ooxml import ALTERNATE, A, Package, R, Relation, chosen
from knowledge.ingestion.parsers.tables import markdown_table, trimmed
from knowledge.ingestion.parsers.word_numbering import number_text
from knowledge.ingestion.parsers.xml import Element, integer

P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
DIAGRAM_IDS = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}relIds"
TITLES = ("title", "ctrTitle")
FURNITURE = ("dt", "sldNum", "ftr", "hdr")
_NUMBERED = {"arabic": "decimal", "alphaLc": "lowerLetter", "alphaUc": "upperLetter", "romanLc": "lowerRoman"}
_NUMBERED |= {"romanUc": "upperRoman", "circleNum": "decimalEnclosedCircle", "ea1": "chineseCounting"}


def placeholder(shape: Element) -> str | None:
    """The placeholder type of a shape (`body` when it names none), None if it is no placeholder."""
    for mark in shape.iter(f"{P}ph"):
        return str(mark.get("type", "body"))
    return None


def shapes(tree: Element) -> Iterator[Element]:
    """The shapes of a tree in drawing order, groups opened, of alternatives the first."""
    for child in tree:
        if child.tag in (f"{P}grpSp", f"{P}spTree"):
            yield from shapes(child)
        elif child.tag == ALTERNATE:
            yield from shapes(chosen(child))
        elif child.tag in (f"{P}sp", f"{P}pic", f"{P}graphicFrame", f"{P}cxnSp"):
            yield child


@dataclass(slots=True)
class SlideReader:
    """Reads the shapes of one slide part."""

    package: Package
    links: dict[str, Relation]
    pictures: Pictures

    def blocks(self, shape: Element) -> list[Block]:
        """A shape's blocks, without place."""
        if shape.tag == f"{P}pic":
            return picture_blocks(self.package, shape, self.links, self.pictures)
        if shape.tag == f"{P}graphicFrame":
            return self._frame(shape)
        body = shape.find(f"{P}txBody")
        found = [] if body is None else [text_block(body, bulleted=placeholder(shape) in ("body", "obj"))]
        if shape.find(f"{P}spPr/{A}blipFill") is not None:
            found.extend(picture_blocks(self.package, shape, self.links, self.pictures))
        return found

    def _frame(self, frame: Element) -> list[Block]:
        found: list[Block] = []
        for table in frame.iter(f"{A}tbl"):
            found.append(Block(kind="table", text=table_text(table)))
        for chart in frame.iter(f"{C}chart"):
            found.extend(chart_blocks(self.package, self.links.get(chart.get(f"{R}id", ""))))
        for diagram in frame.iter(DIAGRAM_IDS):
            found.extend(diagram_blocks(self.package, self.links.get(diagram.get(f"{R}dm", ""))))
        for picture in frame.iter(f"{P}pic"):  # what an embedded object looks like
            found.extend(picture_blocks(self.package, picture, self.links, self.pictures))
        return found


def text_block(body: Element, *, bulleted: bool) -> Block:
    """A text body: a list if its paragraphs have bullets or numbers (`bulleted`: by the layout), else a paragraph."""
    lines: list[str] = []
    counters: dict[int, int] = {}
    is_list = False
    filled = [(paragraph, text) for paragraph in paragraphs(body) if (text := paragraph_text(paragraph).strip())]
    for paragraph, text in filled:
        properties = paragraph.find(f"{A}pPr")
        depth = min(integer(properties.get("lvl")), 8) if properties is not None else 0
        mark = _bullet(properties, depth, counters, bulleted=bulleted and len(filled) > 1)
        is_list = is_list or bool(mark)
        indent = "  " * depth if mark else ""
        lines.append(indent + (mark + text).replace("\n", "\n" + indent))
    return Block(kind="list" if is_list else "paragraph", text="\n".join(lines))


def _bullet(properties: Element | None, depth: int, counters: dict[int, int], *, bulleted: bool) -> str:
    """What stands before a paragraph: `- `, a counted number, or nothing."""
    for deeper in [level for level in counters if level > depth]:
        del counters[deeper]
    automatic = properties.find(f"{A}buAutoNum") if properties is not None else None
    if automatic is not None:
        scheme = automatic.get("type", "arabicPeriod")
        counters[depth] = counters.get(depth, integer(automatic.get("startAt"), 1) - 1) + 1
        kind = next((kind for prefix, kind in _NUMBERED.items() if scheme.startswith(prefix)), "decimal")
        end = ") " if "Paren" in scheme else " " if scheme.endswith("Plain") or "circle" in scheme else ". "
        return ("(" if scheme.endswith("ParenBoth") else "") + number_text(counters[depth], kind) + end
    counters.pop(depth, None)
    if properties is not None and properties.find(f"{A}buNone") is not None:
        return ""
    drawn = properties is not None and any(properties.find(f"{A}{name}") is not None for name in ("buChar", "buBlip"))
    return "- " if drawn or bulleted else ""


def table_text(table: Element) -> str:
    """An `a:tbl` as a pipe table; a merged cell's value stands once."""
    rows: list[list[str]] = []
    for row in table.iterchildren(f"{A}tr"):
        # Covered cells are present in the file, so each cell takes its own place and spans need no care.
        rows.append(["" if _is_covered(cell) else _cell(cell) for cell in row.iterchildren(f"{A}tc")])
    return markdown_table(trimmed(rows))


def _is_covered(cell: Element) -> bool:
    return cell.get("hMerge") in ("1", "true") or cell.get("vMerge") in ("1", "true")


def _cell(cell: Element) -> str:
    body = cell.find(f"{A}txBody")
    lines = (paragraph_text(paragraph).strip() for paragraph in paragraphs(body)) if body is not None else ()
    return "\n".join(line for line in lines if line)
