"""Draws a source as a PDF with bookmarks, in the Chinese font that every PDF reader knows by name."""

from __future__ import annotations

import io
from typing import Any
from xml.sax.saxutils import escape

from reportlab.lib.colors import HexColor
from reportlab.lib.enums import TA_CENTER, TA_JUSTIFY
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import cm
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfbase.pdfmetrics import registerFont
from reportlab.platypus import Flowable, ListFlowable, PageBreak, SimpleDocTemplate, Spacer
from reportlab.platypus import Paragraph as Text
from reportlab.platypus import Table as Grid

from sample.markup import Heading, Items, Part, Source, Table

FONT = "STSong-Light"
TEAL, GREY, LINE = HexColor("#0B6477"), HexColor("#566273"), HexColor("#B7C2CE")
_CELL_PADDING = [("TOPPADDING", (0, 0), (-1, -1), 4), ("BOTTOMPADDING", (0, 0), (-1, -1), 5)]


def _style(name: str, size: float, leading: float, **extra: Any) -> ParagraphStyle:
    return ParagraphStyle(name, fontName=FONT, fontSize=size, leading=leading, wordWrap="CJK", **extra)


BODY = _style("body", 11, 19, spaceAfter=7, alignment=TA_JUSTIFY)
STYLES = {
    "cover": _style("cover", 30, 42, textColor=TEAL, alignment=TA_CENTER),
    "subtitle": _style("subtitle", 15, 24, textColor=GREY, alignment=TA_CENTER),
    "facts": _style("facts", 11, 20, textColor=GREY, alignment=TA_CENTER),
    "h1": _style("h1", 18, 26, textColor=TEAL, spaceBefore=16, spaceAfter=8, keepWithNext=1),
    "h2": _style("h2", 13.5, 20, textColor=TEAL, spaceBefore=9, spaceAfter=5, keepWithNext=1),
    "note": _style("note", 11, 18, backColor=HexColor("#FDF1DC"), borderPadding=6, spaceBefore=8, spaceAfter=14),
    "item": _style("item", 11, 18),
    "cell": _style("cell", 10, 14),
    "head": _style("head", 10, 14, textColor=HexColor("#FFFFFF")),
}


class _Bookmarked(Text):  # type: ignore[misc]  # reportlab carries no types
    """A heading that also stands in the reader's outline."""

    def __init__(self, heading: Heading, key: str) -> None:
        self.title = f"{heading.number} {heading.text}".strip()
        super().__init__(escape(self.title), STYLES[f"h{heading.level}"])
        self.key, self.level = key, heading.level - 1

    def draw(self) -> None:
        self.canv.bookmarkPage(self.key)
        self.canv.addOutlineEntry(self.title, self.key, self.level, closed=False)
        super().draw()


def render_pdf(source: Source, lang: str) -> bytes:
    """The bytes of the .pdf. Without a cover page where the document is `short: yes`."""
    registerFont(UnicodeCIDFont(FONT))
    target = io.BytesIO()
    # Uncompressed pages: the bytes then depend on no zlib version; invariant: fixed dates and ids.
    document = SimpleDocTemplate(
        target,
        pagesize=A4,
        leftMargin=2.6 * cm,
        rightMargin=2.6 * cm,
        topMargin=2.4 * cm,
        bottomMargin=2.2 * cm,
        title=source.meta["title"],
        author=source.meta["company"],
        subject=source.meta["subtitle"],
        lang=lang,
        invariant=1,
        pageCompression=0,
    )

    def furniture(canvas: Any, _: Any) -> None:
        canvas.setFont(FONT, 9)
        canvas.setFillColor(GREY)
        canvas.drawString(2.6 * cm, A4[1] - 1.5 * cm, source.meta["company"])
        canvas.drawRightString(A4[0] - 2.6 * cm, A4[1] - 1.5 * cm, f"{source.meta['number']} {source.meta['version']}")
        canvas.drawCentredString(A4[0] / 2, 1.2 * cm, f"第 {canvas.getPageNumber()} 页")

    story = _title(source)
    for index, part in enumerate(source.parts):
        story.extend(_flowables(part, f"s{index}", document.width))
    document.build(story, onFirstPage=furniture, onLaterPages=furniture)
    return target.getvalue()


def _title(source: Source) -> list[Flowable]:
    meta = source.meta
    short = meta.get("short") == "yes"
    facts = [Text(escape(meta[key]), STYLES["facts"]) for key in ("company", "number", "version", "date", "owner")]
    above, below = (0.2 * cm, 0.6 * cm) if short else (7 * cm, 6 * cm)
    return [
        Spacer(1, above),
        Text(escape(meta["title"]), STYLES["cover"]),
        Text(escape(meta["subtitle"]), STYLES["subtitle"]),
        Spacer(1, below),
        *(facts[2:4] if short else facts),
        Spacer(1, 0.4 * cm) if short else PageBreak(),
    ]


def _flowables(part: Part, key: str, width: float) -> list[Flowable]:
    if isinstance(part, Heading):
        return [_Bookmarked(part, key)]
    if isinstance(part, Items):
        rows = [Text(escape(item), STYLES["item"]) for item in part.items]
        return [ListFlowable(rows, bulletType="1" if part.ordered else "bullet", bulletFontName=FONT)]
    if isinstance(part, Table):
        return [_grid(part, width), Spacer(1, 0.35 * cm)]
    return [Text(escape(part.text), STYLES["note"] if part.note else BODY)]


def _grid(part: Table, width: float) -> Grid:
    # A column is as wide as its longest cell asks, within bounds, so that numbers do not wrap.
    longest = [
        max(3.0, min(16.0, max(_em(row[column]) for row in part.rows))) + 1.2 for column in range(len(part.rows[0]))
    ]
    rows = [
        [Text(escape(cell), STYLES["head" if index == 0 else "cell"]) for cell in row]
        for index, row in enumerate(part.rows)
    ]
    grid = Grid(rows, colWidths=[width * share / sum(longest) for share in longest], repeatRows=1)
    grid.setStyle(
        [
            ("GRID", (0, 0), (-1, -1), 0.5, LINE),
            ("BACKGROUND", (0, 0), (-1, 0), TEAL),
            ("VALIGN", (0, 0), (-1, -1), "MIDDLE"),
            *_CELL_PADDING,
        ]
    )
    return grid


def _em(text: str) -> float:
    """Width in Chinese characters; a Latin letter counts half."""
    return sum(1.0 if ord(char) > 0x2E80 else 0.5 for char in text)
