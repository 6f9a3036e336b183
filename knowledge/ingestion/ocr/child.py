"""The sandboxed side of text recognition: opens the file, draws its pages, hands back their lines.

Knows no Django, no database, no settings. One block a page, whose text is the page's JSON (`lines`).
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from PIL import Image as Raster

from knowledge.ingestion.blocks import Block, ParseContext, ParsedDocument, Source, assemble
from knowledge.ingestion.ocr.engine import LONGEST_SIDE, Pixels, recognise
from knowledge.ingestion.ocr.lines import RecognisedPage
from knowledge.ingestion.parsers.pdf.opening import open_document
from knowledge.ingestion.parsers.pictures import frame, opened
from portal.kernel.errors import ParseError

PDF, PICTURES = "application/pdf", "application/zip"
MOST_DOTS = 300 / 72  # pixels a point: 300 dpi


def read(source: Source, context: ParseContext) -> ParsedDocument:
    """Recognise what `source.name` asks for: JSON, `{"pages": [1, …]}` of a PDF or picture file, or
    `{"pictures": [key, …]}` of a zip of pictures by key (made by us).

    Raises `ParseError` (those of opening a PDF, `damaged_file`, `too_large`).
    """
    wanted = json.loads(source.name)
    blocks: list[Block] = []
    names = wanted.get("pages") or wanted["pictures"]
    for done, page in enumerate(_pages(source, wanted, context), start=1):
        number = names[done - 1]
        text = json.dumps(page.as_json(), ensure_ascii=False)
        if source.mime == PICTURES:
            blocks.append(Block("code", text, image=str(number)))
        else:
            blocks.append(Block("code", text, page=int(number)))
        context.progress(done, len(names))
    return assemble(source.mime, blocks)


def _pages(source: Source, wanted: dict[str, Any], context: ParseContext) -> Iterator[RecognisedPage]:
    if source.mime == PDF:
        yield from _of_pdf(source, wanted["pages"], context)
    elif source.mime == PICTURES:
        with zipfile.ZipFile(source.path) as archive:
            for key in wanted["pictures"]:
                yield _of_picture(io.BytesIO(archive.read(key)), context)
    else:
        with opened(source.path, context) as picture:
            for number in wanted["pages"]:
                yield recognise(np.asarray(frame(picture, number)))


def _of_pdf(source: Source, pages: list[int], context: ParseContext) -> Iterator[RecognisedPage]:
    document, _ = open_document(source, context)
    for number in pages:
        page = document[number - 1]
        width, height = page.get_size()
        scale = min(MOST_DOTS, LONGEST_SIDE / max(width, height, 1.0))
        bitmap = page.render(scale=scale, rev_byteorder=True)
        pixels: Pixels = np.array(bitmap.to_numpy()[:, :, :3], dtype=np.uint8)
        page.close()
        yield recognise(pixels, scale)


def _of_picture(data: io.BytesIO, context: ParseContext) -> RecognisedPage:
    """A picture inside a document. One that can not be decoded has no text; the others still have theirs."""
    try:
        with opened(data, context) as picture:
            return recognise(np.asarray(frame(picture, 1)))
    except (ParseError, Raster.DecompressionBombError):
        return RecognisedPage(0, 0, 0, ())
