"""What an OpenDocument text becomes, and when it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge.ingestion.blocks import ParsedDocument
from knowledge.ingestion.parsers.odt import parse
from portal.kernel.errors import ParseError
from tests.support import office_files as office
from tests.support.office_files import kinds_and_texts, odt_file

LISTS = (
    "<office:automatic-styles><text:list-style style:name='L'>"
    "<text:list-level-style-number text:level='1' style:num-format='1' style:num-suffix='.'/>"
    "<text:list-level-style-number text:level='2' style:num-format='a' style:num-suffix=')'/>"
    "</text:list-style></office:automatic-styles><!--body-->"
)
OUTLINE = (
    "<office:styles><text:outline-style>"
    "<text:outline-level-style text:level='1' style:num-format='1'/>"
    "<text:outline-level-style text:level='2' style:num-format='1' text:display-levels='2'/>"
    "</text:outline-style></office:styles><!--body-->"
)


def read(tmp_path: Path, data: bytes) -> ParsedDocument:
    return office.parsed(parse, tmp_path, data)


def refusal(tmp_path: Path, data: bytes) -> str:
    with pytest.raises(ParseError) as caught:
        read(tmp_path, data)
    return caught.value.code


def test_headings_carry_their_outline_numbers_and_make_the_path(tmp_path: Path) -> None:
    body = "".join(
        f"<text:h text:outline-level='{level}'>{title}</text:h>"
        for level, title in [(1, "A"), (2, "B"), (2, "C"), (1, "D")]
    )
    found = read(tmp_path, odt_file(OUTLINE + body + "<text:p>x</text:p>"))
    assert [b.text for b in found.blocks] == ["1 A", "1.1 B", "1.2 C", "2 D", "x"]
    assert found.blocks[-1].heading_path == ("2 D",)


def test_a_heading_saved_as_an_item_of_a_list_is_a_heading(tmp_path: Path) -> None:
    item = "<text:list><text:list-item><text:h text:outline-level='1'>A</text:h></text:list-item></text:list>"
    assert kinds_and_texts(read(tmp_path, odt_file(OUTLINE + item)).blocks) == [("heading", "1 A")]


def test_lists_keep_numbers_and_nesting(tmp_path: Path) -> None:
    inner = "<text:list><text:list-item><text:p>x</text:p></text:list-item></text:list>"
    items = (
        f"<text:list-item><text:p>a</text:p>{inner}</text:list-item><text:list-item><text:p>b</text:p></text:list-item>"
    )
    found = read(tmp_path, odt_file(LISTS + f"<text:list text:style-name='L'>{items}</text:list>"))
    assert kinds_and_texts(found.blocks) == [("list", "1. a\n  a) x\n2. b")]


def test_tables_have_merged_cells_once_and_nested_tables_inside(tmp_path: Path) -> None:
    def cell(inner: str, more: str = "") -> str:
        return f"<table:table-cell {more}>{inner}</table:table-cell>"

    pair = cell("<text:p>1</text:p>") + cell("<text:p>2</text:p>")
    nested = f"<table:table><table:table-row>{pair}</table:table-row></table:table>"
    wide = cell("<text:p>wide</text:p>", "table:number-columns-spanned='2'") + "<table:covered-table-cell/>"
    rows = f"<table:table-row>{wide}</table:table-row>"
    rows += f"<table:table-row>{cell('<text:p>a</text:p>')}{cell(nested)}</table:table-row>"
    found = read(tmp_path, odt_file(f"<table:table>{rows}</table:table>"))
    assert found.text == "| wide |  |\n|---|---|\n| a | 1, 2 |"


def test_deleted_text_is_out_and_notes_comments_and_frames_follow_their_paragraph(tmp_path: Path) -> None:
    deleted = "<text:tracked-changes><text:p>gone</text:p></text:tracked-changes>"
    note = "<text:note-citation>1</text:note-citation><text:note-body><text:p>why</text:p></text:note-body>"
    comment = "<office:annotation><dc:creator>Bob</dc:creator><text:p>sure?</text:p></office:annotation>"
    box = "<draw:frame><draw:text-box><text:p>boxed</text:p></draw:text-box></draw:frame>"
    body = f"{deleted}<text:p>one<text:s text:c='2'/>two<text:note>{note}</text:note>{comment}{box} end</text:p>"
    assert kinds_and_texts(read(tmp_path, odt_file(body)).blocks) == [
        ("paragraph", "one  two[1] end"),
        ("note", "[1] why"),
        ("note", "Bob: sure?"),
        ("paragraph", "boxed"),
    ]


def test_pictures_are_kept_with_their_alternative_text(tmp_path: Path) -> None:
    frame = "<draw:frame><draw:image xlink:href='Pictures/a.png'/><svg:desc>A pump</svg:desc></draw:frame>"
    found = read(tmp_path, odt_file(f"<text:p>see {frame}</text:p>", {"Pictures/a.png": office.png()}))
    assert kinds_and_texts(found.blocks) == [("paragraph", "see"), ("image", "A pump")]
    assert found.images[0].mime == "image/png"


def test_what_is_no_odt_is_refused_with_a_code(tmp_path: Path) -> None:
    whole = odt_file("<text:p>x</text:p>")
    assert refusal(tmp_path, b"") == "empty_file"
    assert refusal(tmp_path, whole[:120]) == "damaged_file"
    assert refusal(tmp_path, office.zip_of({"a.txt": "x"})) == "type_mismatch"
    assert refusal(tmp_path, odt_file("<text:p/>")) == "no_text"
    assert refusal(tmp_path, odt_file("<text:p>x</text:p>", {"mimetype": "application/epub+zip"})) == "type_mismatch"
    sealed = odt_file("<text:p>x</text:p>", {"META-INF/manifest.xml": "<m><encryption-data/></m>"})
    assert refusal(tmp_path, sealed) == "password_protected"
    entity = odt_file("", {"content.xml": '<!DOCTYPE x [<!ENTITY e "x">]><x>&e;</x>'})
    assert refusal(tmp_path, entity) == "unsafe_xml"


def test_a_heading_without_an_outline_style_has_no_label(tmp_path: Path) -> None:
    found = read(tmp_path, odt_file("<text:h text:outline-level='1'>Head</text:h><text:p>x</text:p>"))
    assert [block.text for block in found.blocks] == ["Head", "x"]


def test_a_row_that_is_stored_once_for_several_stands_as_often_unless_it_is_empty(tmp_path: Path) -> None:
    def row(text: str, times: int) -> str:
        cell = f"<table:table-cell><text:p>{text}</text:p></table:table-cell>"
        return f"<table:table-row table:number-rows-repeated='{times}'>{cell}{cell}</table:table-row>"

    found = read(tmp_path, odt_file(f"<table:table>{row('h', 1)}{row('r', 2)}{row('', 1_000_000)}</table:table>"))
    assert found.text == "| h | h |\n|---|---|\n| r | r |\n| r | r |"
