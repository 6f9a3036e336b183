"""What a workbook becomes, and when it is refused."""

from __future__ import annotations

import io
import time
import zipfile
from pathlib import Path

import pytest
from openpyxl import Workbook

from knowledge.ingestion.blocks import Block, ParseContext, ParsedDocument
from knowledge.ingestion.parsers.xlsx import parse
from knowledge.ingestion.split import SplitSettings, split
from portal.kernel.errors import ParseError
from tests.knowledge.ingestion.split.counting import CharacterCounter
from tests.support import office_files as office
from tests.support.office_files import cell_styles, text_rows, workbook, worksheet


def read(tmp_path: Path, data: bytes, context: ParseContext | None = None) -> ParsedDocument:
    return office.parsed(parse, tmp_path, data, context)


def refusal(tmp_path: Path, data: bytes, context: ParseContext | None = None) -> str:
    with pytest.raises(ParseError) as caught:
        read(tmp_path, data, context)
    return caught.value.code


def tables(found: ParsedDocument) -> list[Block]:
    return [block for block in found.blocks if block.kind == "table"]


def grid(block: Block) -> list[list[str]]:
    lines = block.text.split("\n")
    return [[part.strip() for part in line[1:-1].split(" | ")] for line in [lines[0], *lines[2:]]]


def numbers(*cells: str) -> str:
    """One row of `<c>` elements under a head row of letters."""
    head = text_rows([[chr(65 + n) for n in range(len(cells))]])
    return head + '<row r="2">' + "".join(cells) + "</row>"


def test_every_sheet_stands_with_its_name_and_blank_sheets_are_skipped(tmp_path: Path) -> None:
    sheets = {"库存": text_rows([["a", "b"], ["1", "2"]]), "Empty": "", "Other": text_rows([["c", "d"], ["3", "4"]])}
    found = read(tmp_path, workbook(sheets))
    assert [(b.kind, b.text) for b in found.blocks if b.kind == "heading"] == [
        ("heading", "库存"),
        ("heading", "Other"),
    ]
    assert [(b.sheet, b.heading_path, b.rows) for b in tables(found)] == [
        ("库存", ("库存",), (1, 2)),
        ("Other", ("Other",), (1, 2)),
    ]


def test_hidden_sheets_are_marked_in_the_text_and_by_a_warning(tmp_path: Path) -> None:
    states = {"Secret": "hidden", "Deep": "veryHidden"}
    found = read(tmp_path, workbook({n: text_rows([["x"]]) for n in ("Open", "Secret", "Deep")}, states=states))
    assert [b.text for b in found.blocks if b.kind == "heading"] == ["Open", "Secret (hidden)", "Deep (hidden)"]
    assert [w.split(":")[0] for w in found.warnings] == ["hidden_sheet", "hidden_sheet"]


def test_falsy_cells_are_kept_as_they_are_shown(tmp_path: Path) -> None:
    cells = (
        '<c r="A2"><v>0</v></c>',
        '<c r="B2" t="b"><v>0</v></c>',
        '<c r="C2" s="1"><v>0</v></c>',
        '<c r="D2"><v>0.0</v></c>',
    )
    found = read(tmp_path, workbook({"S": numbers(*cells)}, styles=cell_styles("0.00%")))
    assert grid(tables(found)[0])[1] == ["0", "FALSE", "0.00%", "0.0"]


def test_text_that_looks_like_a_number_keeps_every_character(tmp_path: Path) -> None:
    texts = ["007", "110105194912310021", "+86 138-0013-8000", "1e5", "3.10"]
    shared = "".join(f'<c r="{chr(65 + n)}2" t="s"><v>{n}</v></c>' for n in range(len(texts)))
    found = read(tmp_path, workbook({"S": numbers(shared, *[""] * 4)}, strings=[f"<t>{t}</t>" for t in texts]))
    assert grid(tables(found)[0])[1] == texts


