"""What all Office Open XML files share: the package, its relations, and which kind of file it is.

Source: ECMA-376 part 2 (Open Packaging Conventions). The ISO strict namespaces are rewritten to the
transitional ones before parsing, so that the walkers know one set of names.
"""

from __future__ import annotations

import io
import posixpath
import re
from pathlib import Path
from typing import IO, NamedTuple, Self
from urllib.parse import unquote

import olefile

from knowledge.ingestion.blocks import ParseContext
from knowledge.ingestion.parsers.archive import Archive
from knowledge.ingestion.parsers.xml import Element, parse_xml, salvage_xml
from portal.kernel.errors import ParseError

OLE_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
ALTERNATE = f"{MC}AlternateContent"
# Bytes of XML read as a tree; it takes some 15 times that in memory, blocks included.
MAX_TREE = 64_000_000
_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/(\w+)")
_PROPERTIES = {
    "title": "title",
    "creator": "author",
    "subject": "subject",
    "keywords": "keywords",
    "description": "description",
    "created": "created",
    "modified": "modified",
    "language": "language",
}


class Relation(NamedTuple):
    """A link from one part to another. `kind` is the last word of its type, `target` a part name or an outside URL."""

    kind: str
    target: str
    external: bool


class Package:
    """An opened Office file whose main part has the root element `root_name`.

    Raises `ParseError`: `empty_file`, `password_protected`, `damaged_file`, `archive_limit`,
    `unsafe_xml`, or `type_mismatch` when it is another kind of file.
    """

    def __init__(self, file: Path | bytes, context: ParseContext, *, root_name: str, usual_main: str) -> None:
        refuse_ole(file)
        self.warnings: list[str] = []
        self._relations: dict[str, dict[str, Relation]] = {}
        self._archive = Archive(file, context)
        try:
            self._names = {name.lower().lstrip("/"): name for name in reversed(self._archive.names)}
            self.main = self._main_part(usual_main)
            root = self.xml(self.main) if self.main else None
            if root is None or local(root) != root_name:
                raise ParseError("The content of this file is not what its name says.", code="type_mismatch")
        except BaseException:
            self._archive.__exit__(None, None, None)
            raise
        self.root: Element = root
        if any(name.endswith("vbaproject.bin") for name in self._names):
            self.warnings.append("macros: The file contains macros; they are never run.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.__exit__(None, None, None)

    def __contains__(self, part: str) -> bool:
        return part.lower() in self._names

    def read(self, part: str) -> bytes | None:
        """The bytes of a part, None if it is missing or (with a warning) damaged."""
        name = self._names.get(part.lower())
        if name is None:
            return None
        try:
            return self._archive.read(name)
        except ParseError as error:
            self.tolerate(error, part)
            return None

    def open(self, part: str) -> IO[bytes] | None:
        """A part as a stream, for those too large to hold; errors come while reading."""
        name = self._names.get(part.lower())
        return self._archive.open(name) if name is not None else None

    def xml(self, part: str) -> Element | None:
        """The root of an XML part. Broken XML is read as far as it goes, with a warning."""
        data = self.read(part)
        if data is None:
            return None
        refuse_huge(data)
        data = transitional(data)
        try:
            return parse_xml(data)
        except ParseError as error:
            self.tolerate(error, part)
            return salvage_xml(data)

    def tolerate(self, error: ParseError, part: str) -> None:
        """Note a damaged part and go on; anything but damage (bombs, entities, passwords) is raised again."""
        if error.code != "damaged_file":
            raise error
        warning = f"malformed_part: The part {part} is damaged; what could be read of it is kept."
        if warning not in self.warnings:
            self.warnings.append(warning)

    def relations(self, part: str) -> dict[str, Relation]:
        """The relations of a part by id; `part` "" is the package itself."""
        known = self._relations.get(part)
        if known is None:
            known = self._relations[part] = self._read_relations(part)
        return known

    def _read_relations(self, part: str) -> dict[str, Relation]:
        folder, name = posixpath.split(part)
        root = self.xml(posixpath.join(folder, "_rels", f"{name}.rels"))
        found: dict[str, Relation] = {}
        for element in root if root is not None else ():
            kind = element.get("Type", "").rpartition("/")[2]
            target, external = element.get("Target", ""), element.get("TargetMode") == "External"
            if not external:
                target = posixpath.normpath(posixpath.join("/", folder, unquote(target.partition("#")[0]))).lstrip("/")
            found[element.get("Id", "")] = Relation(kind, target, external)
        return found

    def related(self, part: str, kind: str) -> list[str]:
        """Names of the parts that `part` is related to by `kind`."""
        return [link.target for link in self.relations(part).values() if link.kind == kind and not link.external]

    def properties(self) -> dict[str, str]:
        """Core properties (title, author, dates, …) that are not blank."""
        found: dict[str, str] = {}
        for part in self.related("", "core-properties") or ["docProps/core.xml"]:
            root = self.xml(part)
            for element in root if root is not None else ():
                key = _PROPERTIES.get(local(element))
                if key and (element.text or "").strip():
                    found[key] = element.text.strip()
        return found

    def _main_part(self, usual: str) -> str:
        for part in self.related("", "officeDocument"):
            if part in self:
                return part
        return usual if usual in self else ""


def refuse_huge(data: bytes) -> None:
    """Raise `ParseError` (`too_large`) for a part whose tree would not fit into a worker's memory."""
    if len(data) > MAX_TREE:
        raise ParseError("The document is too large to be read.", code="too_large")


def transitional(data: bytes) -> bytes:
    """XML with ISO strict namespaces replaced by the transitional ones of the same meaning."""
    if b"http://purl.oclc.org/ooxml/" not in data:
        return data
    return _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/\2", data)


def refuse_ole(file: Path | bytes) -> None:
    """Raise `ParseError` if the file is an OLE container: an encrypted Office file, or an old one."""
    if not is_ole(file):
        return
    if is_encrypted(file):
        raise ParseError("The file is protected by a password; save it without one.", code="password_protected")
    raise ParseError("The content of this file is not what its name says.", code="type_mismatch")


def is_ole(file: Path | bytes) -> bool:
    """Whether the file begins as an OLE container does (`.doc`, `.xls`, encrypted `.docx`)."""
    if isinstance(file, bytes):
        return file.startswith(OLE_MAGIC)
    with file.open("rb") as stream:
        return stream.read(len(OLE_MAGIC)) == OLE_MAGIC


def is_encrypted(file: Path | bytes) -> bool:
    """Whether an OLE container holds an encrypted Office Open XML package."""
    data = file if isinstance(file, bytes) else file.read_bytes()
    try:
        with olefile.OleFileIO(io.BytesIO(data)) as container:
            return bool(container.exists("EncryptedPackage") or container.exists("EncryptionInfo"))
    except (OSError, ValueError, IndexError, TypeError, AttributeError):
        return "EncryptedPackage".encode("utf-16-le") in data


def local(element: Element) -> str:
    """The name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


def on(value: str | None) -> bool:
    """An OOXML on/off attribute whose element is present: absent means on."""
    return value is None or value.lower() not in ("0", "false", "off")


def chosen(alternate: Element) -> Element:
    """The branch of `mc:AlternateContent` that is read: the first choice with anything in it, else the fallback."""
    for branch in alternate.iterchildren(f"{MC}Choice", f"{MC}Fallback"):
        if len(branch):
            return branch
    return alternate.makeelement(f"{MC}Choice")
