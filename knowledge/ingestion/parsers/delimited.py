"""CSV and TSV: one table, its separator found by looking, every odd row reported."""

from __future__ import annotations

from knowledge.ingestion.blocks import Block, ParseContext, ParsedDocument, Source, assemble
from knowledge.ingestion.parsers.delimited_rows import Scan, separator_of
from knowledge.ingestion.parsers.encodings import decode
from knowledge.ingestion.parsers.tables import markdown_table
from portal.kernel.errors import ParseError

CSV, TSV = "text/csv", "text/tab-separated-values"
PROGRESS_ROWS = 20_000
MAX_COLUMNS = 16_384  # as many as a spreadsheet has


def parse(source: Source, context: ParseContext) -> ParsedDocument:
    """The rows as a pipe table under the first row with two or more values; what stands above it as text.

    `Block.rows` counts records, from 1. Raises `ParseError` (`too_many_cells`).
    """
    decoded = decode(source.read())
    separator, text = _separator(decoded.text, "\t" if source.mime == TSV else ",")
    scan = Scan(text, separator)
    rows = _rows(scan, context)
    blocks = list(_blocks(rows))
    warnings = [*decoded.warnings, *_warnings(rows, scan)]
    return assemble(source.mime or CSV, blocks, warnings=warnings, metadata={"encoding": decoded.encoding})


def _separator(text: str, preferred: str) -> tuple[str, str]:
    """The separator, and the text without the `sep=;` line in which Excel names it."""
    first, _, rest = text.partition("\n")
    named = first.strip().strip('"')
    if named.lower().startswith("sep=") and len(named) == 5:
        return named[4], rest
    return separator_of(text, preferred), text


def _rows(scan: Scan, context: ParseContext) -> list[tuple[int, list[str]]]:
    """Rows that hold anything, with their numbers, blank cells at the end cut off."""
    rows: list[tuple[int, list[str]]] = []
    cells = 0
    for number, row in enumerate(scan.rows(), start=1):
        while row and not row[-1].strip():
            row.pop()
        if not row:
            continue
        cells += len(row)
        if cells > context.max_cells or len(row) > MAX_COLUMNS:
            raise ParseError(
                "The table holds more than %(cells)s cells or %(columns)s columns.",
                code="too_many_cells",
                cells=context.max_cells,
                columns=MAX_COLUMNS,
            )
        rows.append((number, row))
        if number % PROGRESS_ROWS == 0:
            context.progress(number, 0)
    context.progress(len(rows), len(rows))
    return rows


def _blocks(rows: list[tuple[int, list[str]]]) -> list[Block]:
    wide = [len(row) > 1 for _, row in rows]
    head = wide.index(True) if any(wide) else 0
    blocks = [
        Block(kind="paragraph", text=" ".join(row[0].split()), rows=(number, number)) for number, row in rows[:head]
    ]
    table = rows[head:]
    if table:
        text = markdown_table([row for _, row in table])
        blocks.append(Block(kind="table", text=text, rows=(table[0][0], table[-1][0])))
    return blocks


def _warnings(rows: list[tuple[int, list[str]]], scan: Scan) -> list[str]:
    warnings = []
    if scan.unclosed:
        warnings.append(
            f"unbalanced_quotes: {len(scan.unclosed)} rows have a quote that never closes, "
            f"the first is row {scan.unclosed[0]}."
        )
    width = next((len(row) for _, row in rows if len(row) > 1), 0)
    longer = [number for number, row in rows if len(row) > width > 0]
    if longer:
        warnings.append(f"ragged_rows: {len(longer)} rows are longer than the head row, the first is row {longer[0]}.")
    return warnings
