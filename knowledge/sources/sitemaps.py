"""Site maps: XML of pages or of further maps, plain lists, packed or not (sitemaps.org, version 0.9)."""

from __future__ import annotations

import io
from dataclasses import dataclass

from knowledge.ingestion.parsers.xml import iterate_xml
from knowledge.sources.fetching import unpacked
from portal.kernel.errors import Invalid, ParseError

MAP_BYTES = 50 * 1_048_576  # unpacked; the protocol's own limit
MOST_ENTRIES = 50_000


@dataclass(frozen=True, slots=True)
class SiteMap:
    """Addresses of pages, and of further maps."""

    pages: tuple[str, ...]
    maps: tuple[str, ...]


def read_map(data: bytes) -> SiteMap:
    """What a site map lists, at most 50,000 entries. Raises `Invalid` (not_a_sitemap) and `TooLarge`."""
    if data.startswith(b"\x1f\x8b"):
        data = b"".join(unpacked(iter([data]), MAP_BYTES))
    start = data.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not start.startswith(b"<"):
        return _lines(data)
    pages: list[str] = []
    maps: list[str] = []
    try:
        for element in iterate_xml(io.BytesIO(start), ("{*}loc",)):
            parent = element.getparent()
            kind = parent.tag.rpartition("}")[2] if parent is not None else ""
            text = (element.text or "").strip()
            if text and kind == "url":
                pages.append(text)
            elif text and kind == "sitemap":
                maps.append(text)
            if len(pages) + len(maps) >= MOST_ENTRIES:
                break
    except ParseError as error:
        # What was read before the fault is of use: cut-off maps are common.
        if not pages and not maps:
            raise _no_map() from error
    if not pages and not maps:
        raise _no_map()
    return SiteMap(tuple(pages), tuple(maps))


def _lines(data: bytes) -> SiteMap:
    lines = [line.strip() for line in data.decode("utf-8-sig", "replace").splitlines()]
    pages = [line for line in lines if line.startswith(("http://", "https://"))]
    if not pages:
        raise _no_map()
    return SiteMap(tuple(pages[:MOST_ENTRIES]), ())


def _no_map() -> Invalid:
    return Invalid("This is not a site map.", code="not_a_sitemap")