def test_stored_numbers_keep_their_digits_and_lose_binary_noise(tmp_path: Path) -> None:
    values = ["123456789012345678", "0.30000000000000004", "1.5E+3", "43.22", "-7", "1E-7"]
    cells = [f'<c r="{chr(65 + n)}2"><v>{v}</v></c>' for n, v in enumerate(values)]
    found = read(tmp_path, workbook({"S": numbers(*cells)}))
    assert grid(tables(found)[0])[1] == ["123456789012345678", "0.3", "1500", "43.22", "-7", "0.0000001"]


@pytest.mark.parametrize(
    ("code", "stored", "shown"),
    [
        ("yyyy/m/d", "45352", "2024-03-01"),
        ('yyyy"年"m"月"d"日"', "45352", "2024-03-01"),
        ("[$-804]yyyy-mm-dd hh:mm", "45352.604166666664", "2024-03-01 14:30"),
        ("yyyy-mm-dd hh:mm:ss", "44927", "2023-01-01 00:00:00"),
        ("mmm-yy", "45352", "2024-03"),
        ("h:mm", "0.75", "18:00"),
        ("[h]:mm:ss", "1.5", "36:00:00"),
        ("yyyy-mm-dd", "59", "1900-02-28"),
        ("0%", "0.125", "13%"),
        ("0.00%", "0.5", "50.00%"),
        ("0.0%;[Red]-0.0%", "-0.015", "-1.5%"),
        ("000000", "42", "000042"),
        ("000\\-0000", "5551234", "555-1234"),
        ("Standard", "7", "7"),
        ("[$-804]aaaa", "45352", "2024-03-01"),
        ("General", "7", "7"),
        ("@", "7", "7"),
        ("yyyy-mm-dd", "99999999", "99999999"),
    ],
)
def test_dates_percentages_and_padded_numbers_are_shown_as_in_the_sheet(
    tmp_path: Path, code: str, stored: str, shown: str
) -> None:
    escaped = code.replace('"', "&quot;")
    data = workbook({"S": numbers(f'<c r="A2" s="1"><v>{stored}</v></c>', "")}, styles=cell_styles(escaped))
    assert read(tmp_path, data).blocks[-1].text.split("\n")[-1].strip("| ") == shown


@pytest.mark.parametrize(
    ("code", "stored", "shown"),
    [
        ("#,##0.00", "1234.5", "1,234.50"),
        ('#,##0.00 "€"', "1234.5", "1,234.50 €"),
        ("[$€-407] #,##0.00", "-1234.5", "-€ 1,234.50"),
        ("0.00 €", "3.14159", "3.14159 €"),
        ("0.00", "0.333333333333333", "0.33"),
        ('_-* #,##0.00_-;\\-* #,##0.00_-;_-* "-"??_-;_-@_-', "0", "-"),
        ('_-* #,##0.00_-;\\-* #,##0.00_-;_-* "-"??_-;_-@_-', "-1234.5", "-1,234.50"),
        ("#,##0_);[Red](#,##0)", "-1234", "(1,234)"),
        ("0.00;[Red]0.00", "-5", "-5.00"),
        ("¥#,##0.00;¥-#,##0.00", "-1234.5", "¥-1,234.50"),
        ("# ?/?", "1.75", "1 3/4"),
        ("# ??/??", "0.3333", "0.3333"),
        ("0.00E+00", "1500", "1.50E+03"),
        ("0.00E+00", "123456", "123456"),
        ('0.0,,"M"', "1500000", "1.5M"),
        ('"Yes";;"No"', "1", "Yes"),
        ('"Yes";;"No"', "0", "No"),
        (";;;@", "5", ""),
        ('[&lt;100]"low";[&gt;=100]"high "0', "150", "high 150"),
        ('[&lt;100]"low";[&gt;=100]"high "0', "50", "low"),
        ("[&lt;=9999999]###-####;(###) ###-####", "2125551234", "(212) 555-1234"),
        ('General" pcs"', "5", "5 pcs"),
        ('"Day "0', "3", "Day 3"),
        ("0000\\-00\\-00", "20240301", "2024-03-01"),
    ],
)
def test_a_number_wears_its_format_wherever_that_loses_nothing(
    tmp_path: Path, code: str, stored: str, shown: str
) -> None:
    styles = cell_styles(code.replace('"', "&quot;"))
    data = workbook({"S": numbers(f'<c r="A2" s="1"><v>{stored}</v></c>', '<c r="B2"><v>1</v></c>')}, styles=styles)
    assert grid(tables(read(tmp_path, data))[0])[1][0] == shown


