"""CSV and TSV."""

from __future__ import annotations

import time

import pytest

from knowledge.ingestion.blocks import ParseContext
from knowledge.ingestion.parsers.delimited_rows import Scan, separator_of
from portal.kernel.errors import ParseError
from tests.knowledge.ingestion.parsing import codes, parse, shapes


def rows(text: str, separator: str = ",") -> list[list[str]]:
    return list(Scan(text, separator).rows())


def test_quoted_newlines_quotes_and_separators_stay_in_their_cell() -> None:
    assert rows('a,b\n1,"x\ny, ""z"""\n') == [["a", "b"], ["1", 'x\ny, "z"']]


def test_field_of_two_hundred_kilobytes_is_one_cell() -> None:
    document = parse("id,body\n1," + "长" * 200_000 + "\n2,最后一行\n", "csv")
    assert document.text.endswith("| 2 | 最后一行 |")
    assert "长" * 200_000 in document.text


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("a;b;c\n1,5;2;3\n", ";"),
        ("a\tb\n1,000\t2\n", "\t"),
        ("a|b\n1|2\n", "|"),
        ("a,b\n1;2,3\n", ","),
        ("alone\n", ","),
    ],
)
def test_separator_is_found_by_looking(text: str, separator: str) -> None:
    assert separator_of(text) == separator


def test_separator_line_of_excel_is_obeyed_and_dropped() -> None:
    assert shapes(parse("sep=;\na;b\n1,2;3\n", "csv")) == [("table", "| a | b |\n|---|---|\n| 1,2 | 3 |")]


def test_tabs_in_a_file_called_csv_and_utf16() -> None:
    assert shapes(parse("工号\t姓名\n007\t司马光\n".encode("utf-16"), "csv")) == [
        ("table", "| 工号 | 姓名 |\n|---|---|\n| 007 | 司马光 |")
    ]


def test_quote_that_never_closes_does_not_swallow_the_rest() -> None:
    document = parse('Q1,A1\n"quoted start\ncontinues,extra\nQ2,A2\n', "csv")
    assert "| Q2 | A2 |" in document.text
    assert codes(document) == ["unbalanced_quotes"]
    assert "row 2" in document.warnings[0]


def test_stray_quotes_inside_fields_are_characters() -> None:
    assert rows('5" disk,关注"对象",x\n"he said "hi" there",y,z\n') == [
        ['5" disk', '关注"对象"', "x"],
        ['he said "hi" there', "y", "z"],
    ]


def test_opening_quote_of_a_later_row_ends_the_search() -> None:
    assert rows('a,"\n2,"b"\n') == [["a", '"'], ["2", "b"]]


def test_ragged_rows_are_kept_and_reported() -> None:
    document = parse("a,b\n1,2,3\n4\n", "csv")
    assert shapes(document) == [("table", "| a | b |  |\n|---|---|---|\n| 1 | 2 | 3 |\n| 4 |  |  |")]
    assert codes(document) == ["ragged_rows"]


def test_title_lines_above_the_head_are_text_and_rows_are_numbered() -> None:
    document = parse("月度报表\n\n名称,数量\n甲,1\n", "csv")
    assert shapes(document) == [("paragraph", "月度报表"), ("table", "| 名称 | 数量 |\n|---|---|\n| 甲 | 1 |")]
    assert [block.rows for block in document.blocks] == [(1, 1), (3, 4)]


def test_number_like_text_and_falsy_cells_stay_as_written() -> None:
    assert (
        "| 007 | 0 | FALSE | 0.00% | 110101199003071234 |"
        in parse("a,b,c,d,e\n007,0,FALSE,0.00%,110101199003071234\n", "csv").text
    )


def test_blank_cells_only_are_no_text() -> None:
    assert parse(",,,\r\n,,,\r\n", "csv").blocks == ()


def test_too_many_cells_or_columns_are_refused() -> None:
    with pytest.raises(ParseError) as caught:
        parse("1,2,3\n4,5,6\n", "csv", ParseContext(max_cells=5))
    assert caught.value.code == "too_many_cells"
    with pytest.raises(ParseError):
        parse(",".join(["x"] * 20_000), "csv")


@pytest.mark.parametrize(
    "text", ['"a\n' * 100_000, '"a,' * 100_000, '"' * 200_000, '"a\nb"c\n' * 50_000, '"a"b,' * 50_000]
)
def test_time_grows_with_the_file_and_not_with_its_square(text: str) -> None:
    started = time.process_time()  # of the processor: the machine may be busy with other things
    assert rows(text)
    assert time.process_time() - started < 5


def test_a_blank_before_a_quoted_field_does_not_cut_it() -> None:
    document = parse('a, b, c\n1, "x, y", 3\n', "csv")
    assert "| 1 | x, y |" in document.text.replace("  ", " ")
    assert codes(document) == []
