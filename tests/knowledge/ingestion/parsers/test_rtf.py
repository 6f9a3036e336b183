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
