"""The rows of a sheet of questions and answers, read in the child process for strangers' files.

Gives cells as they stand, line breaks included (a table of a document loses those); what they mean is decided in
`knowledge/sources/question_sheets.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from knowledge.ingestion.blocks import Block, ParseContext, ParsedDocument, Source, assemble
from knowledge.ingestion.parsers import xlsx
from knowledge.ingestion.parsers.delimited_rows import Scan, separator_of
from knowledge.ingestion.parsers.encodings import decode
from knowledge.ingestion.parsers.ooxml import is_ole
from portal.kernel.errors import ParseError

MAX_ROWS, MAX_COLUMNS = 20_000, 200


def parse(source: Source, context: ParseContext) -> ParsedDocument:
    """One block whose text is JSON: `[[sheet, row number from 1, [cells]], …]`, blank rows left out.

    Raises `ParseError` (`too_many_rows`, `needs_converter` and the parsers' own).
    """
    rows = []
    for sheet, number, cells in _sheet_rows(source, context) if source.mime == xlsx.MIME else _text_rows(source):
        if not any(cell.strip() for cell in cells):
            continue
        rows.append([sheet, number, cells[:MAX_COLUMNS]])
        if len(rows) > MAX_ROWS:
            raise ParseError(
                "A sheet of questions takes at most %(limit)s rows; split it.", code="too_many_rows", limit=MAX_ROWS
            )
    return assemble(source.mime, [Block(kind="code", text=json.dumps(rows, ensure_ascii=False))])


def _text_rows(source: Source) -> Iterator[tuple[str, int, list[str]]]:
    text = decode(source.read()).text
    preferred = "\t" if source.mime == "text/tab-separated-values" else ","
    for number, cells in enumerate(Scan(text, separator_of(text, preferred)).rows(), start=1):
        yield "", number, cells


def _sheet_rows(source: Source, context: ParseContext) -> Iterator[tuple[str, int, list[str]]]:
    if is_ole(source.path):
        raise ParseError("This is an old Excel format: save it as XLSX or CSV.", code="needs_converter")
    for listed, sheet in xlsx.grids(source, context):
        for number, filled in sheet.rows:
            last = min(max(filled, default=0), MAX_COLUMNS)
            yield listed.name, number, [filled.get(column, "") for column in range(1, last + 1)]
