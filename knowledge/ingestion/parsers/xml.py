"""Reading XML that nobody vouches for: no entities, no DTD, no network, no XInclude, bounded depth.

libxml2 itself bounds depth (256 elements) and text nodes (10 MB) as long as `huge_tree` stays off.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any, Protocol

from lxml import etree

from knowledge.ingestion.parsers.characters import storable
from portal.kernel.errors import ParseError

Element = Any  # lxml ships no types


class Readable(Protocol):
    """What a streaming reader needs of its source."""

    def read(self, size: int = -1, /) -> bytes: ...


_ENTITY = re.compile(rb"<\x00?!\x00?E\x00?N\x00?T\x00?I\x00?T\x00?Y")
_DOCTYPE = re.compile(rb"<\x00?!\x00?D\x00?O\x00?C\x00?T\x00?Y\x00?P\x00?E")
_BAD_REFERENCE = re.compile(r"&#(?:x([0-9a-fA-F]{1,8})|([0-9]{1,10}));")
_BAD_CHARACTER = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_OPTIONS: dict[str, bool] = {
    "resolve_entities": False,
    "no_network": True,
    "load_dtd": False,
    "dtd_validation": False,
    "huge_tree": False,
    "remove_comments": True,
    "remove_pis": True,
}


def xml_parser(*, recover: bool = False) -> Any:
    """A fresh lxml parser with every dangerous feature off."""
    return etree.XMLParser(recover=recover, **_OPTIONS)


def parse_xml(data: bytes, *, doctype: bool = False) -> Element:
    """The root element of an XML document.

    Characters that XML forbids (NUL, lone surrogates) are taken out first when they stop the parser.
    `doctype=True` lets a DOCTYPE without entities pass (XHTML has one; Office files never do).
    Raises `ParseError`: `unsafe_xml` (entities, a DTD, too deep), `damaged_file` (not well formed).
    """
    refuse_dtd(data, doctype=doctype)
    try:
        root = etree.fromstring(data, xml_parser())
    except etree.XMLSyntaxError as error:
        _refuse_depth(error)
        root = _parse_cleaned(data)
    if root is None:
        raise ParseError("The file is damaged or incomplete.", code="damaged_file")
    return root


def salvage_xml(data: bytes) -> Element | None:
    """The root element of XML that is broken, as far as it can be read; None if nothing can be."""
    refuse_dtd(data)
    try:
        return etree.fromstring(data, xml_parser(recover=True))
    except etree.XMLSyntaxError:
        return None


def iterate_xml(stream: Readable, tags: tuple[str, ...]) -> Iterator[Element]:
    """The elements named `tags` (`{*}local` matches any namespace), each complete, in document order.

    The caller clears what it has used. Raises `ParseError` as `parse_xml` does.
    """
    guarded = _Guarded(stream)
    options = {**_OPTIONS, "events": ("end",), "tag": tags}
    try:
        for _, element in etree.iterparse(guarded, **options):
            yield element
    except etree.XMLSyntaxError as error:
        _refuse_depth(error)
        raise ParseError("The file is damaged or incomplete.", code="damaged_file") from error


def refuse_dtd(data: bytes, *, doctype: bool = False) -> None:
    """Raise `ParseError` (`unsafe_xml`) if the document declares entities, or any DTD unless allowed."""
    if _ENTITY.search(data) or (not doctype and _DOCTYPE.search(data)):
        raise ParseError("The file declares XML entities, which is not safe to read.", code="unsafe_xml")


def integer(text: str | None, default: int = 0) -> int:
    """An attribute as a whole number, `default` if it is none."""
    try:
        return int(text) if text else default
    except ValueError:
        return default


class _Guarded(io.RawIOBase):
    """Passes bytes on and refuses a DTD, which can stand only before the first element."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        self._tail = b""
        self._seen = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        if self._seen < 4_000_000:
            # The prologue is short in real files; behind 4 MB of it only an attacker would hide a DTD,
            # and libxml2's own limit on entity amplification still holds there.
            refuse_dtd(self._tail + data)
            self._tail = data[-32:]
            self._seen += len(data)
        return data


def _parse_cleaned(data: bytes) -> Element:
    text = _decoded(data)
    cleaned = _BAD_REFERENCE.sub(_kept_reference, _BAD_CHARACTER.sub(lambda found: storable(found[0]), text))
    cleaned = re.sub(r"^\s*<\?xml[^>]*\?>", "", cleaned, count=1)
    try:
        return etree.fromstring(cleaned.encode("utf-8"), xml_parser())
    except etree.XMLSyntaxError as error:
        _refuse_depth(error)
        raise ParseError("The file is damaged or incomplete.", code="damaged_file") from error


def _decoded(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8-sig", "replace")


def _kept_reference(found: re.Match[str]) -> str:
    number = int(found[1], 16) if found[1] else int(found[2])
    if number > 0x10FFFF or _BAD_CHARACTER.match(chr(number)):
        return storable(chr(number)) if number <= 0x10FFFF else "\ufffd"
    return found[0]


def _refuse_depth(error: etree.XMLSyntaxError) -> None:
    if "depth" in str(error) or "amplification" in str(error):
        raise ParseError("The file is nested too deep to be read safely.", code="unsafe_xml") from error