def test_a_text_wears_the_text_section_of_its_format_whichever_way_it_is_stored(tmp_path: Path) -> None:
    cells = (
        '<c r="A2" s="1" t="s"><v>0</v></c>',
        '<c r="B2" s="1" t="inlineStr"><is><t>b</t></is></c>',
        '<c r="C2" s="1" t="str"><f>X</f><v>c</v></c>',
        '<c r="D2" s="2" t="s"><v>0</v></c>',
        "<c r='E2' s='1' t='inlineStr'><is><t>e</t></is></c>",
    )
    styles = cell_styles("@&quot; kg&quot;", ";;;")
    for written in (cells[:4], cells):  # the last cell makes the row an unusual one, which takes the other way
        found = read(tmp_path, workbook({"S": numbers(*written)}, styles=styles, strings=["<t>a</t>"]))
        assert grid(tables(found)[0])[1][:4] == ["a kg", "b kg", "c kg", ""]


def test_the_1904_date_system_is_respected(tmp_path: Path) -> None:
    data = workbook(
        {"S": '<row r="1"><c r="A1" s="1"><v>0</v></c></row>'},
        styles=cell_styles("yyyy-mm-dd"),
        settings='<workbookPr date1904="1"/>',
    )
    assert read(tmp_path, data).blocks[-1].text == "1904-01-01"


def test_formulas_stand_as_their_stored_values_and_missing_ones_are_named(tmp_path: Path) -> None:
    cells = (
        '<c r="A2"><f>1+1</f><v>2</v></c>',
        '<c r="B2"><f>NOW()</f></c>',
        '<c r="C2"><f>X1</f><v></v></c>',
        '<c r="D2" t="str"><f>""</f><v></v></c>',
        '<c r="E2" t="e"><f>1/0</f><v>#DIV/0!</v></c>',
    )
    found = read(tmp_path, workbook({"S": numbers(*cells)}))
    assert grid(tables(found)[0])[1] == ["2", "", "", "", "#DIV/0!"]
    assert [w.split(":")[0] for w in found.warnings] == ["formula_without_value", "error_cells"]
    assert "2 formulas" in found.warnings[0] and "B2" in found.warnings[0]


def test_a_workbook_of_formulas_that_were_never_calculated_says_so(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match="no stored values") as caught:
        read(tmp_path, workbook({"S": '<row r="1"><c r="A1"><f>NOW()</f></c></row>'}))
    assert caught.value.code == "no_text"


def test_merged_cells_stand_once_even_where_an_export_repeated_the_value(tmp_path: Path) -> None:
    rows = text_rows([["name", "sex"], ["Li", "F"], ["Wang", "F"], ["Zhao", "M"]])
    data = workbook({"S": worksheet(rows, after='<mergeCells><mergeCell ref="B2:B3"/></mergeCells>')})
    assert grid(tables(read(tmp_path, data))[0]) == [["name", "sex"], ["Li", "F"], ["Wang", ""], ["Zhao", "M"]]


def test_blank_rows_and_columns_divide_a_sheet_into_its_tables(tmp_path: Path) -> None:
    left = [["a", "b", "", "p", "q"], ["1", "2", "", "8", "9"], [], [], ["x", "y", "z"], ["k", "l", "m"]]
    found = read(tmp_path, workbook({"S": text_rows(left)}))
    assert [(grid(b), b.rows) for b in tables(found)] == [
        ([["a", "b"], ["1", "2"]], (1, 2)),
        ([["p", "q"], ["8", "9"]], (1, 2)),
        ([["x", "y", "z"], ["k", "l", "m"]], (5, 6)),
    ]


