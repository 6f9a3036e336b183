"""Tiny Office files for tests, written by hand so that each test shows the XML it is about."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from struct import pack

from knowledge.ingestion.blocks import Block, ParseContext, ParsedDocument, Parser, Source

RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
SLIDE = "http://schemas.openxmlformats.org/presentationml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
_NAMES = (
    f'xmlns:w="{WORD}" xmlns:r="{RELATIONS}" xmlns:a="{DRAWING}" xmlns:p="{SLIDE}"'
    ' xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"'
    ' xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape"'
    ' xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture"'
    ' xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart"'
    ' xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram"'
    ' xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
    ' xmlns:v="urn:schemas-microsoft-com:vml"'
    ' xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
)
Part = str | bytes
Link = tuple[str, str, str]  # id, kind (last word of the type), target


def zip_of(parts: Mapping[str, Part]) -> bytes:
    """A zip file of these parts."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return stream.getvalue()


def links(*found: Link) -> str:
    """A relations part."""
    rows = "".join(f'<Relationship Id="{i}" Type="{RELATIONS}/{kind}" Target="{to}"/>' for i, kind, to in found)
    return f'<Relationships xmlns="{PACKAGE}">{rows}</Relationships>'


def root(name: str, content: str) -> str:
    """An XML part with every namespace the tests use."""
    return f"<{name} {_NAMES}>{content}</{name}>"


def word_file(body: str, parts: Mapping[str, Part] | None = None, **described: str) -> bytes:
    """A Word file. `described` are parts by kind (`styles`, `numbering`, `footnotes`, …): their inner XML."""
    kinds = [(f"k{kind}", kind, f"{kind}.xml") for kind in described]
    roots = {"header1": "hdr", "footer1": "ftr"}
    everything: dict[str, Part] = {
        "_rels/.rels": links(("r1", "officeDocument", "word/document.xml")),
        "word/_rels/document.xml.rels": links(*kinds),
        "word/document.xml": root("w:document", f"<w:body>{body}</w:body>"),
    }
    for kind, content in described.items():
        everything[f"word/{kind}.xml"] = root(f"w:{roots.get(kind, kind)}", content)
    return zip_of({**everything, **(parts or {})})


def paragraph(text: str, properties: str = "") -> str:
    """A Word paragraph with one run."""
    before = f"<w:pPr>{properties}</w:pPr>" if properties else ""
    return f'<w:p>{before}<w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'


def style(identifier: str, name: str, more: str = "") -> str:
    """A paragraph style."""
    return f'<w:style w:type="paragraph" w:styleId="{identifier}"><w:name w:val="{name}"/>{more}</w:style>'


def row(*cells: str) -> str:
    """A Word table row; a cell is its text, or a whole `<w:tc>`."""
    return "<w:tr>" + "".join(c if c.startswith("<w:tc>") else cell(c) for c in cells) + "</w:tr>"


def cell(text: str, properties: str = "") -> str:
    """A Word table cell; `text` may be block XML."""
    inner = text if text.startswith("<w:") else paragraph(text)
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{inner}</w:tc>"


def table(*rows: str) -> str:
    """A Word table."""
    return "<w:tbl>" + "".join(rows) + "</w:tbl>"


