"""A file on disk as the JSON of `manage.py parse`: what anybody can check without a base or a database."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from knowledge.ingestion.blocks import Block, Source
from knowledge.ingestion.read_file import ReadOptions, read_file
from knowledge.ingestion.sniff import sniff
from portal.kernel.errors import ParseError


def read(
    path: Path,
    *,
    options: ReadOptions | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """`{"name", "mime", "error", "warnings", "blocks"}` of a file; an error is `{"code", "message"}` or None."""
    report: dict[str, Any] = {"name": path.name, "mime": None, "error": None, "warnings": [], "blocks": []}
    try:
        report["mime"] = sniff(path, path.name)
        document = read_file(
            Source(path, path.name, report["mime"]),
            options or ReadOptions(),
            progress=on_progress or (lambda done, total: None),
        )
    except ParseError as error:
        report["error"] = {"code": error.code, "message": str(error)}
    except OSError as error:
        report["error"] = {"code": "file_missing", "message": f"The file can not be opened: {error.strerror}."}
    else:
        report["warnings"] = list(document.warnings)
        report["blocks"] = [_block(block) for block in document.blocks]
    return report


def _block(block: Block) -> dict[str, Any]:
    return {
        "kind": block.kind,
        "text": block.text,
        "page": block.page,
        "sheet": block.sheet,
        "rows": list(block.rows) if block.rows else None,
        "slide": block.slide,
        "heading_path": list(block.heading_path),
        "start": block.start,
        "end": block.end,
        "bbox": list(block.bbox) if block.bbox else None,
    }
