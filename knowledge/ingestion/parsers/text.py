"""Plain text: a paragraph ends at a blank line."""

from __future__ import annotations

from knowledge.ingestion.blocks import Block, ParseContext, ParsedDocument, Source, assemble
from knowledge.ingestion.parsers.encodings import decode

MIME = "text/plain"


def parse(source: Source, context: ParseContext) -> ParsedDocument:
    """Paragraphs of a text file in any common encoding; indentation inside a paragraph is kept."""
    decoded = decode(source.read())
    blocks = [Block(kind="paragraph", text=part) for part in paragraphs(decoded.text)]
    context.progress(1, 1)
    return assemble(MIME, blocks, warnings=decoded.warnings, metadata={"encoding": decoded.encoding})


def paragraphs(text: str) -> list[str]:
    """`text` cut at blank lines (also lines of spaces only), without losing any other character."""
    parts: list[list[str]] = [[]]
    for line in text.split("\n"):
        if line.strip():
            parts[-1].append(line.rstrip())
        elif parts[-1]:
            parts.append([])
    return ["\n".join(part) for part in parts if part]
