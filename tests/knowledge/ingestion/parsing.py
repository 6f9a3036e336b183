"""Shortcuts of the parser tests: bytes in, document out, in this process."""

from __future__ import annotations

import tempfile
from pathlib import Path

from knowledge.ingestion.blocks import ParseContext, ParsedDocument, Source
from knowledge.ingestion.parsers import BY_EXTENSION, parser_for


def parse(data: bytes | str, extension: str, context: ParseContext | None = None) -> ParsedDocument:
    """`data` parsed as a file with this extension."""
    raw = data.encode() if isinstance(data, str) else data
    mime = BY_EXTENSION[extension].mime
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stored"
        path.write_bytes(raw)
        return parser_for(mime)(Source(path, f"a.{extension}", mime), context or ParseContext())


def shapes(document: ParsedDocument) -> list[tuple[str, str]]:
    """Kind and text of each block; the offsets are checked on the way."""
    for block in document.blocks:
        assert document.text[block.start : block.end] == block.text
    return [(block.kind, block.text) for block in document.blocks]


def codes(document: ParsedDocument) -> list[str]:
    return [warning.partition(":")[0] for warning in document.warnings]
