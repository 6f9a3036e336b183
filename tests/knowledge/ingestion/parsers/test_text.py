"""Plain text."""

from __future__ import annotations

from tests.knowledge.ingestion.parsing import codes, parse, shapes


def test_paragraphs_end_at_blank_lines_of_any_kind() -> None:
    document = parse(b"Sec A.\r\n\r\n\r\nSec B.\r\n \t\r\nSec C.", "txt")
    assert shapes(document) == [("paragraph", "Sec A."), ("paragraph", "Sec B."), ("paragraph", "Sec C.")]


def test_sixty_kilobytes_on_one_line_stay_whole() -> None:
    line = "无标点长行" * 4000
    assert parse(line, "txt").text == line


def test_indentation_and_inner_line_breaks_stay() -> None:
    assert shapes(parse("list:\n  - one\n    deep\n", "txt")) == [("paragraph", "list:\n  - one\n    deep")]


def test_gbk_file_and_stray_byte_are_no_empty_success() -> None:
    assert parse("员工手册".encode("gbk"), "txt").text == "员工手册"
    document = parse("员工手册".encode() + b"\xff", "txt")
    assert document.text == "员工手册\ufffd"
    assert codes(document) == ["replaced_bytes"]


def test_nothing_gives_no_blocks() -> None:
    assert parse(b" \r\n\t \n", "txt").blocks == ()
