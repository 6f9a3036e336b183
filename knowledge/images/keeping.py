"""How the pictures of a document are stored: each bytes once in a base, with a thumbnail, and gone with the last user.

Nothing is shared between bases, so that neither an address nor a purge in one says anything of another.
"""

from __future__ import annotations

import json
import logging
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from django.db.models import Q

from knowledge import storage
from knowledge.ingestion.blocks import Image, ParsedDocument, Source
from knowledge.ingestion.parsers.images import image_header
from knowledge.ingestion.sandbox import SandboxLimits, parse_file
from knowledge.models import KnowledgeBase, Revision, StoredImage
from portal.kernel.errors import ParseError

log = logging.getLogger(__name__)

THUMBNAIL_TYPE = "image/jpeg"
CHILD = "knowledge.images.shrinking:shrink"
LIMITS = SandboxLimits(memory_mb=1200, cpu_seconds=120, wall_seconds=180, result_mb=128)


@dataclass(frozen=True, slots=True)
class Looked:
    """What decoding a picture showed: pixels, and its thumbnail where it needs one."""

    width: int
    height: int
    thumbnail: bytes = b""


def store(
    base: KnowledgeBase, document: ParsedDocument, on_progress: Callable[[int, int], None] = lambda done, total: None
) -> tuple[ParsedDocument, list[dict[str, Any]]]:
    """Keep the bytes of a document's pictures; returns the document without damaged ones, and a row for each other.

    The rows are JSON-ready and belong to `keep`. `on_progress` is told of each picture that is stored.
    """
    if not document.images:
        return document, []
    total = len(document.images)
    on_progress(0, total)
    found = _looked_at(document.images, lambda done, pictures: on_progress(0, total))
    rows = []
    for number, image in enumerate(document.images):
        on_progress(number, total)
        if found[image.key] is not None:
            rows.append(_stored(base, image, found[image.key]))
    damaged = {image.key for image in document.images if found[image.key] is None}
    return _without(document, damaged), rows


def keep(revision: Revision, rows: Iterable[dict[str, Any]]) -> None:
    """The rows of `store` as the pictures of a revision; those it has already stay."""
    StoredImage.objects.bulk_create([StoredImage(revision=revision, **row) for row in rows], ignore_conflicts=True)


def are_there(rows: Sequence[dict[str, Any]]) -> bool:
    """Whether the bytes of kept rows are still stored: a purge of their first user may have taken them."""
    return all(storage.exists(row["file"]) for row in rows)


def names_of(revisions: Iterable[int]) -> set[str]:
    """Stored names of the pictures and thumbnails of revisions (ids)."""
    rows = StoredImage.objects.filter(revision_id__in=list(revisions)).values_list("file", "thumbnail")
    return {name for row in rows for name in row if name}


def forget_unused(names: set[str]) -> None:
    """Delete stored pictures that no revision shows any more."""
    if not names:
        return
    shown = StoredImage.objects.filter(Q(file__in=names) | Q(thumbnail__in=names)).values_list("file", "thumbnail")
    for name in names - {name for row in shown for name in row}:
        storage.delete_file(name)


def _stored(base: KnowledgeBase, image: Image, looked: Looked | None) -> dict[str, Any]:
    assert looked is not None
    folder = f"images/{base.uid}"
    return {
        "key": image.key,
        "mime": image.mime,
        "alt": image.alt,
        "file": storage.save_bytes(folder, image.data),
        "thumbnail": storage.save_bytes(f"{folder}/small", looked.thumbnail) if looked.thumbnail else "",
        "width": looked.width,
        "height": looked.height,
        "size": len(image.data),
    }


def _looked_at(images: Sequence[Image], on_progress: Callable[[int, int], None]) -> dict[str, Looked | None]:
    """Each picture decoded once, in the sandbox; None for damaged ones. When that fails, their headers must do."""
    try:
        with tempfile.NamedTemporaryFile(prefix="archway-pictures-") as packed:
            with zipfile.ZipFile(packed, "w") as archive:
                for image in images:
                    archive.writestr(image.key, image.data)
            packed.flush()
            source = Source(Path(packed.name), "pictures", "application/zip")
            answer = parse_file(source, LIMITS, on_progress, parser=CHILD)
        values = {block.image: json.loads(block.text) for block in answer.blocks}
        return {image.key: _looked(values[image.key], answer.images) for image in images}
    except (ParseError, KeyError, ValueError, TypeError, IndexError) as error:
        log.warning("Thumbnails were not made: %s", getattr(error, "code", type(error).__name__))
        return {image.key: _by_header(image) for image in images}


def _looked(value: Any, thumbnails: Sequence[Image]) -> Looked | None:
    if value is None:
        return None
    width, height, index = value
    return Looked(int(width), int(height), thumbnails[int(index)].data if index is not None else b"")


def _by_header(image: Image) -> Looked | None:
    header = image_header(image.data)
    return Looked(header.width, header.height) if header else None


def _without(document: ParsedDocument, damaged: set[str]) -> ParsedDocument:
    """The document with the damaged pictures' places left as text only."""
    if not damaged:
        return document
    blocks = tuple(replace(block, image=None) if block.image in damaged else block for block in document.blocks)
    warning = f"pictures_damaged: {len(damaged)} pictures are damaged and were left out."
    return replace(document, blocks=blocks, warnings=(*document.warnings, warning))