def test_a_table_goes_on_after_one_blank_row_where_its_numbers_go_on(tmp_path: Path) -> None:
    rows = [["item", "price"], ["nut", "1"], ["bolt", "2"], [], ["gear", "3"]]
    found = read(tmp_path, workbook({"S": text_rows(rows)}))
    assert [b.rows for b in tables(found)] == [(1, 5)]
    assert len(tables(found)[0].text.split("\n")) == 6


def test_a_sheet_that_leaves_every_other_row_blank_is_one_table(tmp_path: Path) -> None:
    rows: list[list[str]] = [["item", "note"]]
    for number in range(12):
        rows += [[], [f"part {number}", "x"]]
    table = tables(read(tmp_path, workbook({"S": text_rows(rows)})))
    assert [(b.rows, grid(b)[0]) for b in table] == [((1, 25), ["item", "note"])]
    assert grid(table[0])[-1] == ["part 11", "x"]


def test_a_sheet_in_thousands_of_pieces_is_listed(tmp_path: Path) -> None:
    rows = "".join(
        f'<row r="{3 * n}"><c r="A{3 * n}"><v>{n}</v></c><c r="C{3 * n}"><v>1</v></c></row>' for n in range(1, 1500)
    )
    found = read(tmp_path, workbook({"S": rows}))
    assert [b.kind for b in found.blocks] == ["heading", "list"]
    assert "A3: 1; C3: 1\nA6: 2; C6: 1" in found.text


def test_a_title_above_a_table_heads_it_and_is_not_its_head_row(tmp_path: Path) -> None:
    rows = text_rows([["Sales 2024"], ["region", "sum"], ["north", "5"]])
    data = workbook({"S": worksheet(rows, after='<mergeCells><mergeCell ref="A1:B1"/></mergeCells>')})
    table = tables(read(tmp_path, data))[0]
    assert (table.heading_path, grid(table)[0], table.rows) == (("S", "Sales 2024"), ["region", "sum"], (2, 3))


def test_a_head_of_two_rows_becomes_one(tmp_path: Path) -> None:
    rows = text_rows([["item", "price", ""], ["", "net", "gross"], ["nut", "1", "2"]])
    merges = '<mergeCells><mergeCell ref="B1:C1"/><mergeCell ref="A1:A2"/></mergeCells>'
    table = tables(read(tmp_path, workbook({"S": worksheet(rows, after=merges)})))[0]
    assert grid(table) == [["item", "price net", "gross"], ["nut", "1", "2"]]
    assert table.rows == (2, 3)


def test_rows_below_a_head_of_two_rows_keep_their_numbers_when_the_table_is_split(tmp_path: Path) -> None:
    body = [[f"nut {number}", str(number), "2"] for number in range(3, 60)]
    rows = text_rows([["item", "price", ""], ["", "net", "gross"], *body])
    merges = '<mergeCells><mergeCell ref="B1:C1"/><mergeCell ref="A1:A2"/></mergeCells>'
    found = read(tmp_path, workbook({"S": worksheet(rows, after=merges)}))
    passages = split(found, CharacterCounter(), SplitSettings(mode="rows"))
    assert [passage.rows for passage in passages if "nut 42 " in passage.text] == [(42, 42)]


def test_a_used_range_to_the_last_cell_costs_nothing(tmp_path: Path) -> None:
    rows = '<row r="1"><c r="A1" t="inlineStr"><is><t>near</t></is></c></row>'
    rows += '<row r="1048576"><c r="XFD1048576" t="inlineStr"><is><t>far</t></is></c></row>'
    whole = worksheet(rows).replace("<sheetData>", '<dimension ref="A1:XFD1048576"/><sheetData>')
    started = time.process_time()
    found = read(tmp_path, workbook({"S": whole}))
    assert [(b.text, b.rows) for b in found.blocks[1:]] == [("near", (1, 1)), ("far", (1_048_576, 1_048_576))]
    assert time.process_time() - started < 1.0


