"""What an old binary workbook becomes."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from pathlib import Path
from struct import pack, pack_into

import pytest

from knowledge.ingestion.blocks import ParseContext, ParsedDocument
from knowledge.ingestion.parsers import xls
from knowledge.ingestion.parsers.xls import shown
from knowledge.ingestion.parsers.xlsx import parse
from portal.kernel.errors import ParseError
from tests.support import office_files as office
from tests.support.biff_files import Value, container, workbook


def read(tmp_path: Path, data: bytes, context: ParseContext | None = None) -> ParsedDocument:
    return office.parsed(parse, tmp_path, data, context)


def test_sheets_values_and_formats_are_as_shown(tmp_path: Path) -> None:
    rows: list[list[Value]] = [
        ["名称", "share", "ok", "code"],
        ["007", (0.5, 15), False, (42.0, 16)],
        ["x", (0.0, 15), True, 7.0],
    ]
    found = read(tmp_path, workbook({"表一": rows, "Secret": [["z"]]}, ["0.00%", "000000"], hidden="Secret"))
    assert found.blocks[1].text == (
        "| 名称 | share | ok | code |\n|---|---|---|---|\n| 007 | 50.00% | FALSE | 000042 |\n| x | 0.00% | TRUE | 7 |"
    )
    assert [b.sheet for b in found.blocks] == ["表一", "表一", "Secret", "Secret"]
    assert found.blocks[2].text == "Secret (hidden)"
    assert [w.split(":")[0] for w in found.warnings] == ["hidden_sheet"]


def test_currencies_and_groups_are_shown_in_old_workbooks_too(tmp_path: Path) -> None:
    rows: list[list[Value]] = [["a", "b"], [(1234.5, 15), (-1234.0, 16)]]
    found = read(tmp_path, workbook({"S": rows}, ['#,##0.00 "€"', "#,##0_);[Red](#,##0)"]))
    assert found.blocks[1].text.split("\n")[2] == "| 1,234.50 € | (1,234) |"


def test_rows_are_counted_from_the_top_of_the_sheet(tmp_path: Path) -> None:
    found = read(tmp_path, workbook({"S": [[""], [""], ["", "a", "b"], ["", "c", (0.25, 15)]]}, ["0%"]))
    assert (found.blocks[1].rows, found.blocks[1].text) == ((3, 4), "| a | b |\n|---|---|\n| c | 25% |")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.0, "0"),
        (False, "FALSE"),
        (1.5, "1.5"),
        (1e21, "1e+21"),
        ("a\x00b\ud800", "ab\ufffd"),
        (date(2024, 3, 1), "2024-03-01"),
        (datetime(2024, 3, 1), "2024-03-01"),
        (datetime(2024, 3, 1, 9, 30), "2024-03-01 09:30"),
        (datetime(2024, 3, 1, 9, 30, 5), "2024-03-01 09:30:05"),
        (time(9, 30), "09:30"),
        (timedelta(hours=30, minutes=5), "30:05:00"),
        (None, ""),
    ],
)
def test_values_are_shown_as_people_write_them(value: object, text: str) -> None:
    assert shown(value) == text


def test_damage_is_a_clear_refusal(tmp_path: Path) -> None:
    whole = workbook({"S": [["a"]]})
    for data in (whole[:700], container(b"rubbish"), whole[:512] + b"\xff" * 4000):
        with pytest.raises(ParseError) as caught:
            read(tmp_path, data)
        assert caught.value.code == "damaged_file"


@pytest.mark.parametrize("claim", [(0, 2**32 - 1, 0, 1), (9, 1, 0, 1), (0, 1, 0, 60_000)])
def test_a_sheet_that_claims_an_impossible_size_is_refused_before_memory_is_reserved(
    tmp_path: Path, claim: tuple[int, int, int, int]
) -> None:
    data = bytearray(workbook({"S": [["a"]]}))
    place = data.index(pack("<HH", 0x0200, 14)) + 4
    pack_into("<IIHH", data, place, *claim)
    with pytest.raises(ParseError) as caught:
        read(tmp_path, bytes(data))
    assert caught.value.code == "damaged_file"


def test_an_empty_workbook_has_no_text(tmp_path: Path) -> None:
    with pytest.raises(ParseError) as caught:
        read(tmp_path, workbook({"S": []}))
    assert caught.value.code == "no_text"


def test_what_is_no_old_workbook_is_refused_with_a_code(tmp_path: Path) -> None:
    sealed = container("EncryptedPackage".encode("utf-16-le"), name="EncryptedPackage")
    for data, code in ((b"", "empty_file"), (b"a,b\n1,2", "type_mismatch"), (sealed, "password_protected")):
        with pytest.raises(ParseError) as caught:
            office.parsed(xls.parse, tmp_path, data)
        assert caught.value.code == code
