"""Tiny PDF files written byte by byte, so that a test shows exactly what it parses.

Fonts on every page: F1 Helvetica, F2 Helvetica-Bold, F3 STSong-Light (Chinese, not embedded), F4 Courier,
F5 a Type 1 font whose ToUnicode map a test may give. Coordinates are PDF page space: points, y up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

A4 = (0, 0, 595, 842)
PIXEL = b"\xc8"


@dataclass(frozen=True)
class Placed:
    """Words in a box (left, bottom, right, top)."""

    words: str
    box: tuple[int, int, int, int] = (72, 600, 272, 620)
    flags: int = 4  # print; 2 hides an annotation


@dataclass
class Page:
    content: str
    rotate: int = 0
    box: tuple[int, int, int, int] = A4
    image: bool = False
    fields: list[Placed] = field(default_factory=list)
    free_text: list[Placed] = field(default_factory=list)
    notes: list[Placed] = field(default_factory=list)


@dataclass(frozen=True)
class Mark:
    """An outline entry: page from 1, `top` in points from the page's top."""

    title: str
    page: int
    top: float = 0.0


def text(x: float, y: float, words: str, size: float = 11, font: str = "F1") -> str:
    """One line of text; Chinese goes through F3."""
    if not words.isascii() and font == "F1":
        font = "F3"
    if font == "F3":
        shown = f"<{words.encode('utf-16-be').hex()}>"
    else:
        shown = "(" + words.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)") + ")"
    return f"BT /{font} {size} Tf {x} {y} Td {shown} Tj ET\n"


def lines(x: float, y: float, rows: Sequence[str], size: float = 11, pitch: float = 14, font: str = "F1") -> str:
    return "".join(text(x, y - i * pitch, row, size, font) for i, row in enumerate(rows))


def line(x0: float, y0: float, x1: float, y1: float) -> str:
    return f"1 w {x0} {y0} m {x1} {y1} l S\n"


def grid(xs: Sequence[float], ys: Sequence[float]) -> str:
    """All lines of a ruled table."""
    return "".join(line(x, min(ys), x, max(ys)) for x in xs) + "".join(line(min(xs), y, max(xs), y) for y in ys)


def pdf(
    pages: Sequence[Page | str],
    outline: Sequence[Mark] = (),
    to_unicode: bytes = b"",
    title: str = "",
    attached: str = "",
) -> bytes:
    """A whole file. `to_unicode` is the map of F5, for instance from `to_unicode_map`; `attached` a file's name."""
    objects: list[bytes] = [b"", b"", b""]  # catalogue, page tree and outline root, filled in at the end
    fonts = _fonts(objects, to_unicode)
    image = _add(
        objects,
        b"<< /Type /XObject /Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray /BitsPerComponent 8 /Length 1 >>"
        b"\nstream\n" + PIXEL + b"\nendstream",
    )
    kids: list[int] = []
    fields: list[int] = []
    for given in pages:
        page = given if isinstance(given, Page) else Page(given)
        drawn = page.content + ("q 500 0 0 700 40 40 cm /Im Do Q\n" if page.image else "")
        body = drawn.encode("latin-1")
        content = _add(objects, b"<< /Length %d >>\nstream\n" % len(body) + body + b"\nendstream")
        filled = [_drawn(objects, "Widget /FT /Tx /T (f)", placed) for placed in page.fields]
        fields.extend(filled)
        notes = [*filled, *(_drawn(objects, "FreeText", placed) for placed in page.free_text)]
        notes += [_add(objects, _annotation("Text", placed, "").encode("latin-1")) for placed in page.notes]
        box = " ".join(map(str, page.box))
        references = " ".join(f"{note} 0 R" for note in notes)
        kids.append(
            _add(
                objects,
                (
                    f"<< /Type /Page /Parent 2 0 R /MediaBox [{box}] /Rotate {page.rotate} /Contents {content} 0 R "
                    f"/Resources << /Font << {fonts} >> /XObject << /Im {image} 0 R >> >> /Annots [{references}] >>"
                ).encode(),
            )
        )
    marks = _outline(objects, outline, kids, pages)
    form = f"/AcroForm << /Fields [{' '.join(f'{n} 0 R' for n in fields)}] >>" if fields else ""
    names = _attachment(objects, attached) if attached else ""
    objects[0] = f"<< /Type /Catalog /Pages 2 0 R {marks} {form} {names} >>".encode()
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(f'{k} 0 R' for k in kids)}] /Count {len(kids)} >>".encode()
    return _file(objects, _add(objects, f"<< /Title <{_hex(title)}> >>".encode()) if title else 0)


