"""One small document of each kind, parsed when the fork server starts.

The first document of a kind costs a process up to 50 ms more than the second (modules imported at
first use, expressions compiled, PDFium's fonts). Children are forked from a process that has paid.
"""

from __future__ import annotations

import contextlib
import io
import zipfile
from collections import deque
from pathlib import Path

from knowledge.ingestion.blocks import ParseContext, Source
from knowledge.ingestion.frames import document_frames
from knowledge.ingestion.parsers import FILE_TYPES, parser_for
from portal.kernel.errors import ParseError

_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
_P = f'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" {_A}'
_R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_TYPES = '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>'
_PAGE = "<html><body><h1>Title</h1><p>Text</p><ul><li>One</li></ul><table><tr><th>a</th></tr></table></body></html>"


def warm(folder: Path) -> None:
    """Parse all samples; `folder` takes a temporary file. A sample that fails only warms less."""
    for row in FILE_TYPES:
        data = _SAMPLES.get(row.module.rpartition(".")[2])
        if data is not None:
            _parse(data, row.mime, folder)


def touch(folder: Path) -> None:
    """In a fresh fork, while it waits: touch the memory that parsing writes to, so that it is ours by then.

    Every page that a fork writes to for the first time is copied; a PDF's worth of that took 5 ms of
    each file's time (measured on 40 files: 31 ms a file without, 26 ms with, 25 ms without any fork).
    """
    _parse(_SAMPLES["pdf"], "application/pdf", folder)


def _parse(data: bytes, mime: str, folder: Path) -> None:
    path = folder / "sample"
    path.write_bytes(data)
    with contextlib.suppress(ParseError, ImportError):
        document = parser_for(mime)(Source(path, "sample", mime), ParseContext())
        deque(document_frames(document), maxlen=0)
    path.unlink(missing_ok=True)


def _package(main: str, parts: dict[str, str], related: dict[str, str]) -> bytes:
    """An Office package: its main part, the other parts, and what the main part points at (type: target)."""
    folder, _, name = main.partition("/")
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as package:
        package.writestr("[Content_Types].xml", _TYPES)
        package.writestr("_rels/.rels", _relations({"officeDocument": main}))
        package.writestr(f"{folder}/_rels/{name}.rels", _relations(related))
        for path, text in parts.items():
            package.writestr(path, text)
    return data.getvalue()


def _relations(related: dict[str, str]) -> str:
    rows = "".join(
        f'<Relationship Id="r{index}" Type="{_R}/{kind}" Target="{target}"/>'
        for index, (kind, target) in enumerate(related.items())
    )
    return f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{rows}</Relationships>'


def _pdf() -> bytes:
    """Two lines of text, a ruled table of four cells."""
    lines = "".join(
        f"BT /F1 {size} Tf 72 {y} Td (Sample text number {y}) Tj ET\n" for size, y in ((18, 720), (11, 690))
    )
    cells = "".join(f"BT /F1 11 Tf {x} {y} Td (cell) Tj ET\n" for x in (80, 180) for y in (605, 585))
    rules = "".join(f"72 {y} m 272 {y} l S\n" for y in (580, 600, 620)) + "".join(
        f"{x} 580 m {x} 620 l S\n" for x in (72, 172, 272)
    )
    content = (lines + cells + rules).encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<</Font<</F1 5 0 R>>>>/Contents 4 0 R>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(content), content),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    data, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    return (
        data + head + table + b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, len(data))
    )


_WORD = f"<w:document {_W}><w:body><w:p><w:r><w:t>Text</w:t></w:r></w:p><w:sectPr/></w:body></w:document>"
_BOOK = f'<workbook {_S} xmlns:r="{_R}"><sheets><sheet name="S" sheetId="1" r:id="r0"/></sheets></workbook>'
_SHEET = f'<worksheet {_S}><sheetData><row r="1"><c r="A1"><v>1</v></c></row></sheetData></worksheet>'
_DECK = f'<p:presentation {_P} xmlns:r="{_R}"><p:sldIdLst><p:sldId id="256" r:id="r0"/></p:sldIdLst></p:presentation>'
_SLIDE = (
    f"<p:sld {_P}><p:cSld><p:spTree><p:sp><p:txBody><a:p><a:r><a:t>Text</a:t></a:r></a:p></p:txBody></p:sp>"
    "</p:spTree></p:cSld></p:sld>"
)
_SAMPLES: dict[str, bytes] = {
    "pdf": _pdf(),
    "docx": _package("word/document.xml", {"word/document.xml": _WORD}, {}),
    "xlsx": _package(
        "xl/workbook.xml",
        {"xl/workbook.xml": _BOOK, "xl/worksheets/sheet1.xml": _SHEET},
        {"worksheet": "worksheets/sheet1.xml"},
    ),
    "pptx": _package(
        "ppt/presentation.xml",
        {"ppt/presentation.xml": _DECK, "ppt/slides/slide1.xml": _SLIDE},
        {"slide": "slides/slide1.xml"},
    ),
    "html": _PAGE.encode(),
    "markdown": b"# Title\n\ntext *text*\n\n- item\n\n| a |\n|---|\n| b |\n",
    "text": "样例 sample".encode("gb18030") * 30,
    "delimited": b"a,b\n1,2\n",
    "json_document": b'[{"a": 1}, {"a": 2}]',
    "rtf": b"{\\rtf1 text\\par}",
    "message": b"Subject: sample\nFrom: a@example.com\n\ntext\n",
}
