"""What a parser returns: blocks of text that know where in the document they stand.

`ParsedDocument.text` is the one text that all offsets point into: the texts of the blocks, joined
by a blank line. Blocks are frozen values; they cross a process border as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, Protocol

BlockKind = Literal["heading", "paragraph", "list", "table", "code", "quote", "image", "note", "qa"]
SEPARATOR = "\n\n"
NO_TEXT = "No text was found in this file."
NO_ALT = "[image]"  # the text of a picture without alternative text; it alone is no text


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of a document.

    `text` is Markdown-like plain text: a table is a pipe table (head row, `|---|` row, body rows,
    one line a row), code keeps its fences, a list keeps its numbers and indentation, a heading has
    no `#`. `page`, `slide` and `rows` count from 1. `bbox` is (left, top, right, bottom) in points
    from the page's top left corner. `start` and `end` are offsets into `ParsedDocument.text`
    (filled by `assemble`). `heading_path` holds the titles above the block, outermost first,
    without the block's own title. `ocr` marks text that was read from a picture.
    """

    kind: BlockKind
    text: str
    level: int | None = None
    heading_path: tuple[str, ...] = ()
    page: int | None = None
    sheet: str | None = None
    rows: tuple[int, int] | None = None
    slide: int | None = None
    bbox: tuple[float, float, float, float] | None = None
    image: str | None = None
    start: int = 0
    end: int = 0
    ocr: bool = False


@dataclass(frozen=True, slots=True)
class Image:
    """A picture inside a document. `key` is the sha256 of `data`; blocks name it in `Block.image`."""

    key: str
    mime: str
    data: bytes
    alt: str = ""


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """A parser's whole answer. `warnings` are plain English sentences, each with a stable code before a colon.

    `unread` are the pages (from 1) whose text only text recognition can find.
    """

    mime: str
    text: str
    blocks: tuple[Block, ...]
    warnings: tuple[str, ...] = ()
    images: tuple[Image, ...] = ()
    page_count: int | None = None
    title: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    unread: tuple[int, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """JSON-ready, pictures left out (they are stored by key)."""
        return {
            "mime": self.mime,
            "text": self.text,
            "blocks": [{name: getattr(block, name) for name in _BLOCK_FIELDS} for block in self.blocks],
            "warnings": list(self.warnings),
            "page_count": self.page_count,
            "title": self.title,
            "metadata": self.metadata,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ParsedDocument:
        """The opposite of `as_json`."""
        return cls(
            mime=value["mime"],
            text=value["text"],
            blocks=tuple(_block_from_json(row) for row in value["blocks"]),
            warnings=tuple(value["warnings"]),
            page_count=value["page_count"],
            title=value["title"],
            metadata=value["metadata"],
        )


_BLOCK_FIELDS = tuple(entry.name for entry in fields(Block))  # `asdict` copies in depth: 92,000 blocks took 1.3 s


def _block_from_json(row: dict[str, Any]) -> Block:
    return Block(
        **{
            **row,
            "heading_path": tuple(row["heading_path"]),
            "rows": tuple(row["rows"]) if row["rows"] else None,
            "bbox": tuple(row["bbox"]) if row["bbox"] else None,
        }
    )


@dataclass(frozen=True, slots=True)
class Source:
    """A file to parse. `name` is for display and messages only; nothing is opened by it.

    `recognised` is a file with what text recognition found on the pages (`parsers/recognised.py`).
    """

    path: Path
    name: str
    mime: str
    recognised: Path | None = None

    def read(self) -> bytes:
        return self.path.read_bytes()


@dataclass(frozen=True, slots=True)
class ParseContext:
    """What a parser may use besides the file: limits and a way to say how far it is.

    With `ocr`, pages that only text recognition can read are named in `ParsedDocument.unread`; a file of
    nothing else then comes back empty instead of being refused.
    """

    max_pages: int = 10_000
    max_cells: int = 2_000_000
    max_text: int = 50_000_000
    max_archive_entries: int = 5_000
    max_archive_bytes: int = 500_000_000
    max_archive_ratio: int = 100
    max_image_pixels: int = 50_000_000
    max_images: int = 500
    max_image_bytes: int = 64_000_000
    ocr: bool = False
    progress: Callable[[int, int], None] = lambda done, total: None


class Parser(Protocol):
    """A plain function: no ORM, no settings, no network. On bad input it raises `ParseError` and nothing else."""

    def __call__(self, source: Source, context: ParseContext) -> ParsedDocument: ...


def assemble(
    mime: str,
    blocks: Iterable[Block],
    *,
    warnings: Sequence[str] = (),
    images: Sequence[Image] = (),
    page_count: int | None = None,
    title: str = "",
    metadata: dict[str, str] | None = None,
    unread: Sequence[int] = (),
) -> ParsedDocument:
    """Join blocks to a document: drop the empty ones and give each its offsets."""
    placed: list[Block] = []
    parts: list[str] = []
    position = 0
    for block in blocks:
        text = block.text.strip("\n")
        if not text.strip():
            continue
        if parts:
            position += len(SEPARATOR)
        placed.append(replace(block, text=text, start=position, end=position + len(text)))
        parts.append(text)
        position += len(text)
    return ParsedDocument(
        mime=mime,
        text=SEPARATOR.join(parts),
        blocks=tuple(placed),
        warnings=tuple(warnings),
        images=tuple(images),
        page_count=page_count,
        title=title,
        metadata=metadata or {},
        unread=tuple(unread),
    )