def workbook(
    sheets: Mapping[str, str],
    *,
    strings: Sequence[str] = (),
    styles: str = "",
    states: Mapping[str, str] | None = None,
    settings: str = "",
    namespace: str = SHEET,
    parts: Mapping[str, Part] | None = None,
) -> bytes:
    """A workbook. Each sheet is its rows' XML, or a whole `<worksheet>`; `strings` are inner XML of `<si>`."""
    listed = "".join(
        f'<sheet name="{name}" sheetId="{n}" r:id="s{n}" state="{(states or {}).get(name, "visible")}"/>'
        for n, name in enumerate(sheets, start=1)
    )
    relations = [(f"s{n}", "worksheet", f"worksheets/sheet{n}.xml") for n in range(1, len(sheets) + 1)]
    everything: dict[str, Part] = {
        "_rels/.rels": links(("r1", "officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": f'<workbook xmlns="{namespace}" xmlns:r="{RELATIONS}">{settings}'
        f"<sheets>{listed}</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": links(
            *relations, ("rs", "sharedStrings", "sharedStrings.xml"), ("rt", "styles", "styles.xml")
        ),
        "xl/sharedStrings.xml": f'<sst xmlns="{namespace}">{"".join(f"<si>{text}</si>" for text in strings)}</sst>',
        "xl/styles.xml": f'<styleSheet xmlns="{namespace}">{styles}</styleSheet>',
    }
    for number, content in enumerate(sheets.values(), start=1):
        whole = content if "worksheet xmlns" in content[:20] else worksheet(content, namespace)
        everything[f"xl/worksheets/sheet{number}.xml"] = whole
    return zip_of({**everything, **(parts or {})})


def worksheet(rows: str, namespace: str = SHEET, after: str = "") -> str:
    """A worksheet part."""
    return f'<worksheet xmlns="{namespace}"><sheetData>{rows}</sheetData>{after}</worksheet>'


def cell_styles(*codes: str) -> str:
    """Styles 1, 2, … with these number formats; style 0 is General."""
    formats = "".join(f'<numFmt numFmtId="{164 + n}" formatCode="{code}"/>' for n, code in enumerate(codes))
    xfs = "".join(f'<xf numFmtId="{164 + n}"/>' for n in range(len(codes)))
    return f'<numFmts>{formats}</numFmts><cellXfs><xf numFmtId="0"/>{xfs}</cellXfs>'


def text_rows(rows: Sequence[Sequence[str]], first_row: int = 1, first_column: str = "A") -> str:
    """Rows of inline strings; "" leaves the cell out."""
    found = []
    for number, cells in enumerate(rows, start=first_row):
        inner = "".join(
            f'<c r="{chr(ord(first_column) + n)}{number}" t="inlineStr"><is><t>{text}</t></is></c>'
            for n, text in enumerate(cells)
            if text
        )
        found.append(f'<row r="{number}">{inner}</row>')
    return "".join(found)


def deck(
    slides: Sequence[str],
    parts: Mapping[str, Part] | None = None,
    slide_links: Mapping[int, Sequence[Link]] | None = None,
    attributes: Mapping[int, str] | None = None,
) -> bytes:
    """A slide deck; each slide is the XML of its shapes. `slide_links` and `attributes` by slide number."""
    numbers = range(1, len(slides) + 1)
    everything: dict[str, Part] = {
        "_rels/.rels": links(("r1", "officeDocument", "ppt/presentation.xml")),
        "ppt/presentation.xml": root(
            "p:presentation",
            "<p:sldIdLst>" + "".join(f'<p:sldId id="{255 + n}" r:id="r{n}"/>' for n in numbers) + "</p:sldIdLst>",
        ),
        "ppt/_rels/presentation.xml.rels": links(*((f"r{n}", "slide", f"slides/slide{n}.xml") for n in numbers)),
    }
    for number, shapes in enumerate(slides, start=1):
        extra = (attributes or {}).get(number, "")
        content = f"<p:cSld><p:spTree>{shapes}</p:spTree></p:cSld>"
        everything[f"ppt/slides/slide{number}.xml"] = root("p:sld", content).replace(">", f" {extra}>", 1)
        everything[f"ppt/slides/_rels/slide{number}.xml.rels"] = links(*(slide_links or {}).get(number, ()))
    return zip_of({**everything, **(parts or {})})


def shape(*lines: str, kind: str = "", properties: str = "") -> str:
    """A slide shape; `kind` is a placeholder type."""
    mark = f'<p:nvPr><p:ph type="{kind}"/></p:nvPr>' if kind else "<p:nvPr/>"
    body = "".join(f"<a:p>{properties}<a:r><a:t>{line}</a:t></a:r></a:p>" for line in lines)
    return f"<p:sp><p:nvSpPr>{mark}</p:nvSpPr><p:txBody>{body}</p:txBody></p:sp>"


def odt_file(body: str, parts: Mapping[str, Part] | None = None) -> bytes:
    """An OpenDocument text; `body` is the inner XML of `office:text`."""
    oasis = "urn:oasis:names:tc:opendocument:xmlns"
    names = " ".join(f'xmlns:{n}="{oasis}:{n}:1.0"' for n in ("office", "text", "table", "style"))
    names += f' xmlns:draw="{oasis}:drawing:1.0" xmlns:svg="{oasis}:svg-compatible:1.0"'
    names += ' xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:dc="http://purl.org/dc/elements/1.1/"'
    before, _, inner = body.rpartition("<!--body-->")
    content = f"<office:document-content {names}>{before}<office:body><office:text>{inner}</office:text></office:body>"
    everything: dict[str, Part] = {
        "mimetype": "application/vnd.oasis.opendocument.text",
        "content.xml": f"{content}</office:document-content>",
    }
    return zip_of({**everything, **(parts or {})})


def png(width: int = 16, height: int = 16) -> bytes:
    """A grey PNG of that size; its header is true, its data only if it is small."""
    rows = (b"\0" + b"\x80" * width) * height if width * height < 10_000 else b""
    chunks = [(b"IHDR", pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    packed = b"".join(pack(">I", len(d)) + k + d + pack(">I", zlib.crc32(k + d)) for k, d in chunks)
    return b"\x89PNG\r\n\x1a\n" + packed


def parsed(parse: Parser, folder: Path, data: bytes, context: ParseContext | None = None) -> ParsedDocument:
    """What a parser makes of these bytes."""
    path = folder / "upload"
    path.write_bytes(data)
    return parse(Source(path=path, name="upload", mime=""), context or ParseContext())


def kinds_and_texts(blocks: Sequence[Block]) -> list[tuple[str, str]]:
    """(kind, text) of each block."""
    return [(block.kind, block.text) for block in blocks]
