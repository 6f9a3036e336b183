"""JSON and JSON Lines."""

from __future__ import annotations

import pytest

from portal.kernel.errors import ParseError
from tests.knowledge.ingestion.parsing import codes, parse, shapes


@pytest.mark.parametrize(("text", "shown"), [("42", "42"), ('"words"', "words"), ("true", "true"), ("1.10", "1.10")])
def test_scalar_document_is_its_value(text: str, shown: str) -> None:
    assert shapes(parse(text, "json")) == [("paragraph", shown)]


def test_null_and_empty_containers_have_no_text() -> None:
    for text in ("null", "[]", "{}", "[[], {}]"):
        assert parse(text, "json").blocks == ()


def test_value_keeps_the_path_of_its_keys() -> None:
    text = '{"文档": {"编号": "SOP-1", "步骤": [{"内容": "关阀"}, {"内容": "读数", "值": [1, 2]}]}}'
    assert parse(text, "json").text.split("\n") == [
        "文档.编号: SOP-1",
        "文档.步骤[0].内容: 关阀",
        "文档.步骤[1].内容: 读数",
        "文档.步骤[1].值[0]: 1",
        "文档.步骤[1].值[1]: 2",
    ]


def test_list_of_records_is_a_table() -> None:
    document = parse('[{"q": "年假", "a": "十天"}, {"q": "病假", "tags": ["x", "y"]}]', "json")
    assert shapes(document) == [("table", "| q | a | tags |\n|---|---|---|\n| 年假 | 十天 |  |\n| 病假 |  | x, y |")]
    assert document.blocks[0].rows == (1, 2)


def test_key_that_stands_twice_keeps_both_values() -> None:
    assert parse('{"a": 1, "a": 2}', "json").text == "a: 1\na: 2"


def test_numbers_stay_as_written() -> None:
    digits = "9" * 100_000
    assert parse(f'{{"n": {digits}, "f": 1.50}}', "json").text == f"n: {digits}\nf: 1.50"


def test_lone_surrogate_nul_and_emoji() -> None:
    assert parse('{"a": "\\ud83d", "b": "x\\u0000y", "c": "\\ud83d\\ude00"}', "json").text == "a: \ufffd\nb: xy\nc: 😀"


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 900 + "1" + "]" * 900])
def test_nesting_without_end_is_refused(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text, "json")
    assert caught.value.code == "nested_too_deep"


def test_cut_off_json_is_kept_as_text_with_a_warning() -> None:
    document = parse('{\n "name": "John",\n "hobbies": ["reading"', "json")
    assert "John" in document.text
    assert codes(document) == ["broken_json"]


def test_what_never_was_json_is_refused() -> None:
    with pytest.raises(ParseError) as caught:
        parse("<html><script>alert(1)</script></html>", "json")
    assert caught.value.code == "type_mismatch"


def test_json_lines_are_a_table_or_a_block_each() -> None:
    assert shapes(parse('{"a": 1}\n\n{"a": 2}\n', "jsonl")) == [("table", "| a |\n|---|\n| 1 |\n| 2 |")]
    document = parse('{"a": {"b": 1}}\n{"c": 2}\n', "jsonl")
    assert shapes(document) == [("paragraph", "a.b: 1"), ("paragraph", "c: 2")]
    assert [block.rows for block in document.blocks] == [(1, 1), (2, 2)]


def test_one_record_and_lines_in_a_file_called_json() -> None:
    assert parse('{"a": 1}\n', "jsonl").text == "a: 1"
    assert parse('{"a": 1}\n{"a": 2}\n', "json").text == "| a |\n|---|\n| 1 |\n| 2 |"


def test_broken_line_is_kept_and_named() -> None:
    document = parse('{"a": 1}\n{"a": 2\n{"a": 3}\n', "jsonl")
    assert "| 3 |" in document.text
    assert '{"a": 2' in document.text
    assert codes(document) == ["broken_lines"]
    assert "line 2" in document.warnings[0]


def test_broken_lines_stay_between_the_records_they_stood_between() -> None:
    table = parse('{"a": 1}\n{"a": 2}\nbroken\n{"a": 3}\n', "jsonl")
    assert [(b.kind, b.text.split("\n")[-1], b.rows) for b in table.blocks] == [
        ("table", "| 2 |", (1, 2)),
        ("paragraph", "broken", (3, 3)),
        ("table", "| 3 |", (4, 4)),
    ]
    nested = parse('{"a": {"b": 1}}\nbroken\n{"a": {"b": 2}}\n', "jsonl")
    assert nested.text == "a.b: 1\n\nbroken\n\na.b: 2"


def test_gbk_json() -> None:
    assert parse('{"制度": "员工请假须提前申请"}'.encode("gbk"), "json").text == "制度: 员工请假须提前申请"
