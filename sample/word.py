"""Draws a source as a Word file: title block, automatic heading numbers, tables, real footnotes."""

from __future__ import annotations

import io
from typing import Any

from docx import Document
from docx.enum.table import WD_TABLE_ALIGNMENT
from docx.enum.text import WD_ALIGN_PARAGRAPH
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part as PackagePart
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls, qn
from docx.shared import Cm, Pt, RGBColor

from sample.archive import repack
from sample.markup import FOOTNOTE, Heading, Items, Source, Table

TEAL = RGBColor(0x0B, 0x64, 0x77)
GREY = RGBColor(0x56, 0x62, 0x73)
_FOOTNOTE_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml"
# Numbering ids of our own, above those of the template.
_HEADINGS, _STEPS = 90, 91


def render_word(source: Source, lang: str) -> bytes:
    """The bytes of the .docx. `lang` is the document's language tag, such as "zh-CN"."""
    document = Document()
    _style_page(document, source, lang)
    _define_numbering(document, source.numbered)
    _write_title(document, source)
    for part in source.parts:
        if isinstance(part, Heading):
            document.add_heading(part.text, part.level)
        elif isinstance(part, Items):
            _write_list(document, part)
        elif isinstance(part, Table):
            _write_table(document, part)
        elif part.note:
            _write_note(document, part.text)
        else:
            _write_text(document.add_paragraph(), part.text)
    if source.footnotes:
        _attach_footnotes(document, source.footnotes)
    target = io.BytesIO()
    document.save(target)
    return repack(target.getvalue())


def _style_page(document: Any, source: Source, lang: str) -> None:
    section = document.sections[0]
    section.page_width, section.page_height = Cm(21), Cm(29.7)
    section.left_margin = section.right_margin = Cm(2.4)
    section.top_margin = section.bottom_margin = Cm(2.2)
    for name, size in (("Normal", 10.5), ("Title", 24), ("Heading 1", 15), ("Heading 2", 12)):
        _set_font(document.styles[name], size)
    document.styles["Normal"].paragraph_format.space_after = Pt(6)
    section.header.paragraphs[0].text = f"{source.meta['company']}\t\t{source.meta['number']}"
    footer = section.footer.paragraphs[0]
    footer.alignment = WD_ALIGN_PARAGRAPH.CENTER
    footer._p.append(parse_xml(f'<w:fldSimple {nsdecls("w")} w:instr="PAGE"><w:r><w:t>1</w:t></w:r></w:fldSimple>'))
    properties = document.core_properties
    properties.title, properties.author = source.meta["title"], source.meta["owner"]
    properties.comments, properties.language = "", lang


def _set_font(style: Any, size: float) -> None:
    style.font.name, style.font.size = "Arial", Pt(size)
    if style.name != "Normal":
        style.font.color.rgb = TEAL
    fonts = style.element.rPr.rFonts
    # A theme font, where the template names one, would win over ours.
    for theme in ("asciiTheme", "hAnsiTheme", "eastAsiaTheme", "cstheme"):
        fonts.attrib.pop(qn(f"w:{theme}"), None)
    fonts.set(qn("w:eastAsia"), "Microsoft YaHei")


def _define_numbering(document: Any, headings: bool) -> None:
    """Word counts headings and steps itself, so the numbers stand in no text: parsers must rebuild them."""
    numbering = document.part.numbering_part.element
    levels = {
        _HEADINGS: [("Heading1", "decimal", "%1", 432), ("Heading2", "decimal", "%1.%2", 576)],
        _STEPS: [("", "decimal", "%1.", 360)],
    }
    for position, (ident, rows) in enumerate(levels.items()):
        body = "".join(
            f'<w:lvl w:ilvl="{level}"><w:start w:val="1"/><w:numFmt w:val="{kind}"/>'
            + (f'<w:pStyle w:val="{style}"/>' if style else "")
            + f'<w:lvlText w:val="{text}"/><w:lvlJc w:val="left"/>'
            f'<w:pPr><w:ind w:left="{indent}" w:hanging="{indent}"/></w:pPr></w:lvl>'
            for level, (style, kind, text, indent) in enumerate(rows)
        )
        kind = "multilevel" if len(rows) > 1 else "singleLevel"
        numbering.insert(
            position,
            parse_xml(
                f'<w:abstractNum {nsdecls("w")} w:abstractNumId="{ident}">'
                f'<w:multiLevelType w:val="{kind}"/>{body}</w:abstractNum>'
            ),
        )
    if headings:
        number = numbering.add_num(_HEADINGS)
        for level, name in enumerate(("Heading 1", "Heading 2")):
            properties = document.styles[name].element.get_or_add_pPr().get_or_add_numPr()
            properties.get_or_add_ilvl().val = level
            properties.get_or_add_numId().val = number.numId


