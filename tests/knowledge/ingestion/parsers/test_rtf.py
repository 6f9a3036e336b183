"""RTF."""

from __future__ import annotations

import pytest

from portal.kernel.errors import ParseError
from tests.knowledge.ingestion.parsing import parse, shapes


def escaped(text: str, encoding: str) -> bytes:
    return b"".join(b"\\'%02x" % byte for byte in text.encode(encoding))


def test_text_is_decoded_by_its_font() -> None:
    data = (
        b"{\\rtf1\\ansi\\deff0{\\fonttbl{\\f0\\fcharset134 SimSun;}{\\f1\\fcharset136 x;}{\\f2\\fcharset128 m;}}"
        b"\\f0 " + escaped("制度", "gbk") + b"\\f1 " + escaped("報銷", "big5") + b"\\f2 \\'83A\\'83C\\par}"
    )
    assert parse(data, "rtf").text == "制度報銷アイ"


def test_code_page_of_the_file_and_unicode_escapes() -> None:
    data = b"{\\rtf1\\ansi\\ansicpg936 " + escaped("员工", "gbk") + b"\\uc1\\u25163?\\u-3913?\\u-10179?\\u-8704?\\par}"
    assert parse(data, "rtf").text == "员工手•😀"


def test_headings_tables_and_footnotes_survive() -> None:
    data = (
        b"{\\rtf1{\\stylesheet{\\s1 heading 1;}}\\pard\\s1 Chapter\\par\\pard Text{\\footnote\\pard A note.} on.\\par"
        b"\\trowd\\cellx1\\cellx2\\pard\\intbl a\\cell b\\cell\\row\\trowd c\\cell d\\cell\\row\\pard after\\par"
        b"\\pard\\outlinelevel1 Section\\par}"
    )
    document = parse(data, "rtf")
    assert shapes(document) == [
        ("heading", "Chapter"),
        ("paragraph", "Text[1] on."),
        ("note", "[1] A note."),
        ("table", "| a | b |\n|---|---|\n| c | d |"),
        ("paragraph", "after"),
        ("heading", "Section"),
    ]
    assert document.blocks[-1].heading_path == ("Chapter",)


def test_hidden_deleted_and_technical_text_is_left_out() -> None:
    data = (
        b"{\\rtf1{\\info{\\title The title}{\\author me}}{\\*\\generator gen;}{\\colortbl;\\red1;}"
        b"shown{\\v hidden}{\\deleted gone} "
        b'{\\field{\\*\\fldinst HYPERLINK "https://example.com/a"}{\\fldrslt link}}\\par}'
    )
    document = parse(data, "rtf")
    assert document.text == "shown link <https://example.com/a>"
    assert document.title == "The title"


def test_binary_data_with_braces_is_skipped() -> None:
    assert parse(b"{\\rtf1 a{\\pict\\bin4 }}{{}b\\par}", "rtf").text == "ab"


@pytest.mark.parametrize("data", [b"{\\rtf1 unclosed {\\b x", b"{\\rtf1 x}}}}", b"{\\rtf1 x\\"])
def test_broken_groups_still_give_the_text(data: bytes) -> None:
    assert "x" in parse(data, "rtf").text


def test_groups_without_end_and_other_files_are_refused() -> None:
    with pytest.raises(ParseError) as caught:
        parse(b"{\\rtf1 " + b"{" * 5000, "rtf")
    assert caught.value.code == "nested_too_deep"
    with pytest.raises(ParseError) as caught:
        parse(b"plain", "rtf")
    assert caught.value.code == "type_mismatch"


def test_running_heads_stand_once_at_the_end_and_page_numbers_not_at_all() -> None:
    data = (
        r"{\rtf1{\header\pard Company confidential\par}{\headerf Company confidential}{\footer Page {\field{\*\fldinst"
        r" PAGE}{\fldrslt 3}} of 9\par}Body\par}"
    )
    assert [block.text for block in parse(data, "rtf").blocks] == ["Body", "Company confidential"]


def test_bullets_of_symbol_fonts_are_bullets() -> None:
    assert parse(r"{\rtf1{\listtext \u61623\'b7\tab}One\par}", "rtf").text == "• One"


def test_of_two_forms_of_a_text_the_one_in_unicode_is_taken() -> None:
    data = b"{\\rtf1{\\upr{Title ??}{\\*\\ud{Title \\u20013?\\u25991?}}}\\par after\\par}"
    assert parse(data, "rtf").text == "Title 中文\n\nafter"


def test_an_escaped_backslash_can_be_the_second_half_of_a_character() -> None:
    data = b"{\\rtf1\\ansi\\ansicpg932 \\'95\\'5c\\'8e\\'a6 \\'83\\\\ \\'94\\'5c a\\\\b\\{c\\}\\par}"
    assert parse(data, "rtf").text == "表示 ソ 能 a\\b{c}"


def test_cells_and_rows_of_a_nested_table_stay_apart_inside_their_cell() -> None:
    nested = b"\\itap2 n1\\nestcell n2\\nestcell{\\*\\nesttableprops\\trowd\\nestrow}{\\nonesttables\\par}"
    data = b"{\\rtf1\\trowd\\pard\\intbl a\\cell\\pard\\intbl" + nested * 2 + b"\\pard\\intbl\\cell\\row\\pard x\\par}"
    assert parse(data, "rtf").blocks[0].text == "| a | n1, n2; n1, n2 |\n|---|---|"


@pytest.mark.parametrize(
    ("head", "text"),
    [
        (b"\\mac caf\\'8e", "café"),
        (b"\\pc caf\\'82", "café"),
        (b"\\ansi{\\fonttbl{\\f0\\fnil\\cpg936 X;}}\\f0 \\'d4\\'b1\\'b9\\'a4", "员工"),
        (b"\\ansi{\\fonttbl{\\f0\\fcharset2 Symbol;}{\\f1 Arial;}}{\\f0 \\'61\\'b7}\\f1 a", "α•a"),
    ],
)
def test_code_pages_are_also_named_in_the_old_ways(head: bytes, text: str) -> None:
    assert parse(b"{\\rtf1" + head + b"\\par}", "rtf").text == text


def test_text_of_embedded_objects_old_drawings_and_formulas_is_read_once() -> None:
    data = (
        b"{\\rtf1{\\object\\objemb{\\*\\objclass Word.Document}{\\*\\objdata 0123}{\\result{Result\\par}}}"
        b"{\\*\\do\\dobxpage{\\dptxbxtext Old box\\par}}"
        b"{\\shp{\\*\\shpinst{\\shptxt New box\\par}}{\\shprslt{\\*\\do{\\dptxbxtext New box\\par}}}}"
        b"{\\mmath{\\*\\moMath{\\mr x=}"
        b"{\\mf{\\mfPr{\\mtype bar}}{\\mnum{\\mr a}}{\\mden{\\mr b}}}}{\\mmathPict pic}}\\par}"
    )
    assert parse(data, "rtf").text == "Result\n\nOld box\n\nNew box\n\nx=a/b"
