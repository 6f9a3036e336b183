"""EPUB: the chapters in reading order, through the HTML walk; chapters without a heading take the contents' title."""

from __future__ import annotations

import posixpath
from urllib.parse import unquote, urldefrag

from knowledge.ingestion.blocks import ParseContext, ParsedDocument, Source, assemble
from knowledge.ingestion.parsers.archive import Archive
from knowledge.ingestion.parsers.encodings import normalise
from knowledge.ingestion.parsers.html import decode_html, embedded_picture, walk_html
from knowledge.ingestion.parsers.html_walk import Walker
from knowledge.ingestion.parsers.outline import Outline
from knowledge.ingestion.parsers.xml import Element, parse_xml
from portal.kernel.errors import ParseError

MIME = "application/epub+zip"
CONTAINER = "META-INF/container.xml"
PAGES = frozenset({"application/xhtml+xml", "text/html", "text/x-oeb1-document"})


def parse(source: Source, context: ParseContext) -> ParsedDocument:
    """Blocks of all chapters of the spine.

    Raises `ParseError` (`damaged_file`, `archive_limit`, `password_protected`).
    """
    with Archive(source.path, context) as archive:
        if "META-INF/encryption.xml" in archive and b"EncryptedKey" in archive.read("META-INF/encryption.xml"):
            raise ParseError("This book is protected against copying.", code="password_protected")
        folder, package = _package(archive)
        book = _Book(archive, context, folder, package)
        chapters = book.chapters()
        for index, chapter in enumerate(chapters):
            context.progress(index, len(chapters))
            book.read(chapter)
        context.progress(len(chapters), len(chapters))
        walker = book.walker
        return assemble(
            MIME,
            walker.blocks,
            warnings=[*book.warnings, *walker.pictures.warnings],
            images=walker.pictures.images,
            title=book.fact("title"),
            metadata={
                name: value for name in ("creator", "language", "publisher", "date") if (value := book.fact(name))
            },
        )


class _Book:
    """One open book: where its parts lie and what has been read of it."""

    def __init__(self, archive: Archive, context: ParseContext, folder: str, package: Element) -> None:
        self.walker = Walker(context, self._picture)
        self.warnings: list[str] = []
        self._archive = archive
        self._folder = folder
        self._chapter_folder = folder
        self._package = package
        self._items = {item.get("id"): item for item in package.iter("{*}item")}
        self._titles = self._contents()

    def fact(self, name: str) -> str:
        element = next(self._package.iter(f"{{http://purl.org/dc/elements/1.1/}}{name}"), None)
        return " ".join(normalise("".join(element.itertext())).split()) if element is not None else ""

    def chapters(self) -> list[str]:
        """Paths of the pages in reading order; all pages if the spine names none."""
        spine = [self._items.get(ref.get("idref")) for ref in self._package.iter("{*}itemref")]
        items = [item for item in spine if item is not None] or [
            item for item in self._items.values() if item.get("media-type") in PAGES
        ]
        is_page = [item for item in items if item.get("media-type", "application/xhtml+xml") in PAGES]
        return [self._path(self._folder, item.get("href", "")) for item in is_page]

    def read(self, path: str) -> None:
        if path not in self._archive:
            self.warnings.append(f"missing_chapter: {path} is named in the book but is not in the file.")
            return
        decoded = decode_html(self._archive.read(path))
        self._chapter_folder = posixpath.dirname(path)
        self.warnings += decoded.warnings
        self.walker.outline = Outline()  # a chapter without headings must not stand under those of the last one
        walk_html(decoded.text, self.walker, title=self._titles.get(path, ""))

    def _picture(self, address: str) -> bytes | None:
        path = self._path(self._chapter_folder, address)
        return self._archive.read(path) if path in self._archive else embedded_picture(address)

    def _contents(self) -> dict[str, str]:
        """Title of each page by the table of contents: EPUB 3's nav page, or EPUB 2's NCX."""
        for item in self._items.values():
            path = self._path(self._folder, item.get("href", ""))
            is_nav = "nav" in (item.get("properties") or "").split()
            is_ncx = item.get("media-type") == "application/x-dtbncx+xml"
            if (is_nav or is_ncx) and path in self._archive:
                try:
                    root = parse_xml(self._archive.read(path), doctype=True)
                except ParseError:
                    continue
                found = _nav_titles(root) if is_nav else _ncx_titles(root)
                return {self._path(posixpath.dirname(path), href): title for href, title in reversed(found) if title}
        return {}

    @staticmethod
    def _path(folder: str, address: str) -> str:
        return posixpath.normpath(posixpath.join(folder, unquote(urldefrag(address)[0])))


def _package(archive: Archive) -> tuple[str, Element]:
    """The folder and root of the package document that the container names; without one, of the only package."""
    path = ""
    if CONTAINER in archive:
        root = next(parse_xml(archive.read(CONTAINER), doctype=True).iter("{*}rootfile"), None)
        path = root.get("full-path", "") if root is not None else ""
    if path not in archive:
        path = next((name for name in archive.names if name.lower().endswith(".opf")), "")
    if not path:
        raise ParseError("The file is damaged or incomplete.", code="damaged_file")
    return posixpath.dirname(path), parse_xml(archive.read(path), doctype=True)


def _nav_titles(root: Element) -> list[tuple[str, str]]:
    return [(link.get("href", ""), " ".join("".join(link.itertext()).split())) for link in root.iter("{*}a")]


def _ncx_titles(root: Element) -> list[tuple[str, str]]:
    found = []
    for point in root.iter("{*}navPoint"):
        content = next(point.iter("{*}content"), None)
        label = next(point.iter("{*}text"), None)
        if content is not None and label is not None:
            found.append((content.get("src", ""), " ".join("".join(label.itertext()).split())))
    return found
