"""What a sheet holds besides cells: comments, text boxes, charts and pictures."""

from __future__ import annotations

from dataclasses import replace

from knowledge.ingestion.blocks import Block
from knowledge.ingestion.parsers.drawing import C, chart_blocks, paragraph_text, picture_blocks
from knowledge.ingestion.parsers.images import Pictures
from knowledge.ingestion.parsers.ooxml import A, Package, R, Relation, local
from knowledge.ingestion.parsers.sheet_cells import merge_of, rich_text
from knowledge.ingestion.parsers.xml import Element, integer


def comment_blocks(package: Package, part: str, sheet: str, path: tuple[str, ...]) -> list[Block]:
    """The comments of a sheet, each with the address of its cell; a threaded comment stands for its old copy."""
    found: list[tuple[str, str]] = []
    for target in package.related(part, "threadedComment"):
        root = package.xml(target)
        for comment in root if root is not None else ():
            text = "".join(comment.xpath("string(*[local-name()='text'])"))
            found.append((comment.get("ref", ""), text))
    threaded = {reference for reference, _ in found}
    for target in package.related(part, "comments"):
        root = package.xml(target)
        for comment in root.iter("{*}comment") if root is not None else ():
            body = comment.find("{*}text")
            if body is not None and comment.get("ref", "") not in threaded:
                found.append((comment.get("ref", ""), rich_text(body)))
    return [
        Block(kind="note", text=f"{reference}: {text.strip()}", sheet=sheet, rows=_row(reference), heading_path=path)
        for reference, text in found
        if text.strip()
    ]


def drawing_blocks(package: Package, part: str, sheet: str, path: tuple[str, ...], pictures: Pictures) -> list[Block]:
    """Text boxes, charts and pictures that lie on a sheet, in the order of the drawing."""
    blocks: list[Block] = []
    for target in package.related(part, "drawing"):
        root = package.xml(target)
        links = package.relations(target) if root is not None else {}
        for anchor in root if root is not None else ():
            rows = _anchor_rows(anchor)
            for shape in anchor.iter("{*}sp", "{*}pic", f"{C}chart"):
                for block in _shape_blocks(package, shape, links, pictures):
                    blocks.append(replace(block, sheet=sheet, rows=rows, heading_path=path))
    return blocks


def _shape_blocks(package: Package, shape: Element, links: dict[str, Relation], pictures: Pictures) -> list[Block]:
    if local(shape) == "sp":
        lines = (paragraph_text(p).strip() for p in shape.iter(f"{A}p"))
        return [Block(kind="paragraph", text="\n".join(filter(None, lines)))]
    if local(shape) == "pic":
        return picture_blocks(package, shape, links, pictures)
    return chart_blocks(package, links.get(shape.get(f"{R}id", "")))


def _row(reference: str) -> tuple[int, int] | None:
    digits = reference.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ$")
    found = merge_of(f"{reference}:XFD{digits}") if digits.isdecimal() else None
    return (found.top, found.top) if found else None


def _anchor_rows(anchor: Element) -> tuple[int, int] | None:
    rows = [integer(row.text) + 1 for row in anchor.iter("{*}row")]
    return (rows[0], max(rows[0], rows[-1])) if rows else None
