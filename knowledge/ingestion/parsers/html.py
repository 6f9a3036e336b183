"""HTML pages: our own decoding, then the walk over the tree that a browser would build."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any
from urllib.parse import unquote_to_bytes

from knowledge.ingestion.blocks import ParseContext, ParsedDocument, Source, assemble
from knowledge.ingestion.parsers.encodings import Decoded, decode
from knowledge.ingestion.parsers.html_walk import Walker

MIME = "text/html"
_DECLARED = re.compile(rb"""<(?:meta\b[^>]*?charset|\?xml\b[^>]*?encoding)\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_TAG = re.compile(r"<(/?)([a-zA-Z][\w:-]*)[^<>]*>")
_LONG_TAG = re.compile(r"<[a-zA-Z][^<>]{20000}")
# In XHTML `<script src="x"/>` is complete; a reader of HTML would take the rest of the page for its content.
_XHTML = re.compile(r"\A\s*<\?xml\b|<html\b[^<>]*\bxmlns\s*=", re.IGNORECASE)
_CLOSED = re.compile(
    r"<(script|style|title|textarea|iframe|noscript|noframes|select|a|div|p|span)\b([^<>]*?)/>", re.IGNORECASE
)
MAX_ATTRIBUTES = 1_000
MAX_DEPTH = 1_000
DEEP_ONLY_ABOVE = 5_000  # tags
UNCOUNTED = frozenset(
    {
        "p", "li", "dt", "dd", "td", "th", "tr", "tbody", "thead", "tfoot", "option", "optgroup", "colgroup", "br",
        "img", "hr", "input", "meta", "link", "area", "base", "col", "embed", "source", "track", "wbr", "param", "html",
        "head", "body", "rp", "rt",
    }
)  # fmt: skip
_MARKUP = re.compile(rb"<(?:script|style)\b.*?</(?:script|style)\s*>|<[^<>]*>", re.IGNORECASE | re.DOTALL)


def parse(source: Source, context: ParseContext) -> ParsedDocument:
    """Blocks of a page in any encoding; scripts and styles are dropped, remote images never load."""
    decoded = decode_html(source.read())
    walker = Walker(context, embedded_picture)
    title = walk_html(decoded.text, walker)
    context.progress(1, 1)
    return assemble(
        MIME,
        walker.blocks,
        warnings=(*decoded.warnings, *walker.pictures.warnings),
        images=walker.pictures.images,
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


def walk_html(text: str, walker: Walker, *, title: str | None = None) -> str:
    """Walk `text` as HTML, adding to the walker; returns the page's title.

    The page's own title becomes the first heading if it has no `h1`. A `title` given by the caller
    replaces it, and stands only over a page without any heading.
    """
    from selectolax.lexbor import LexborHTMLParser

    if _XHTML.search(text[:2048]):
        text = _CLOSED.sub(r"<\1\2></\1>", text)
    tree: Any = LexborHTMLParser(bounded(text))
    rivals = "h1" if title is None else "h1, h2, h3, h4, h5, h6"
    if title is None:
        found = tree.css_first("head > title")
        title = " ".join((found.text() or "").split()) if found is not None else ""
    if title and tree.css_first(rivals) is None:
        heading = walker.outline.heading(1, title)
        if heading:
            walker.blocks.append(heading)
    base = tree.css_first("base[href]")
    address = (base.attributes.get("href") or "").strip() if base is not None else ""
    walker.base = address if address.startswith(("http://", "https://")) else ""
    root = tree.body or tree.root
    if root is not None:
        walker.walk(root)
    return title


def bounded(text: str) -> str:
    """`text` without what only an attack holds: a tag of thousands of attributes, elements nested 1,000 deep.

    The tree builder's time grows with the square of both. Tags whose end people leave out do not count.
    """
    if _LONG_TAG.search(text):
        text = _TAG.sub(lambda tag: tag[0] if tag[0].count("=") <= MAX_ATTRIBUTES else f"<{tag[1]}{tag[2]}>", text)
    if text.count("<") < DEEP_ONLY_ABOVE:
        return text
    depth = 0

    def shallow(tag: re.Match[str]) -> str:
        nonlocal depth
        if tag[2].lower() in UNCOUNTED or tag[0].endswith("/>"):
            return tag[0]
        if tag[1]:
            depth = max(0, depth - 1)
            return tag[0] if depth < MAX_DEPTH else ""
        depth += 1
        return tag[0] if depth <= MAX_DEPTH else ""

    return _TAG.sub(shallow, text)


def embedded_picture(address: str) -> bytes | None:
    """The bytes that a `data:` address holds; None for every other address, which is never fetched."""
    if not address.startswith("data:image/"):
        return None
    head, _, body = address[5:].partition(",")
    try:
        return base64.b64decode(body, validate=False) if ";base64" in head else unquote_to_bytes(body)
    except (binascii.Error, ValueError):
        return None
