"""OpenDocument texts: headings with their numbers, lists, tables, notes, comments, frames, pictures in place.

Deleted text of tracked changes and the generated table of contents are left out.
Source: OASIS OpenDocument 1.3 parts 2 and 3.
"""

from __future__ import annotations

from knowledge.ingestion.blocks import Block, ParseContext, ParsedDocument, Source, assemble
from knowledge.ingestion.parsers.archive import Archive
from knowledge.ingestion.parsers.drawing import NO_ALT
from knowledge.ingestion.parsers.images import Pictures
from knowledge.ingestion.parsers.odt_body import OFFICE, OdtBody
from knowledge.ingestion.parsers.odt_numbers import STYLE, Labels
from knowledge.ingestion.parsers.ooxml import local, refuse_huge, refuse_ole
from knowledge.ingestion.parsers.xml import Element, parse_xml, salvage_xml
from portal.kernel.errors import ParseError

MIME = "application/vnd.oasis.opendocument.text"
_PROPERTIES = {"title": "title", "creator": "author", "initial-creator": "author", "subject": "subject"}
_PROPERTIES |= {"keyword": "keywords", "description": "description", "creation-date": "created", "date": "modified"}


def parse(source: Source, context: ParseContext) -> ParsedDocument:
    """An OpenDocument text as blocks.

    Raises `ParseError`: `empty_file`, `password_protected`, `type_mismatch`, `damaged_file`,
    `archive_limit`, `unsafe_xml`, `too_large`, `no_text`.
    """
    refuse_ole(source.path)
    with Archive(source.path, context) as archive:
        return _parsed(archive, context)


def _parsed(archive: Archive, context: ParseContext) -> ParsedDocument:
    kind = archive.read("mimetype", at_most=100) if "mimetype" in archive else b""
    if "content.xml" not in archive or (kind and not kind.strip().startswith(MIME.encode())):
        raise ParseError("The content of this file is not what its name says.", code="type_mismatch")
    if "META-INF/manifest.xml" in archive and b"encryption-data" in archive.read("META-INF/manifest.xml"):
        raise ParseError("The file is protected by a password; save it without one.", code="password_protected")
    warnings: list[str] = []
    root = _xml(archive, "content.xml", warnings)
    text = root.find(f"{OFFICE}body/{OFFICE}text") if root is not None else None
    if text is None:
        raise ParseError("The content of this file is not what its name says.", code="type_mismatch")
    styles = _xml(archive, "styles.xml", warnings)
    pictures = Pictures(context)
    body = OdtBody(Labels(styles, root), archive, pictures)
    blocks = body.blocks(text)
    blocks.extend(_margins(styles, body))
    if not (context.ocr and pictures.images) and all(block.text.strip() in ("", NO_ALT) for block in blocks):
        raise ParseError("No text was found in this file.", code="no_text")
    if sum(len(block.text) for block in blocks) > context.max_text:
        raise ParseError("The document holds more text than can be read.", code="too_large")
    if body.left_out_contents:
        warnings.append("table_of_contents: The table of contents was left out; its headings stand in the text.")
    properties = _properties(_xml(archive, "meta.xml", warnings))
    context.progress(1, 1)
    return assemble(
        MIME,
        blocks,
        warnings=[*warnings, *pictures.warnings],
        images=pictures.images,
        title=properties.get("title") or next((block.text for block in blocks if block.kind == "heading"), ""),
        metadata=properties,
    )


def _xml(archive: Archive, name: str, warnings: list[str]) -> Element | None:
    if name not in archive:
        return None
    data = archive.read(name)
    refuse_huge(data)
    try:
        return parse_xml(data)
    except ParseError as error:
        if error.code != "damaged_file":
            raise
        warnings.append(f"malformed_part: The part {name} is damaged; what could be read of it is kept.")
        return salvage_xml(data)


def _margins(styles: Element | None, body: OdtBody) -> list[Block]:
    """Running heads and feet, each text once."""
    names = ("header", "header-left", "header-first", "footer", "footer-left", "footer-first")
    found: dict[str, None] = {}
    for name in names:
        for element in styles.iter(f"{STYLE}{name}") if styles is not None else ():
            found[body.inline(element)] = None
    return [Block(kind="note", text=text) for text in found if any(sign.isalpha() for sign in text)]


def _properties(root: Element | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for element in root.iter() if root is not None else ():
        key = _PROPERTIES.get(local(element)) if isinstance(element.tag, str) else None
        if key and (element.text or "").strip():
            found.setdefault(key, element.text.strip())
    return found
