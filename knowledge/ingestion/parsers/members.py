"""Documents inside a document: entries of an archive and attachments of a message, each parsed by its own type."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path

from knowledge.ingestion.blocks import Block, Image, ParseContext, ParsedDocument, Source
from portal.kernel.errors import ParseError

MAX_DEPTH = 2  # an archive in an archive; what lies deeper is named and skipped
_depth: ContextVar[int] = ContextVar("depth", default=0)


@dataclass(slots=True)
class Members:
    """Collects the parsed members of one container, in order, each under a heading with its name."""

    context: ParseContext
    blocks: list[Block] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    images: dict[str, Image] = field(default_factory=dict)
    read: int = 0

    def add(self, name: str, data: bytes) -> None:
        """Parse a member. One that can not be read is named in a warning and does not stop the others."""
        from knowledge.ingestion.parsers import parser_for
        from knowledge.ingestion.sniff import sniff

        try:
            with _one_deeper(), tempfile.TemporaryDirectory(prefix="member") as folder:
                path = Path(folder) / "member"
                path.write_bytes(data)
                mime = sniff(path, name)
                document = parser_for(mime)(Source(path, name, mime), replace(self.context, progress=_quiet))
        except ParseError as error:
            if error.code == "archive_limit":
                raise
            self.skip(name, error)
            return
        self._take(name, document)

    def skip(self, name: str, error: ParseError) -> None:
        self.warnings.append(f"skipped_member: {name}: {error.code}: {error}")

    def _take(self, name: str, document: ParsedDocument) -> None:
        self.warnings += [f"{warning} [{name}]" for warning in document.warnings]
        if not document.blocks:
            self.skip(name, ParseError("No text was found in this file.", code="no_text"))
            return
        self.read += 1
        self.blocks.append(Block(kind="heading", text=name, level=1))
        for block in document.blocks:
            level = block.level + 1 if block.level else block.level
            self.blocks.append(replace(block, level=level, heading_path=(name, *block.heading_path)))
        for image in document.images:
            self.images.setdefault(image.key, image)


@contextmanager
def _one_deeper() -> Iterator[None]:
    depth = _depth.get()
    if depth >= MAX_DEPTH:
        raise ParseError("Archives are read to a depth of %(depth)s.", code="nested_too_deep", depth=MAX_DEPTH)
    token = _depth.set(depth + 1)
    try:
        yield
    finally:
        _depth.reset(token)


def _quiet(done: int, total: int) -> None:
    """Members do not report progress of their own: the container counts them."""