def test_a_scattered_sheet_is_listed_cell_by_cell_instead_of_drawn(tmp_path: Path) -> None:
    rows = "".join(
        f'<row r="{n}"><c r="A{n}"><v>{n}</v></c><c r="{column}{n}"><v>1</v></c></row>'
        for n, column in ((n, f"{chr(65 + n // 26)}{chr(65 + n % 26)}") for n in range(1, 600))
    )
    found = read(tmp_path, workbook({"S": rows}))
    assert len(found.text) < 40_000
    assert "AC2: 1" in found.text
    assert "XB599: 1" in found.text


def test_fifty_thousand_merged_ranges_do_not_take_long(tmp_path: Path) -> None:
    merges = "".join(f'<mergeCell ref="A{n}:B{n}"/>' for n in range(1, 50_001))
    data = workbook({"S": worksheet(text_rows([["a", "b"]]), after=f"<mergeCells>{merges}</mergeCells>")})
    started = time.process_time()
    assert "a" in read(tmp_path, data).text
    assert time.process_time() - started < 3.0


def test_phonetic_guides_are_left_out_and_escapes_resolved(tmp_path: Path) -> None:
    strings = ["<r><t>日本</t></r><r><t>語</t></r><rPh><t>ニホン</t></rPh>", "<t>a_x000D_b_xD83D_c_x0000_d</t>"]
    rows = '<row r="1"><c r="A1" t="s"><v>0</v></c></row><row r="2"><c r="A2" t="s"><v>1</v></c></row>'
    text = read(tmp_path, workbook({"S": rows}, strings=strings)).blocks[-1].text
    assert text == "日本語\na\nb\ufffdcd"


def test_a_nul_in_a_cell_does_not_reach_the_text(tmp_path: Path) -> None:
    found = read(
        tmp_path, workbook({"S": '<row r="1"><c r="A1"><v>12</v></c><c r="B1" t="str"><v>a\x00b</v></c></row>'})
    )
    assert "\x00" not in found.text
    assert "12" in found.text


def test_both_ways_of_reading_a_sheet_agree(tmp_path: Path) -> None:
    rows = (
        '<row r="1" spans="1:3"><c r="A1" t="s"><v>0</v></c><c r="B1" s="1"><v>0.5</v></c>'
        '<c r="C1" t="b"><v>1</v></c></row><row r="3"/>'
        '<row r="4"><c r="A4"><f>B1*2</f><v>1</v></c><c r="B4"><f t="shared" si="0"/></c><c r="C4" s="1"/></row>'
        '<row><c><v>5</v></c><c t="str"><v>x &amp; y</v></c></row>'
    )
    usual = worksheet(rows)
    prefixed = usual.replace("<", "<x:").replace("<x:/", "</x:").replace("<x:worksheet xmlns=", "<x:worksheet xmlns:x=")
    texts = [
        read(tmp_path, workbook({"S": sheet}, strings=["<t>s</t>"], styles=cell_styles("0%")))
        for sheet in (usual, prefixed)
    ]
    assert texts[0].text == texts[1].text
    assert texts[0].warnings == texts[1].warnings
    assert "x & y" in texts[0].text and "50%" in texts[0].text


def test_what_other_programs_write_is_read_alike(tmp_path: Path) -> None:
    book = Workbook()
    sheet = book.active
    sheet.append(["name", "share"])
    sheet.append(["Ann", 0.25])
    sheet["B2"].number_format = "0%"
    stream = io.BytesIO()
    book.save(stream)
    assert grid(tables(read(tmp_path, stream.getvalue()))[0]) == [["name", "share"], ["Ann", "25%"]]


def test_iso_strict_workbooks_are_read(tmp_path: Path) -> None:
    strict = "http://purl.oclc.org/ooxml/spreadsheetml/main"
    rows = '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="d"><v>2024-03-01T00:00:00</v></c></row>'
    found = read(tmp_path, workbook({"S": rows}, strings=["<t>due</t>"], namespace=strict))
    assert grid(tables(found)[0]) == [["due", "2024-03-01"]]


