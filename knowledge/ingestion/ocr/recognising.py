"""Recognising the text of pages and pictures, from the outside: in batches, each in a sandboxed process of its own.

Alone decides how much of a document is recognised, what a page may cost, and what its failure means:
the page is named and the others go on. What is recognised is kept page by page (`Kept`), so that a slice
of work may end between two batches and a retry does nothing twice.
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from knowledge.ingestion.blocks import Block, Image, ParseContext, ParsedDocument, Source, assemble
from knowledge.ingestion.ocr.lines import RecognisedPage, page_from_json, page_from_text
from knowledge.ingestion.parsers.images import image_header
from knowledge.ingestion.sandbox import SandboxLimits, close_idle, parse_file
from portal.kernel.errors import ParseError

CHILD = "knowledge.ingestion.ocr.child"
# Raise it when the same pixels give other lines.
VERSION = 2
BATCH = 4.0  # pages of one process: its start costs about as much as half a page
PAGE_PIXELS, LEAST_SHARE = 2_000 * 1_414, 0.125  # a small picture counts as the part of a page that it takes
START_SECONDS = 30
SMALLEST_SIDE = 32  # pixels of a picture in which text could be read
LEAST_LETTERS = 2
_GONE_ON = frozenset({"too_slow", "out_of_memory", "parser_crashed", "damaged_file", "too_many_pixels"})


@dataclass(frozen=True, slots=True)
class OcrLimits:
    """What recognition may use: address space, seconds a page, and how much of one document is looked at."""

    memory_mb: int = 2048
    page_seconds: int = 60
    max_pages: int = 500
    max_pictures: int = 200


class Kept(Protocol):
    """What was recognised before, by place (`p3` or a picture's key): a page's JSON, or `{"failed": code}`."""

    def get(self, place: str) -> dict[str, Any] | None: ...
    def put(self, place: str, value: dict[str, Any]) -> None: ...


@dataclass(slots=True)
class InMemory:
    """Kept for as long as this object lives."""

    _values: dict[str, dict[str, Any]] = field(default_factory=dict)

    def get(self, place: str) -> dict[str, Any] | None:
        return self._values.get(place)

    def put(self, place: str, value: dict[str, Any]) -> None:
        self._values[place] = value


@dataclass(frozen=True, slots=True)
class Course:
    """How recognition reports and is steered: `progress(done, total)` after each page, `pause` between batches.

    `pause` may raise to end the work there; what was recognised is kept.
    """

    progress: Callable[[int, int], None] = lambda done, total: None
    pause: Callable[[], None] = lambda: None
    should_stop: Callable[[], bool] | None = None


@contextmanager
def recognised_pages(
    source: Source, numbers: Sequence[int], kept: Kept, limits: OcrLimits, context: ParseContext, course: Course
) -> Iterator[Source]:
    """The source with what was recognised on its pages beside it, for the parser's second pass."""
    chosen, beyond = numbers[: limits.max_pages], numbers[limits.max_pages :]
    places = {f"p{number}": number for number in chosen}

    def run(batch: Sequence[str], progress: Callable[[int, int], None]) -> list[Block]:
        wanted = json.dumps({"pages": [places[place] for place in batch]})
        return _run(replace(source, name=wanted), len(batch), limits, context, course, progress)

    found = _recognise(list(places), run, kept, course)
    pages = {places[place]: value for place, value in found.items() if "failed" not in value}
    failed = [places[place] for place, value in found.items() if "failed" in value]
    with tempfile.TemporaryDirectory(prefix="archway-recognised-") as folder:
        path = Path(folder) / "pages"
        path.write_text(json.dumps({"pages": pages, "failed": failed, "beyond": list(beyond)}), encoding="utf-8")
        yield replace(source, recognised=path)


def with_picture_texts(
    document: ParsedDocument, kept: Kept, limits: OcrLimits, context: ParseContext, course: Course
) -> ParsedDocument:
    """The document with the text of each of its pictures after the picture, where it has any."""
    wanted = [image for image in document.images if _may_hold_text(image)]
    chosen = {image.key: image for image in wanted[: limits.max_pictures]}
    if not chosen:
        return document

    def run(batch: Sequence[str], progress: Callable[[int, int], None]) -> list[Block]:
        with tempfile.NamedTemporaryFile(prefix="archway-pictures-") as packed:
            with zipfile.ZipFile(packed, "w") as archive:
                for key in batch:
                    archive.writestr(key, chosen[key].data)
            packed.flush()
            name = json.dumps({"pictures": list(batch)})
            return _run(
                Source(Path(packed.name), name, "application/zip"), len(batch), limits, context, course, progress
            )

    found = _recognise(list(chosen), run, kept, course, lambda key: _share(chosen[key]))
    pages = {key: page_from_json(value) for key, value in found.items() if "failed" not in value}
    warnings = list(document.warnings)
    if failed := len(found) - len(pages):
        warnings.append(f"pictures_not_recognised: text recognition failed on {failed} pictures.")
    if beyond := len(wanted) - len(chosen):
        warnings.append(f"pictures_beyond_recognition: {beyond} further pictures were not searched for text.")
    return _with_texts(document, pages, warnings)


def _with_texts(document: ParsedDocument, pages: dict[str, RecognisedPage], warnings: list[str]) -> ParsedDocument:
    readable = {key: page for key, page in pages.items() if sum(map(str.isalnum, page.text)) >= LEAST_LETTERS}
    blocks: list[Block] = []
    told: set[str] = set()
    for block in document.blocks:
        blocks.append(block)
        if block.kind == "image" and block.image in readable and block.image not in told:
            told.add(block.image)
            blocks += _texts(readable[block.image], block)
    if told:
        warnings.append(f"pictures_recognised: the text of {len(told)} pictures was read from them.")
    return assemble(
        document.mime, blocks, warnings=warnings, images=document.images, page_count=document.page_count,
        title=document.title, metadata=document.metadata,
    )  # fmt: skip


def _texts(page: RecognisedPage, picture: Block) -> Iterator[Block]:
    """The picture's text as blocks at the picture's place; on a PDF page, where the letters stand."""
    from knowledge.ingestion.parsers.pdf.recognised import drafts_of

    for draft in drafts_of(page, picture.page or 1):
        box = None
        if picture.bbox is not None and page.width > 0 and page.height > 0:
            left, top, right, bottom = picture.bbox
            across, down = (right - left) / page.width, (bottom - top) / page.height
            box = (
                left + draft.box[0] * across, top + draft.box[1] * down,
                left + draft.box[2] * across, top + draft.box[3] * down,
            )  # fmt: skip
        yield replace(picture, kind=draft.kind, text=draft.text, level=None, image=None, bbox=box, ocr=True)


def _may_hold_text(image: Image) -> bool:
    header = image_header(image.data)
    return header is not None and min(header.width, header.height) >= SMALLEST_SIDE


def _recognise(
    places: Sequence[str],
    run: Callable[[Sequence[str], Callable[[int, int], None]], list[Block]],
    kept: Kept,
    course: Course,
    share: Callable[[str], float] = lambda place: 1.0,
) -> dict[str, dict[str, Any]]:
    """The JSON of each place, kept or new; `share` is what a place costs, in pages.

    A batch that fails is tried again page by page, a page only once.
    """
    found = {place: value for place in places if (value := kept.get(place)) is not None}
    waiting = _batches([place for place in places if place not in found], share)
    course.progress(len(found), len(places))
    try:
        while waiting:
            course.pause()
            batch = waiting.pop(0)
            done = len(found)
            try:
                blocks = run(batch, partial(_tell, course, done, len(places)))
                values = [page_from_text(block.text).as_json() for block in blocks]
                if len(values) != len(batch):
                    raise ParseError("A page is missing.", code="parser_crashed")
            except (ParseError, ValueError) as error:
                code = getattr(error, "code", "parser_crashed")
                if code not in _GONE_ON:
                    raise
                if len(batch) > 1:
                    waiting[:0] = [[place] for place in batch]
                    continue
                values = [{"failed": code}]
            for place, value in zip(batch, values, strict=True):
                kept.put(place, value)
                found[place] = value
            course.progress(len(found), len(places))
    finally:
        close_idle(CHILD)  # a loaded recogniser keeps more memory than its next start is worth
    return found


def _batches(places: Sequence[str], share: Callable[[str], float]) -> list[list[str]]:
    batches: list[list[str]] = []
    size = BATCH
    for place in places:
        if size + share(place) > BATCH:
            batches.append([])
            size = 0.0
        batches[-1].append(place)
        size += share(place)
    return batches


def _share(image: Image) -> float:
    """How much of a page's time recognising a picture takes; small ones are enlarged for it, at most fourfold."""
    header = image_header(image.data)
    pixels = 16 * header.width * header.height if header else PAGE_PIXELS
    return min(1.0, max(LEAST_SHARE, pixels / PAGE_PIXELS))


def _tell(course: Course, before: int, total: int, done: int, of: int) -> None:
    course.progress(before + done, total)


def _run(
    source: Source,
    pages: int,
    limits: OcrLimits,
    context: ParseContext,
    course: Course,
    progress: Callable[[int, int], None],
) -> list[Block]:
    seconds = START_SECONDS + pages * limits.page_seconds
    sandbox = SandboxLimits(memory_mb=limits.memory_mb, cpu_seconds=4 * seconds, wall_seconds=seconds, result_mb=64)
    document = parse_file(source, sandbox, progress, course.should_stop, context=context, parser=f"{CHILD}:read")
    return list(document.blocks)
