"""EPUB."""

from __future__ import annotations

import io
import zipfile

import pytest

from portal.kernel.errors import ParseError
from tests.knowledge.ingestion.parsing import codes, parse, shapes

CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OPS/book.opf"/></rootfiles></container>'
)
NCX = (
    '<!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" "http://www.daisy.org/z3986/2005/ncx-2005-1.dtd">'
    '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap><navPoint><navLabel><text>第二章</text></navLabel>'
    '<content src="text/b%20.xhtml#x"/></navPoint></navMap></ncx>'
)
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000010000000100802000000909168360000001649444154789c63601805a360148c8251300a"
)


def book(chapters: dict[str, str], spine: list[str]) -> bytes:
    items = "".join(
        f'<item id="{name[0]}" href="text/{name.replace(" ", "%20")}" media-type="application/xhtml+xml"/>'
        for name in chapters
    )
    refs = "".join(f'<itemref idref="{name}"/>' for name in spine)
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
        f"<dc:title>手册</dc:title><dc:creator>王芳</dc:creator></metadata><manifest>{items}"
        f'<item id="n" href="toc.ncx" media-type="application/x-dtbncx+xml"/></manifest><spine>{refs}</spine></package>'
    )
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr("META-INF/container.xml", CONTAINER)
        archive.writestr("OPS/book.opf", package)
        archive.writestr("OPS/toc.ncx", NCX)
        archive.writestr("OPS/images/map.png", PIXEL)
        for name, text in chapters.items():
            archive.writestr(f"OPS/text/{name}", text)
    return data.getvalue()


def test_chapters_follow_the_spine_and_take_titles_from_the_contents() -> None:
    data = book(
        {
            "b .xhtml": "<html><head><title>x</title></head><body><p>second</p></body></html>",
            "a.xhtml": '<html><body><h1>第一章</h1><p>first</p><img src="../images/map.png" alt="地图"/></body></html>',
        },
        ["a", "b"],
    )
    document = parse(data, "epub")
    assert shapes(document) == [
        ("heading", "第一章"),
        ("paragraph", "first"),
        ("image", "地图"),
        ("heading", "第二章"),
        ("paragraph", "second"),
    ]
    assert document.blocks[-1].heading_path == ("第二章",)
    assert (document.title, document.metadata["creator"]) == ("手册", "王芳")
    assert document.images[0].data == PIXEL


def test_missing_chapter_is_reported_and_the_others_are_read() -> None:
    data = book({"a.xhtml": "<p>first</p>"}, ["a"])
    broken = data.replace(b"OPS/text/a.xhtml", b"OPS/text/z.xhtml")
    assert codes(parse(broken, "epub")) == ["missing_chapter"]


def test_zip_without_a_container_is_damaged() -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip")
    with pytest.raises(ParseError) as caught:
        parse(data.getvalue(), "epub")
    assert caught.value.code == "damaged_file"


def test_a_book_whose_container_is_lost_is_read_by_its_package() -> None:
    data = book({"a.xhtml": "<p>first</p>"}, ["a"]).replace(b"META-INF/container.xml", b"META-INF/container.old")
    assert parse(data, "epub").text == "first"
