"""Draws a JSON outline as a PowerPoint deck with a table and speaker notes."""

from __future__ import annotations

import io
from typing import Any

from pptx import Presentation
from pptx.dml.color import RGBColor
from pptx.enum.shapes import MSO_SHAPE
from pptx.enum.text import PP_ALIGN
from pptx.oxml.ns import qn
from pptx.util import Cm, Pt

from sample.archive import repack

TEAL, INK, GREY, PALE, WHITE = map(RGBColor.from_string, ("0B6477", "1B2430", "566273", "F6F8FA", "FFFFFF"))
WIDTH, HEIGHT = Cm(33.867), Cm(19.05)


def render_deck(content: dict[str, Any]) -> bytes:
    """The bytes of the .pptx: a title slide, then one slide for each of `slides` (bullets or a table)."""
    deck = Presentation()
    deck.slide_width, deck.slide_height = WIDTH, HEIGHT
    deck.core_properties.title, deck.core_properties.author = content["title"], "Clearbrook Sensing"
    cover = deck.slides.add_slide(deck.slide_layouts[0])
    cover.background.fill.solid()
    cover.background.fill.fore_color.rgb = TEAL
    for shape, top, text, size in (
        (cover.shapes.title, 6, content["title"], 44),
        (cover.placeholders[1], 10, content["subtitle"], 24),
    ):
        shape.left, shape.top, shape.width, shape.height = Cm(3), Cm(top), WIDTH - Cm(6), Cm(3)
        _write(shape.text_frame.paragraphs[0], text, size, WHITE)
    cover.notes_slide.notes_text_frame.text = content["notes"]
    for slide in content["slides"]:
        _draw(deck, slide, content["footer"])
    target = io.BytesIO()
    deck.save(target)
    return repack(target.getvalue())


def _draw(deck: Any, content: dict[str, Any], footer: str) -> None:
    bullets = content.get("bullets")
    slide = deck.slides.add_slide(deck.slide_layouts[1 if bullets else 5])
    bar = slide.shapes.add_shape(MSO_SHAPE.RECTANGLE, 0, 0, Cm(0.6), HEIGHT)
    bar.fill.solid()
    bar.fill.fore_color.rgb = TEAL
    bar.line.fill.background()
    title = slide.shapes.title
    title.left, title.top, title.width, title.height = Cm(2), Cm(1), WIDTH - Cm(4), Cm(2.6)
    title.text_frame.paragraphs[0].alignment = PP_ALIGN.LEFT
    _write(title.text_frame.paragraphs[0], content["title"], 32, TEAL)
    if bullets:
        body = slide.placeholders[1]
        body.left, body.top, body.width, body.height = Cm(2), Cm(4.4), WIDTH - Cm(4), Cm(12)
        frame = body.text_frame
        for index, bullet in enumerate(bullets):
            paragraph = frame.paragraphs[0] if index == 0 else frame.add_paragraph()
            paragraph.space_after = Pt(18)
            _write(paragraph, bullet, 24, INK)
    else:
        _draw_table(slide, content["table"])
    box = slide.shapes.add_textbox(Cm(2), HEIGHT - Cm(1.5), WIDTH - Cm(4), Cm(1))
    _write(box.text_frame.paragraphs[0], footer, 11, GREY)
    slide.notes_slide.notes_text_frame.text = content["notes"]


def _draw_table(slide: Any, rows: list[list[str]]) -> None:
    frame = slide.shapes.add_table(len(rows), len(rows[0]), Cm(2), Cm(4.4), WIDTH - Cm(4), Cm(1.5) * len(rows))
    for column, share in zip(frame.table.columns, (0.4, 0.3, 0.3), strict=True):
        column.width = int((WIDTH - Cm(4)) * share)
    for row_index, row in enumerate(rows):
        for cell, text in zip(frame.table.rows[row_index].cells, row, strict=True):
            cell.fill.solid()
            cell.fill.fore_color.rgb = TEAL if row_index == 0 else PALE
            _write(cell.text_frame.paragraphs[0], text, 18, WHITE if row_index == 0 else INK)


def _write(paragraph: Any, text: str, size: float, colour: RGBColor) -> None:
    run = paragraph.add_run()
    run.text, run.font.size, run.font.color.rgb, run.font.name = text, Pt(size), colour, "Arial"
    properties = run._r.get_or_add_rPr()
    asian = properties.makeelement(qn("a:ea"), {"typeface": "Microsoft YaHei"})
    properties.append(asian)