def test_comments_and_text_boxes_on_a_sheet_are_kept(tmp_path: Path) -> None:
    related = office.links(("c", "comments", "../comments1.xml"), ("d", "drawing", "../drawings/drawing1.xml"))
    comment = '<commentList><comment ref="B2"><text><t>check this</t></text></comment></commentList>'
    box = office.root("x", "<x><sp><a:p><a:r><a:t>a box</a:t></a:r></a:p></sp></x>")
    data = workbook(
        {"S": text_rows([["a", "b"], ["1", "2"]])},
        parts={
            "xl/worksheets/_rels/sheet1.xml.rels": related,
            "xl/comments1.xml": f'<comments xmlns="{office.SHEET}">{comment}</comments>',
            "xl/drawings/drawing1.xml": box,
        },
    )
    found = read(tmp_path, data)
    assert [(b.kind, b.text, b.rows) for b in found.blocks[2:]] == [
        ("note", "B2: check this", (2, 2)),
        ("paragraph", "a box", None),
    ]


def test_a_sheet_that_breaks_off_is_kept_up_to_there(tmp_path: Path) -> None:
    cut = worksheet(text_rows([["a", "b"], ["1", "2"], ["3", "4"]]))[:-120]
    found = read(tmp_path, workbook({"S": cut}))
    assert "| 1 | 2 |" in found.text
    assert found.warnings[0].startswith("malformed_part:")


def test_one_missing_sheet_does_not_lose_the_others(tmp_path: Path) -> None:
    data = workbook({"A": text_rows([["x"]]), "B": text_rows([["y"]])})
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(stream, "w") as new:
        for name in old.namelist():
            if not name.endswith("sheet1.xml"):
                new.writestr(name, old.read(name))
    found = read(tmp_path, stream.getvalue())
    assert "y" in found.text
    assert found.warnings[0].startswith("missing_part:")


def test_progress_moves_with_the_sheets(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    context = ParseContext(progress=lambda done, total: seen.append((done, total)))
    read(tmp_path, workbook({"A": text_rows([["x"]]), "B": text_rows([["y"]])}), context)
    assert seen[-1] == (2, 2)


def test_what_is_no_workbook_is_refused_with_a_code(tmp_path: Path) -> None:
    assert refusal(tmp_path, b"") == "empty_file"
    assert refusal(tmp_path, b"a,b\n1,2\n") == "type_mismatch"
    assert refusal(tmp_path, office.word_file(office.paragraph("x"))) == "type_mismatch"
    assert refusal(tmp_path, workbook({"S": ""})) == "no_text"
    assert refusal(tmp_path, workbook({"S": text_rows([["a"]])})[:300]) == "damaged_file"
    assert refusal(tmp_path, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600) == "damaged_file"


@pytest.mark.parametrize(
    "part", ["xl/sharedStrings.xml", "xl/worksheets/sheet1.xml", "xl/workbook.xml", "xl/styles.xml"]
)
def test_entities_are_refused_in_every_part(tmp_path: Path, part: str) -> None:
    laughs = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>'
    with zipfile.ZipFile(io.BytesIO(workbook({"S": text_rows([["a"]])}))) as old:
        parts = {name: old.read(name).decode() for name in old.namelist()}
    assert refusal(tmp_path, office.zip_of({**parts, part: laughs + parts[part]})) == "unsafe_xml"


def test_more_cells_or_text_than_the_limit_is_refused(tmp_path: Path) -> None:
    rows = "".join(f'<row r="{n}"><c r="A{n}" t="s"><v>0</v></c></row>' for n in range(1, 101))
    data = workbook({"S": rows}, strings=[f"<t>{'x' * 1000}</t>"])
    assert refusal(tmp_path, data, ParseContext(max_text=50_000)) == "too_large"
    assert refusal(tmp_path, data, ParseContext(max_cells=50)) == "too_large"
