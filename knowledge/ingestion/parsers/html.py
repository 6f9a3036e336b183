"""HTML pages: our own decoding, then the walk over the tree that a browser would build."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

from knowledge.ingestion.blocks import Block, Image, ParseContext, ParsedDocument, Source, assemble
from knowledge.ingestion.parsers.encodings import Decoded, decode
from knowledge.ingestion.parsers.html_walk import Picture, Walker

MIME = "text/html"
PICTURE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp"})
_DECLARED = re.compile(rb"""<(?:meta\b[^>]*?charset|\?xml\b[^>]*?encoding)\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_MARKUP = re.compile(rb"<(?:script|style)\b.*?</(?:script|style)\s*>|<[^<>]*>", re.IGNORECASE | re.DOTALL)


def parse(source: Source, context: ParseContext) -> ParsedDocument:
    """Blocks of a page in any encoding; scripts and styles are dropped, remote images never load."""
    decoded = decode_html(source.read())
    walker, title = walk_html(decoded.text, context)
    context.progress(1, 1)
    return assemble(
        MIME,
        walker.blocks,
        warnings=decoded.warnings,
        images=tuple(walker.images.values()),
        title=title,
        metadata={"encoding": decoded.encoding},
    )


def decode_html(data: bytes) -> Decoded:
    """The text of a page. Markup is taken out before guessing: it is English around any language."""
    declared = _DECLARED.search(data[:8192])
    claim = declared[1].decode("ascii", "replace") if declared else None
    decoded = decode(data, declared=claim)
    if decoded.encoding.startswith("utf"):
        return decoded
    guess = decode(_MARKUP.sub(b" ", data), declared=claim)
    return decode(data, declared=guess.encoding) if guess.encoding != decoded.encoding else decoded


def walk_html(
    text: str, context: ParseContext, *, picture: Picture | None = None, walker: Walker | None = None
) -> tuple[Walker, str]:
    """Walk `text` as HTML. Returns the walker, with its blocks and images, and the page's title.

    The title becomes the first heading if the page has no `h1` of its own.
    """
    from selectolax.lexbor import LexborHTMLParser

    walker = walker or Walker(picture=picture or embedded_picture, max_cells=context.max_cells)
    tree: Any = LexborHTMLParser(text)
    found = tree.css_first("title")
    title = " ".join((found.text() or "").split()) if found is not None else ""
    if title and tree.css_first("h1") is None:
        heading = walker.outline.heading(1, title)
        if heading:
            walker.blocks.append(heading)
    root = tree.body or tree.root
    if root is not None:
        walker.walk(root)
    return walker, title


def html_blocks(text: str, context: ParseContext) -> Sequence[Block]:
    """Only the blocks of a piece of HTML."""
    return walk_html(text, context)[0].blocks


def picture_from(data: bytes, mime: str, alt: str) -> Image | None:
    """An image of a type that browsers show safely (no SVG), or None."""
    if mime not in PICTURE_TYPES or not data:
        return None
    return Image(key=hashlib.sha256(data).hexdigest(), mime=mime, data=data, alt=alt)


def embedded_picture(address: str, alt: str) -> Image | None:
    """The image that a `data:` address holds; None for every other address, which is never fetched."""
    if not address.startswith("data:image/"):
        return None
    head, _, body = address[5:].partition(",")
    mime = head.split(";")[0].strip().lower()
    try:
        data = base64.b64decode(body, validate=False) if ";base64" in head else unquote_to_bytes(body)
    except (binascii.Error, ValueError):
        return None
    return picture_from(data, mime, alt)
