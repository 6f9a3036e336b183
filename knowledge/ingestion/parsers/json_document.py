"""JSON and JSON Lines: every value with the path of keys that leads to it; lists of records as tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

from knowledge.ingestion.blocks import Block, ParseContext, ParsedDocument, Source, assemble
from knowledge.ingestion.parsers.encodings import decode, normalise
from knowledge.ingestion.parsers.tables import markdown_table
from knowledge.ingestion.parsers.text import paragraphs
from portal.kernel.errors import ParseError

JSON, JSONL = "application/json", "application/jsonl"
MAX_DEPTH = 200
MAX_COLUMNS = 50
LINES_PER_BLOCK = 40
BROKEN_LINES_NAMED = 5


class Pairs(list[tuple[str, Any]]):
    """An object as its pairs in order: a key that stands twice keeps both values."""


# Numbers stay as written: 1.10 is not 1.1, and an int of 100,000 digits is no reason to fail.
_DECODER = json.JSONDecoder(object_pairs_hook=Pairs, parse_int=str, parse_float=str, parse_constant=str, strict=False)


def parse(source: Source, context: ParseContext) -> ParsedDocument:
    """Blocks of a JSON document, of JSON Lines, or of the readable text of JSON that is cut off.

    Raises `ParseError`: `nested_too_deep`, `type_mismatch` (this was never JSON), `too_many_cells`.
    """
    decoded = decode(source.read())
    text = decoded.text.strip()
    warnings = list(decoded.warnings)
    try:
        value, end = _DECODER.raw_decode(text) if text else (None, 0)
        if end == len(text) and not (source.mime == JSONL and isinstance(value, Pairs)):
            blocks = list(_document(value, context))
        else:
            blocks = _records(text, context, warnings)
    except RecursionError:
        raise _too_deep() from None
    except json.JSONDecodeError as error:
        blocks = _broken(text, error, context, warnings)
    context.progress(1, 1)
    return assemble(source.mime or JSON, blocks, warnings=warnings, metadata={"encoding": decoded.encoding})


def _document(value: Any, context: ParseContext) -> Iterator[Block]:
    """A top-level list of records is a table; otherwise each top-level key is a block, short ones together."""
    if isinstance(value, list) and not isinstance(value, Pairs):
        yield from _list_blocks("", value, context)
        return
    if not isinstance(value, Pairs):
        yield Block(kind="paragraph", text=_scalar(value))
        return
    simple: list[str] = []
    for key, inner in value:
        if not isinstance(inner, list):
            simple.append(f"{_key(key)}: {_scalar(inner)}" if _scalar(inner) else "")
            continue
        yield from _lines_as_blocks(simple)
        simple = []
        if isinstance(inner, Pairs):
            yield from _lines_as_blocks(_lines(inner, _key(key)))
        else:
            yield from _list_blocks(_key(key), inner, context)
    yield from _lines_as_blocks(simple)


def _list_blocks(path: str, values: list[Any], context: ParseContext, rows: bool = True) -> Iterator[Block]:
    """A list of flat records as one table, any other list as `path[0]: value` lines, one block an element."""
    table = _table(values, context)
    if table:
        if path:
            yield Block(kind="paragraph", text=path)
        yield Block(kind="table", text=table, rows=(1, len(values)))
    elif not any(isinstance(value, list) for value in values):
        yield from _lines_as_blocks([f"{path}[{index}]: {_scalar(value)}" for index, value in enumerate(values)])
    else:
        for index, value in enumerate(values):
            yield from _lines_as_blocks(_lines(value, f"{path}[{index}]"), row=index + 1)


def _lines_as_blocks(lines: list[str] | Iterator[str], row: int | None = None) -> Iterator[Block]:
    kept = [line for line in lines if line]
    for start in range(0, len(kept), LINES_PER_BLOCK):
        text = "\n".join(kept[start : start + LINES_PER_BLOCK])
        yield Block(kind="paragraph", text=text, rows=(row, row) if row else None)


def _lines(value: Any, path: str, depth: int = 0) -> Iterator[str]:
    """`path.to.key[0]: value` for every value that says something."""
    if depth > MAX_DEPTH:
        raise _too_deep()
    if isinstance(value, Pairs):
        for key, inner in value:
            yield from _lines(inner, f"{path}.{_key(key)}" if path else _key(key), depth + 1)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _lines(inner, f"{path}[{index}]", depth + 1)
    else:
        text = _scalar(value)
        if text:
            yield f"{path}: {text}" if path else text


def _table(values: list[Any], context: ParseContext, least: int = 2) -> str:
    """Records of mostly the same keys and only plain values as a pipe table; "" if they are not that."""
    if len(values) < least or not all(isinstance(value, Pairs) and value for value in values):
        return ""
    columns = list(dict.fromkeys(key for value in values[:1000] for key, _ in value))
    if len(columns) > MAX_COLUMNS:
        return ""
    position = {key: index for index, key in enumerate(columns)}
    if len(columns) * len(values) > context.max_cells:
        raise ParseError("The table holds more than %(cells)s cells.", code="too_many_cells", cells=context.max_cells)
    grid = [[normalise(key) for key in columns]]
    filled = 0
    for value in values:
        row = [""] * len(columns)
        for key, inner in value:
            if isinstance(inner, Pairs) or (isinstance(inner, list) and any(isinstance(part, list) for part in inner)):
                return ""
            if key not in position or row[position[key]]:
                return ""
            row[position[key]] = ", ".join(map(_scalar, inner)) if isinstance(inner, list) else _scalar(inner)
        filled += len(value)
        grid.append(row)
    return markdown_table(grid) if filled * 2 >= len(columns) * len(values) else ""


class _Line(NamedTuple):
    """A line of JSON Lines: its number from 1, and its value or, where it is not JSON, its text."""

    number: int
    value: Any
    broken: str = ""


def _records(text: str, context: ParseContext, warnings: list[str]) -> list[Block]:
    """One value a line; a line that is not JSON stays in its place as text, and is reported."""
    lines = [_line(number, line.strip()) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    broken = [line.number for line in lines if line.broken]
    if len(broken) * 2 > len(lines):
        _DECODER.decode(text)  # not lines of JSON: raises with the place where the document breaks
    if broken:
        named = ", ".join(map(str, broken[:BROKEN_LINES_NAMED]))
        warnings.append(f"broken_lines: {len(broken)} lines are not JSON and are kept as text, first: line {named}.")
    tabular = bool(_table([line.value for line in lines if not line.broken], context))
    blocks: list[Block] = []
    for is_broken, group in groupby(lines, key=lambda line: bool(line.broken)):
        members = list(group)
        if is_broken:
            blocks += [Block("paragraph", line.broken, rows=(line.number, line.number)) for line in members]
        else:
            blocks += _values(members, context, tabular=tabular)
    return blocks


def _line(number: int, text: str) -> _Line:
    try:
        return _Line(number, _DECODER.decode(text))
    except json.JSONDecodeError:
        return _Line(number, None, normalise(text))


def _values(lines: list[_Line], context: ParseContext, *, tabular: bool) -> list[Block]:
    """The records between two broken lines: a table where all records together make one."""
    table = _table([line.value for line in lines], context, least=1) if tabular else ""
    if table:
        return [Block(kind="table", text=table, rows=(lines[0].number, lines[-1].number))]
    return [block for line in lines for block in _lines_as_blocks(_lines(line.value, ""), row=line.number)]


def _broken(text: str, error: json.JSONDecodeError, context: ParseContext, warnings: list[str]) -> list[Block]:
    """JSON that stops in the middle is still text; something that never began as JSON is another type."""
    if not text.startswith(("{", "[", "//", "/*")):  # people write comments above
        raise ParseError("This file is not JSON.", code="type_mismatch") from error
    if "\n" in text:
        try:
            return _records(text, context, warnings)
        except json.JSONDecodeError:
            pass
    warnings.append(
        f"broken_json: The JSON is broken at line {error.lineno}, column {error.colno}; kept as plain text."
    )
    return [Block(kind="paragraph", text=part) for part in paragraphs(text)]


def _scalar(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return normalise(value) if isinstance(value, str) else ""


def _key(key: str) -> str:
    return " ".join(normalise(key).split())


def _too_deep() -> ParseError:
    return ParseError("The JSON is nested too deep to be read.", code="nested_too_deep")
