"""Text in DrawingML, wherever it stands: shapes, SmartArt, charts. Shared by slides, sheets and Word files.

Source: ECMA-376 part 1, 20 (DrawingML) and 21 (charts, diagrams).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from knowledge.ingestion.blocks import NO_ALT as NO_ALT
from knowledge.ingestion.blocks import Block
from knowledge.ingestion.parsers.characters import figures, storable
from knowledge.ingestion.parsers.images import Pictures
from knowledge.ingestion.parsers.ooxml import ALTERNATE, A, Package, R, Relation, chosen
from knowledge.ingestion.parsers.tables import markdown_table
from knowledge.ingestion.parsers.word_symbols import M, maths
from knowledge.ingestion.parsers.xml import Element, integer

C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_FILE_NAME = re.compile(r"[^/\\]{1,200}\.(?:png|jpe?g|gif|bmp|tiff?|webp|emf|wmf|svg)", re.IGNORECASE)
_MAX_POINTS = 20_000


def paragraph_text(paragraph: Element) -> str:
    """The text of an `a:p`: runs, fields and breaks; raised and lowered figures, formulas on one line."""
    return storable("".join(_pieces(paragraph)))


def _pieces(element: Element) -> Iterator[str]:
    for child in element:
        name = child.tag
        if name == f"{A}br":
            yield "\n"
        elif name == f"{A}tab":
            yield "\t"
        elif name == ALTERNATE:
            yield from _pieces(chosen(child))
        elif name in (f"{M}oMath", f"{M}oMathPara"):
            yield maths(child)
        elif isinstance(name, str) and name.endswith("}t"):
            yield _figures_of(element, child.text or "")
        elif isinstance(name, str):
            yield from _pieces(child)


def _figures_of(run: Element, text: str) -> str:
    properties = run.find(f"{A}rPr")
    shift = integer(properties.get("baseline")) if properties is not None else 0
    return figures(text, raised=shift > 0) if shift else text


def paragraphs(body: Element) -> Iterator[Element]:
    """The `a:p` of a text body."""
    return iter(body.iterchildren(f"{A}p"))


def shape_name(element: Element) -> str:
    """The alternative text of a shape or picture: its description, else its title.

    Neither its generated name nor a file name, which some programs put there, says what it shows.
    """
    for properties in element.iter("{*}cNvPr", "{*}docPr"):
        text = storable(" ".join((properties.get("descr") or properties.get("title") or "").split()))
        return "" if _FILE_NAME.fullmatch(text) else text
    return ""


def diagram_text(root: Element) -> list[str]:
    """The texts of a SmartArt data part, in the order of its points."""
    found: list[str] = []
    for point in root.iter("{http://schemas.openxmlformats.org/drawingml/2006/diagram}pt"):
        if point.get("type", "node") not in ("node", "asst"):
            continue
        lines = [paragraph_text(p).strip() for p in point.iter(f"{A}p")]
        text = "\n".join(line for line in lines if line)
        if text:
            found.append(text)
    return found


def chart_text(root: Element) -> tuple[str, str]:
    """Title and values (a pipe table: categories, then one column a series) of a chart part."""
    title = root.find(f".//{C}chart/{C}title")
    heading = " ".join(paragraph_text(p) for p in title.iter(f"{A}p")).strip() if title is not None else ""
    names: list[str] = []
    columns: list[dict[int, str]] = []
    categories: dict[int, str] = {}
    for series in root.iter(f"{C}ser"):
        name = series.find(f"{C}tx")
        values = series.find(f"{C}val")
        values = values if values is not None else series.find(f"{C}yVal")
        labels = series.find(f"{C}cat")
        labels = labels if labels is not None else series.find(f"{C}xVal")
        names.append(" ".join(_points(name).values()) if name is not None else "")
        columns.append(_points(values) if values is not None else {})
        if labels is not None:
            categories = {**_points(labels), **categories}
    indexes = sorted({index for column in [categories, *columns] for index in column})[:_MAX_POINTS]
    if not indexes and not any(names):
        return heading, ""
    rows = [["", *names], *([categories.get(i, ""), *(column.get(i, "") for column in columns)] for i in indexes)]
    return heading, markdown_table(rows)


def _points(element: Element) -> dict[int, str]:
    found: dict[int, str] = {}
    for point in element.iter(f"{C}pt"):
        value = point.find(f"{C}v")
        index = integer(point.get("idx"), -1)
        if value is not None and index >= 0:
            found[index] = storable(value.text or "")
    if not found:
        direct = element.find(f"{C}v")
        if direct is not None and direct.text:
            found[0] = storable(direct.text)
        for number, paragraph in enumerate(element.iter(f"{A}p")):
            found[number] = paragraph_text(paragraph)
    return found


def chart_blocks(package: Package, link: Relation | None) -> list[Block]:
    """The chart that a relation leads to: its title, then its values as a table."""
    root = package.xml(link.target) if link is not None and not link.external else None
    if root is None:
        return []
    title, table = chart_text(root)
    return [Block(kind="paragraph", text=title), Block(kind="table", text=table)]


def diagram_blocks(package: Package, link: Relation | None) -> list[Block]:
    """The SmartArt that a relation to its data part leads to, as a list."""
    root = package.xml(link.target) if link is not None and not link.external else None
    lines = [f"- {text}" for text in diagram_text(root)] if root is not None else []
    return [Block(kind="list", text="\n".join(lines))]


def picture_blocks(
    package: Package, element: Element, links: dict[str, Relation], pictures: Pictures, *, alt: str | None = None
) -> list[Block]:
    """The picture that `element` (`pic:pic`, `w:drawing`, …) embeds: kept, with its alternative text.

    A picture that can not be kept (vector, too large, only linked) leaves its alternative text.
    """
    alt = shape_name(element) if alt is None else alt
    link = links.get(embedded_id(element))
    data = package.read(link.target) if link is not None and not link.external else None
    key = pictures.add(data, alt, name=link.target) if data and link is not None else None
    if key is None:
        return [Block(kind="paragraph", text=alt)] if alt else []
    return [Block(kind="image", text=alt or NO_ALT, image=key)]


def embedded_id(picture: Element) -> str:
    """The relation id of the picture's data; "" if it is only linked."""
    for blip in picture.iter(f"{A}blip", "{urn:schemas-microsoft-com:vml}imagedata"):
        return str(blip.get(f"{R}embed") or blip.get(f"{R}id") or "")
    return ""
