"""What a slide deck becomes, and when it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge.ingestion.blocks import ParseContext, ParsedDocument
from knowledge.ingestion.parsers.pptx import parse
from portal.kernel.errors import ParseError
from tests.support import office_files as office
from tests.support.office_files import deck, kinds_and_texts, links, root, shape


def read(tmp_path: Path, data: bytes, context: ParseContext | None = None) -> ParsedDocument:
    return office.parsed(parse, tmp_path, data, context)


def refusal(tmp_path: Path, data: bytes, context: ParseContext | None = None) -> str:
    with pytest.raises(ParseError) as caught:
        read(tmp_path, data, context)
    return caught.value.code


def frame(content: str) -> str:
    return f"<p:graphicFrame><a:graphic><a:graphicData>{content}</a:graphicData></a:graphic></p:graphicFrame>"


def picture(descr: str = "") -> str:
    described = f'<p:nvPicPr><p:cNvPr id="2" name="Picture 1" descr="{descr}"/></p:nvPicPr>'
    return f'<p:pic>{described}<p:blipFill><a:blip r:embed="i"/></p:blipFill></p:pic>'


IMAGE = ("i", "image", "../media/image1.png")


def test_slides_come_in_the_order_they_are_shown_with_their_titles_as_headings(tmp_path: Path) -> None:
    parts = {
        "ppt/presentation.xml": root(
            "p:presentation", '<p:sldIdLst><p:sldId id="9" r:id="r2"/><p:sldId id="8" r:id="r1"/></p:sldIdLst>'
        )
    }
    slides = [shape("One", kind="title") + shape("first text"), shape("second text") + shape("Two", kind="ctrTitle")]
    found = read(tmp_path, deck(slides, parts))
    assert [(b.kind, b.text, b.slide, b.heading_path) for b in found.blocks] == [
        ("heading", "Two", 1, ()),
        ("paragraph", "second text", 1, ("Two",)),
        ("heading", "One", 2, ()),
        ("paragraph", "first text", 2, ("One",)),
    ]
    assert (found.page_count, found.title) == (2, "Two")


def test_groups_are_opened_and_alternatives_read_once(tmp_path: Path) -> None:
    group = f"<p:grpSp>{shape('outer')}<p:grpSp>{shape('inner')}</p:grpSp></p:grpSp>"
    either = (
        f"<mc:AlternateContent><mc:Choice>{shape('new')}</mc:Choice>"
        f"<mc:Fallback>{shape('old')}</mc:Fallback></mc:AlternateContent>"
    )
    assert [b.text for b in read(tmp_path, deck([group + either])).blocks] == ["outer", "inner", "new"]


def test_bullets_and_numbers_make_lists(tmp_path: Path) -> None:
    numbered = shape("a", "b", properties='<a:pPr><a:buAutoNum type="arabicPeriod"/></a:pPr>')
    nested = shape("c", properties='<a:pPr lvl="1"><a:buChar char="•"/></a:pPr>')
    found = read(tmp_path, deck([shape("x", "y", kind="body") + numbered + nested + shape("p", "q")]))
    assert kinds_and_texts(found.blocks) == [
        ("list", "- x\n- y"),
        ("list", "1. a\n2. b"),
        ("list", "  - c"),
        ("paragraph", "p\nq"),
    ]


def test_merged_table_cells_stand_once(tmp_path: Path) -> None:
    def cell(text: str, more: str = "") -> str:
        return f"<a:tc {more}><a:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></a:txBody></a:tc>"

    first = cell("wide", "gridSpan='2'") + cell("wide", "hMerge='1'")
    rows = f"<a:tr>{first}</a:tr><a:tr>{cell('a')}{cell('b')}</a:tr>"
    found = read(tmp_path, deck([frame(f"<a:tbl>{rows}</a:tbl>")]))
    assert found.text == "| wide |  |\n|---|---|\n| a | b |"


def test_charts_and_smartart_give_their_text(tmp_path: Path) -> None:
    def values(kind: str, *found: str) -> str:
        points = "".join(f'<c:pt idx="{n}"><c:v>{v}</c:v></c:pt>' for n, v in enumerate(found))
        return f"<c:{kind}><c:strRef><c:strCache>{points}</c:strCache></c:strRef></c:{kind}>"

    series = f"<c:ser>{values('tx', 'Sales')}{values('cat', 'Q1', 'Q2')}{values('val', '4.3', '2.5')}</c:ser>"
    title = "<c:title><c:tx><c:rich><a:p><a:r><a:t>By quarter</a:t></a:r></a:p></c:rich></c:tx></c:title>"
    chart = root(
        "c:chartSpace", f"<c:chart>{title}<c:plotArea><c:barChart>{series}</c:barChart></c:plotArea></c:chart>"
    )
    point = "<dgm:pt{0}><dgm:t><a:p><a:r><a:t>{1}</a:t></a:r></a:p></dgm:t></dgm:pt>"
    data = root("dgm:dataModel", point.format("", "Plan") + point.format(' type="pres"', "ghost"))
    slides = [frame('<c:chart r:id="c"/>') + frame('<dgm:relIds r:dm="d"/>')]
    parts = {"ppt/charts/chart1.xml": chart, "ppt/diagrams/data1.xml": data}
    related = {1: [("c", "chart", "../charts/chart1.xml"), ("d", "diagramData", "../diagrams/data1.xml")]}
    assert kinds_and_texts(read(tmp_path, deck(slides, parts, related)).blocks) == [
        ("paragraph", "By quarter"),
        ("table", "|  | Sales |\n|---|---|\n| Q1 | 4.3 |\n| Q2 | 2.5 |"),
        ("list", "- Plan"),
    ]


def test_notes_and_comments_belong_to_their_slide(tmp_path: Path) -> None:
    notes = root(
        "p:notes", f"<p:cSld><p:spTree>{shape('say this', kind='body')}{shape('7', kind='sldNum')}</p:spTree></p:cSld>"
    )
    comments = root("p:cmLst", '<p:cm authorId="0"><p:text>typo here</p:text></p:cm>')
    authors = root("p:cmAuthorLst", '<p:cmAuthor id="0" name="Bob"/>')
    related = {1: [("n", "notesSlide", "../notesSlides/n1.xml"), ("k", "comments", "../comments/c1.xml")]}
    presentation = links(("r1", "slide", "slides/slide1.xml"), ("a", "commentAuthors", "commentAuthors.xml"))
    parts = {
        "ppt/notesSlides/n1.xml": notes,
        "ppt/comments/c1.xml": comments,
        "ppt/commentAuthors.xml": authors,
        "ppt/_rels/presentation.xml.rels": presentation,
    }
    found = read(tmp_path, deck([shape("T", kind="title")], parts, related))
    assert [(b.kind, b.text, b.slide) for b in found.blocks[1:]] == [
        ("note", "say this", 1),
        ("note", "Bob: typo here", 1),
    ]


def test_hidden_slides_are_marked(tmp_path: Path) -> None:
    found = read(
        tmp_path, deck([shape("T", kind="title"), shape("no title")], attributes={1: 'show="0"', 2: 'show="0"'})
    )
    assert [b.text for b in found.blocks] == ["T (hidden)", "Slide 2 (hidden)", "no title"]
    assert [w.split(":")[0] for w in found.warnings] == ["hidden_slide", "hidden_slide"]


def test_foot_lines_stand_once_and_slide_numbers_not_at_all(tmp_path: Path) -> None:
    slide = shape("text") + shape("Acme 2024", kind="ftr") + shape("3", kind="sldNum")
    assert [b.text for b in read(tmp_path, deck([slide, slide])).blocks] == ["text", "Acme 2024", "text"]


def test_a_broken_slide_is_a_warning_and_the_others_are_kept(tmp_path: Path) -> None:
    parts = {"ppt/slides/slide1.xml": "no xml", "ppt/slides/slide2.xml": root("p:sld", shape("half"))[:-3]}
    found = read(tmp_path, deck([shape("a"), shape("b"), shape("whole")], parts))
    assert "whole" in found.text
    assert {w.split(":")[0] for w in found.warnings} == {"malformed_part", "missing_part"}


def test_pictures_keep_their_place_and_a_file_name_is_no_alternative_text(tmp_path: Path) -> None:
    parts = {"ppt/media/image1.png": office.png()}
    found = read(tmp_path, deck([shape("a") + picture("Pump curve") + shape("b")], parts, {1: [IMAGE]}))
    assert kinds_and_texts(found.blocks) == [("paragraph", "a"), ("image", "Pump curve"), ("paragraph", "b")]
    assert found.images[0].alt == "Pump curve"
    assert refusal(tmp_path, deck([picture("scan 1.png")], parts, {1: [IMAGE]})) == "no_text"


def test_a_deck_of_pictures_alone_has_no_text(tmp_path: Path) -> None:
    assert (
        refusal(tmp_path, deck([picture(), picture()], {"ppt/media/image1.png": office.png()}, {1: [IMAGE]}))
        == "no_text"
    )


def test_what_is_no_deck_is_refused_with_a_code(tmp_path: Path) -> None:
    assert refusal(tmp_path, b"") == "empty_file"
    assert refusal(tmp_path, office.word_file(office.paragraph("x"))) == "type_mismatch"
    assert refusal(tmp_path, deck([shape("x")])[:400]) == "damaged_file"
    assert refusal(tmp_path, deck([shape("x")] * 3), ParseContext(max_pages=2)) == "too_large"
    assert refusal(tmp_path, deck([shape("x" * 200)]), ParseContext(max_text=100)) == "too_large"
    entity = '<!DOCTYPE x [<!ENTITY e "x">]>' + root("p:sld", shape("&e;"))
    assert refusal(tmp_path, deck([""], {"ppt/slides/slide1.xml": entity})) == "unsafe_xml"


def test_raised_figures_and_formulas_on_slides_are_readable_and_read_once(tmp_path: Path) -> None:
    raised = '<a:r><a:t>10</a:t></a:r><a:r><a:rPr baseline="30000"/><a:t>6</a:t></a:r>'
    power = "<m:sSup><m:e><m:r><m:t>x</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup>"
    formula = (
        '<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006">'
        '<mc:Choice Requires="a14"><a14:m xmlns:a14="http://schemas.microsoft.com/office/drawing/2010/main">'
        f'<m:oMath xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math">{power}</m:oMath></a14:m>'
        "</mc:Choice><mc:Fallback><a:r><a:t>fallback</a:t></a:r></mc:Fallback></mc:AlternateContent>"
    )
    body = f"<p:txBody><a:p>{raised}</a:p><a:p>{formula}</a:p></p:txBody>"
    box = f'<p:sp><p:nvSpPr><p:cNvPr id="2" name="x"/><p:nvPr/></p:nvSpPr>{body}</p:sp>'
    assert read(tmp_path, deck([box])).text == "10⁶\nx^2"