def _write_title(document: Any, source: Source) -> None:
    meta = source.meta
    document.add_paragraph(meta["title"], style="Title")
    subtitle = document.add_paragraph().add_run(meta["subtitle"])
    subtitle.font.size, subtitle.font.color.rgb = Pt(12), GREY
    facts = document.add_paragraph().add_run(" · ".join(meta[key] for key in ("number", "version", "date", "owner")))
    facts.font.size, facts.font.color.rgb = Pt(9), GREY


def _write_text(paragraph: Any, text: str) -> None:
    """Text with footnote references; `FOOTNOTE.split` gives text and note numbers in turn."""
    for position, piece in enumerate(FOOTNOTE.split(text)):
        if position % 2 == 0:
            paragraph.add_run(piece)
            continue
        run = paragraph.add_run()
        run.font.superscript = True
        run._r.append(parse_xml(f'<w:footnoteReference {nsdecls("w")} w:id="{piece}"/>'))


def _write_list(document: Any, part: Items) -> None:
    number = None
    if part.ordered:
        # A list of its own each time: otherwise Word goes on counting from the previous one.
        number = document.part.numbering_part.element.add_num(_STEPS)
        number.add_lvlOverride(ilvl=0).add_startOverride(1)
    for item in part.items:
        paragraph = document.add_paragraph(style="List Paragraph" if number is not None else "List Bullet")
        _write_text(paragraph, item)
        if number is not None:
            properties = paragraph._p.get_or_add_pPr().get_or_add_numPr()
            properties.get_or_add_ilvl().val = 0
            properties.get_or_add_numId().val = number.numId


def _write_note(document: Any, text: str) -> None:
    paragraph = document.add_paragraph()
    paragraph.paragraph_format.left_indent = Cm(0.3)
    shade = parse_xml(f'<w:shd {nsdecls("w")} w:val="clear" w:color="auto" w:fill="FDF1DC"/>')
    paragraph._p.get_or_add_pPr().insert_element_before(shade, "w:spacing", "w:ind", "w:jc")
    _write_text(paragraph, text)


def _write_table(document: Any, part: Table) -> None:
    table = document.add_table(rows=0, cols=len(part.rows[0]), style="Table Grid")
    table.alignment = WD_TABLE_ALIGNMENT.CENTER
    for index, row in enumerate(part.rows):
        cells = table.add_row().cells
        for cell, text in zip(cells, row, strict=True):
            paragraph = cell.paragraphs[0]
            paragraph.paragraph_format.space_after = Pt(2)
            _write_text(paragraph, text)
            for run in paragraph.runs:
                run.font.size, run.font.bold = Pt(9.5), index == 0 or None
            if index == 0:
                cell._tc.get_or_add_tcPr().append(
                    parse_xml(f'<w:shd {nsdecls("w")} w:val="clear" w:color="auto" w:fill="E0F3F7"/>')
                )
    # Repeated on every page that the table runs over.
    table.rows[0]._tr.get_or_add_trPr().append(parse_xml(f"<w:tblHeader {nsdecls('w')}/>"))
    document.add_paragraph().paragraph_format.space_after = Pt(2)


def _attach_footnotes(document: Any, footnotes: dict[int, str]) -> None:
    """python-docx writes no footnotes, so the part is built here (ECMA-376 part 1, 17.11)."""
    rules = "".join(
        f'<w:footnote w:type="{kind}" w:id="{ident}"><w:p><w:r><w:{kind}/></w:r></w:p></w:footnote>'
        for ident, kind in ((-1, "separator"), (0, "continuationSeparator"))
    )
    notes = "".join(
        f'<w:footnote w:id="{number}"><w:p><w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:footnoteRef/></w:r>'
        f'<w:r><w:rPr><w:sz w:val="17"/></w:rPr><w:t xml:space="preserve"> {text.replace("&", "&amp;")}</w:t></w:r>'
        "</w:p></w:footnote>"
        for number, text in sorted(footnotes.items())
    )
    xml = f'<?xml version="1.0" encoding="UTF-8"?><w:footnotes {nsdecls("w")}>{rules}{notes}</w:footnotes>'
    part = PackagePart(PackURI("/word/footnotes.xml"), _FOOTNOTE_TYPE, xml.encode(), document.part.package)
    document.part.relate_to(part, RELATIONSHIP_TYPE.FOOTNOTES)