def _attachment(objects: list[bytes], name: str) -> str:
    stream = _add(objects, b"<< /Type /EmbeddedFile /Length 5 >>\nstream\nhello\nendstream")
    held = _add(objects, f"<< /Type /Filespec /UF <{_hex(name)}> /EF << /F {stream} 0 R >> >>".encode())
    return f"/Names << /EmbeddedFiles << /Names [(a) {held} 0 R] >> >>"


def to_unicode_map(pairs: dict[int, str]) -> bytes:
    """A ToUnicode CMap for F5: code → UTF-16 code units as hexadecimal digits."""
    rows = "\n".join(f"<{code:02x}> <{target}>" for code, target in pairs.items())
    return (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def /CMapType 2 def\n"
        "1 begincodespacerange <00> <ff> endcodespacerange\n"
        f"{len(pairs)} beginbfchar\n{rows}\nendbfchar endcmap end end"
    ).encode()


def _annotation(kind: str, placed: Placed, extra: str) -> str:
    box = " ".join(map(str, placed.box))
    words = f"/Contents ({placed.words}) /V ({placed.words})"
    return f"<< /Type /Annot /Subtype /{kind} {words} /Rect [{box}] /F {placed.flags} {extra} >>"


def _drawn(objects: list[bytes], kind: str, placed: Placed) -> int:
    """An annotation with an appearance stream that shows its words."""
    left, bottom, right, top = placed.box
    body = f"BT /Helv 11 Tf 2 4 Td ({placed.words}) Tj ET"
    font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    form = f"<< /Type /XObject /Subtype /Form /BBox [0 0 {right - left} {top - bottom}]"
    look = f"{form} /Resources << /Font << /Helv {font} >> >> /Length {len(body)} >>\nstream\n{body}\nendstream"
    number = _add(objects, look.encode("latin-1"))
    return _add(objects, _annotation(kind, placed, f"/AP << /N {number} 0 R >>").encode("latin-1"))


def _fonts(objects: list[bytes], to_unicode: bytes) -> str:
    numbers = [
        _add(objects, f"<< /Type /Font /Subtype /Type1 /BaseFont /{name} >>".encode())
        for name in ("Helvetica", "Helvetica-Bold")
    ]
    descendant = _add(
        objects,
        b"<< /Type /Font /Subtype /CIDFontType0 /BaseFont /STSong-Light /DW 1000 "
        b"/CIDSystemInfo << /Registry (Adobe) /Ordering (GB1) /Supplement 4 >> >>",
    )
    chinese = "<< /Type /Font /Subtype /Type0 /BaseFont /STSong-Light /Encoding /UniGB-UCS2-H "
    numbers.append(_add(objects, f"{chinese}/DescendantFonts [{descendant} 0 R] >>".encode()))
    numbers.append(_add(objects, b"<< /Type /Font /Subtype /Type1 /BaseFont /Courier >>"))
    mapping = ""
    if to_unicode:
        stream = _add(objects, b"<< /Length %d >>\nstream\n" % len(to_unicode) + to_unicode + b"\nendstream")
        mapping = f"/ToUnicode {stream} 0 R"
    numbers.append(_add(objects, f"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica {mapping} >>".encode()))
    return " ".join(f"/F{i} {number} 0 R" for i, number in enumerate(numbers, start=1))


def _outline(objects: list[bytes], outline: Sequence[Mark], kids: Sequence[int], pages: Sequence[Page | str]) -> str:
    if not outline:
        return ""
    first = len(objects) + 1
    for i, mark in enumerate(outline):
        page = pages[mark.page - 1]
        height = page.box[3] if isinstance(page, Page) else A4[3]
        title = _hex(mark.title)
        ahead = f"/Next {first + i + 1} 0 R" if i + 1 < len(outline) else ""
        behind = f"/Prev {first + i - 1} 0 R" if i else ""
        target = f"/Dest [{kids[mark.page - 1]} 0 R /XYZ 0 {height - mark.top} 0]"
        _add(objects, f"<< /Title <{title}> /Parent 3 0 R {target} {ahead} {behind} >>".encode())
    last = first + len(outline) - 1
    objects[2] = f"<< /Type /Outlines /First {first} 0 R /Last {last} 0 R /Count {len(outline)} >>".encode()
    return "/Outlines 3 0 R"


def _add(objects: list[bytes], body: bytes) -> int:
    objects.append(body)
    return len(objects)


def _hex(words: str) -> str:
    return (b"\xfe\xff" + words.encode("utf-16-be", "surrogatepass")).hex()


def _file(objects: Sequence[bytes], info: int) -> bytes:
    out = bytearray(b"%PDF-1.7\n")
    offsets: list[int] = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n" % number + (body or b"null") + b"\nendobj\n"
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    more = b"/Info %d 0 R " % info if info else b""
    out += b"trailer\n<< /Size %d /Root 1 0 R %s>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, more, start)
    return bytes(out)
