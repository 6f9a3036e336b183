"""Workbooks: every sheet with its name, cells as they are shown, one block for each table on a sheet.

`.xlsx` and its ISO strict form are streamed by a reader of our own, because number formats, error
cells and formulas without a stored value have to be seen; `.xls` goes to `xls.py`.
"""

from __future__ import annotations

from typing import NamedTuple

from knowledge.ingestion.blocks import Block, ParseContext, ParsedDocument, Source, assemble
from knowledge.ingestion.parsers import xls
from knowledge.ingestion.parsers.drawing import NO_ALT
from knowledge.ingestion.parsers.images import Pictures
from knowledge.ingestion.parsers.ooxml import Package, is_encrypted, is_ole
from knowledge.ingestion.parsers.sheet_cells import Room, Sheet, read_sheet, rich_text, shared_strings
from knowledge.ingestion.parsers.sheet_extras import comment_blocks, drawing_blocks
from knowledge.ingestion.parsers.sheet_formats import Format, styles
from knowledge.ingestion.parsers.sheet_regions import sheet_blocks, sheet_warnings
from portal.kernel.errors import ParseError

MIME = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
NOT_CALCULATED = "The formulas have no stored values; open and save the file in a spreadsheet program first."


class Listed(NamedTuple):
    """A sheet as the workbook lists it; `state` is visible, hidden or veryHidden."""

    name: str
    state: str
    part: str


def parse(source: Source, context: ParseContext) -> ParsedDocument:
    """A workbook as blocks: per sheet a heading, its tables, comments and drawings.

    Raises `ParseError`: `empty_file`, `password_protected`, `type_mismatch`, `damaged_file`,
    `archive_limit`, `unsafe_xml`, `too_large`, `no_text`.
    """
    if is_ole(source.path) and not is_encrypted(source.path):
        return xls.parse(source, context)
    with Package(source.path, context, root_name="workbook", usual_main="xl/workbook.xml") as package:
        return _Workbook(package, context).parsed()


def grids(source: Source, context: ParseContext) -> list[tuple[Listed, Sheet]]:
    """The filled cells of every sheet as they are shown, by row and column. Raises `ParseError` as `parse`."""
    with Package(source.path, context, root_name="workbook", usual_main="xl/workbook.xml") as package:
        book = _Workbook(package, context)
        return book.grids()


class _Workbook:
    def __init__(self, package: Package, context: ParseContext) -> None:
        self._package = package
        self._context = context
        self._pictures = Pictures(context)
        self._room = Room(context.max_cells, context.max_text)
        self.warnings: list[str] = []

    def parsed(self) -> ParsedDocument:
        strings = self._strings()
        formats = self._styles()
        listed = self._sheets()
        blocks: list[Block] = []
        filled = False
        for index, sheet in enumerate(listed):
            found = self._blocks(sheet, strings, formats, index, len(listed))
            filled = filled or any(
                block.kind != "heading" and block.text.strip() not in ("", NO_ALT) for block in found
            )
            blocks.extend(found)
            self._context.progress(index + 1, len(listed))
        if not filled:
            uncached = any(warning.startswith("formula_without_value") for warning in self.warnings)
            raise ParseError(NOT_CALCULATED if uncached else "No text was found in this file.", code="no_text")
        properties = self._package.properties()
        return assemble(
            MIME,
            blocks,
            warnings=[*self._package.warnings, *self.warnings, *self._pictures.warnings],
            images=self._pictures.images,
            title=properties.get("title", ""),
            metadata=properties,
        )

    def grids(self) -> list[tuple[Listed, Sheet]]:
        strings, formats = self._strings(), self._styles()
        found = []
        for listed in self._sheets():
            stream = self._package.open(listed.part)
            if stream is not None:
                with stream:
                    found.append((listed, read_sheet(stream, strings, formats, self._room)))
        return found

    def _blocks(self, listed: Listed, strings: list[str], formats: list[Format], index: int, total: int) -> list[Block]:
        stream = self._package.open(listed.part)
        if stream is None:
            self.warnings.append(f'missing_part: The sheet "{listed.name}" is missing from the file.')
            return []
        with stream:
            sheet = read_sheet(stream, strings, formats, self._room, tick=lambda: self._context.progress(index, total))
        blocks = sheet_blocks(sheet, listed.name, mark="" if listed.state == "visible" else "hidden")
        path = (*blocks[0].heading_path, blocks[0].text) if blocks else ()
        blocks.extend(comment_blocks(self._package, listed.part, listed.name, path))
        blocks.extend(drawing_blocks(self._package, listed.part, listed.name, path, self._pictures))
        self.warnings.extend(sheet_warnings(listed.name, listed.state, sheet, shown=bool(blocks)))
        return blocks

    def _strings(self) -> list[str]:
        part = next(iter(self._package.related(self._package.main, "sharedStrings")), "xl/sharedStrings.xml")
        stream = self._package.open(part)
        if stream is None:
            return []
        try:
            with stream:
                return shared_strings(stream)
        except ParseError as error:
            self._package.tolerate(error, part)
            root = self._package.xml(part)
            return [] if root is None else [rich_text(item) for item in root.iter("{*}si")]

    def _styles(self) -> list[Format]:
        part = next(iter(self._package.related(self._package.main, "styles")), "xl/styles.xml")
        settings = self._package.root.find("{*}workbookPr")
        date1904 = settings is not None and settings.get("date1904", "0") in ("1", "true")
        return styles(self._package.xml(part), date1904=date1904)

    def _sheets(self) -> list[Listed]:
        links = self._package.relations(self._package.main)
        found: list[Listed] = []
        for element in self._package.root.iter("{*}sheet"):
            relation = next((value for key, value in element.items() if key.endswith("}id")), "")
            link = links.get(relation)
            if link is not None and link.kind != "worksheet":
                continue  # chart, macro and dialog sheets have no cells
            part = link.target if link else ""
            found.append(Listed(element.get("name", ""), element.get("state", "visible"), part))
        return found
