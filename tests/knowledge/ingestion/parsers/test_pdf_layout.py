"""Reading order, tables, headings, lists and page furniture of PDFs."""

from __future__ import annotations

from pathlib import Path

from knowledge.ingestion.blocks import Block, ParseContext, ParsedDocument, Source
from knowledge.ingestion.parsers.pdf import parse
from tests.support.pdf_files import Mark, Page, grid, line, lines, pdf, text

LEFT = [
    "The left column of this page tells how",
    "the pump is opened, cleaned and closed",
    "again by two people who have read this",
    "manual from its first to its last page.",
    "They wear gloves and glasses all along.",
]
RIGHT = [
    "The right column speaks of something",
    "else entirely, namely of the prices that",
    "were agreed for the spare parts and for",
    "the hours of the people who fit them in",
    "the northern plant and in the southern.",
]


def read(tmp_path: Path, *pages: Page | str, outline: tuple[Mark, ...] = ()) -> ParsedDocument:
    path = tmp_path / "given.pdf"
    path.write_bytes(pdf(pages, outline))
    return parse(Source(path, "given.pdf", "application/pdf"), ParseContext())


def of_kind(parsed: ParsedDocument, kind: str) -> list[Block]:
    return [block for block in parsed.blocks if block.kind == kind]


def test_two_columns_are_read_one_after_the_other(tmp_path: Path) -> None:
    parsed = read(tmp_path, lines(60, 700, LEFT) + lines(320, 700, RIGHT))
    assert [block.text for block in parsed.blocks] == [" ".join(LEFT), " ".join(RIGHT)]


def test_columns_whose_lines_are_written_in_turn_are_not_woven(tmp_path: Path) -> None:
    woven = "".join(
        text(60, 700 - 14 * i, left) + text(320, 700 - 14 * i, right)
        for i, (left, right) in enumerate(zip(LEFT, RIGHT, strict=True))
    )
    assert [block.text for block in read(tmp_path, woven).blocks] == [" ".join(LEFT), " ".join(RIGHT)]


def test_a_title_across_both_columns_comes_first(tmp_path: Path) -> None:
    title = text(60, 760, "A title that runs over both columns of the page and is large", 18)
    parsed = read(tmp_path, lines(320, 700, RIGHT) + lines(60, 700, LEFT) + title)
    assert [block.kind for block in parsed.blocks] == ["heading", "paragraph", "paragraph"]
    assert parsed.blocks[1].text.startswith("The left column")


def test_a_ruled_table_of_three_by_three_becomes_a_markdown_table(tmp_path: Path) -> None:
    cells = [["Part", "Net", "Gross"], ["HX-2040B", "11,327", "12,800"], ["KT-7731D", "1,106", "1,250"]]
    drawn = grid([70, 200, 300, 400], [720, 700, 680, 660])
    words = "".join(
        text((76, 206, 306)[column], 706 - 20 * row, cell)
        for row, values in enumerate(cells)
        for column, cell in enumerate(values)
    )
    (table,) = read(tmp_path, drawn + words).blocks
    assert table.kind == "table"
    assert table.text.split("\n") == [
        "| Part | Net | Gross |",
        "|---|---|---|",
        "| HX-2040B | 11,327 | 12,800 |",
        "| KT-7731D | 1,106 | 1,250 |",
    ]
    assert table.bbox == (70.0, 122.0, 400.0, 182.0)


def test_merged_cells_stand_once_and_pipes_are_escaped(tmp_path: Path) -> None:
    drawn = "".join(line(x, 660, x, 720) for x in (70, 400)) + line(200, 660, 200, 720) + line(300, 660, 300, 700)
    drawn += line(70, 720, 400, 720) + line(200, 700, 400, 700) + line(70, 680, 400, 680) + line(70, 660, 400, 660)
    words = text(76, 695, "Part") + text(206, 706, "Price") + text(206, 686, "Net") + text(306, 686, "Gross")
    words += text(76, 666, "A|B") + text(206, 666, "1") + text(306, 666, "2")
    (table,) = read(tmp_path, drawn + words).blocks
    assert table.text.split("\n") == ["| Part | Price |  |", "|---|---|---|", "|  | Net | Gross |", "| A\\|B | 1 | 2 |"]


def test_text_around_a_table_keeps_its_order(tmp_path: Path) -> None:
    drawn = grid([70, 200, 300], [650, 630, 610])
    words = text(76, 636, "a") + text(206, 636, "b") + text(76, 616, "c") + text(206, 616, "d")
    parsed = read(tmp_path, text(72, 560, "After it.") + drawn + words + text(72, 700, "Before it."))
    assert [block.kind for block in parsed.blocks] == ["paragraph", "table", "paragraph"]
    assert parsed.blocks[0].text == "Before it." and parsed.blocks[2].text == "After it."


def test_columns_of_figures_without_lines_become_a_table(tmp_path: Path) -> None:
    rows = [("Region", "First", "Second"), ("North", "1,200", "900"), ("South", "14", "15,320"), ("West", "7", "8")]
    words = "".join(
        text(x, 700 - 18 * i, cell) for i, row in enumerate(rows) for x, cell in zip((72, 180, 260), row, strict=True)
    )
    (table,) = read(tmp_path, words).blocks
    assert table.kind == "table"
    assert "| South | 14 | 15,320 |" in table.text.split("\n")


def test_chinese_keys_and_values_become_a_table(tmp_path: Path) -> None:
    rows = [("姓名", "张三"), ("部门", "研发中心平台组"), ("入职日期", "2021-03-15"), ("工号", "007231")]
    words = "".join(text(72, 700 - 20 * i, key) + text(160, 700 - 20 * i, value) for i, (key, value) in enumerate(rows))
    (table,) = read(tmp_path, words).blocks
    assert table.kind == "table" and "| 工号 | 007231 |" in table.text


def test_headings_by_size_give_the_path_also_when_titles_recur(tmp_path: Path) -> None:
    body = "Some body text that is long enough to be the usual size of this page."
    page = (
        text(72, 780, "Manual", 20) + text(72, 740, "Pumps", 16) + text(72, 710, "Overview", 13) + text(72, 690, body)
    )
    page += (
        text(72, 640, "Valves", 16) + text(72, 610, "Overview", 13) + text(72, 590, "The Overview of valves ends here.")
    )
    parsed = read(tmp_path, page)
    assert [(block.text, block.level) for block in of_kind(parsed, "heading")] == [
        ("Manual", 1),
        ("Pumps", 2),
        ("Overview", 3),
        ("Valves", 2),
        ("Overview", 3),
    ]
    assert [block.heading_path for block in of_kind(parsed, "paragraph")] == [
        ("Manual", "Pumps", "Overview"),
        ("Manual", "Valves", "Overview"),
    ]


def test_a_heading_text_that_recurs_in_the_body_is_a_heading_only_where_the_outline_says(tmp_path: Path) -> None:
    first = text(72, 760, "Summary") + text(72, 730, "Summary of the year: it was good.")
    first += text(72, 700, "Summary ends.")
    second = text(72, 760, "Summary") + text(72, 730, "Second text.")
    parsed = read(tmp_path, first, second, outline=(Mark("Summary", 1, 75), Mark("Summary", 2, 75)))
    assert [(block.kind, block.page) for block in parsed.blocks] == [
        ("heading", 1),
        ("paragraph", 1),
        ("paragraph", 1),
        ("heading", 2),
        ("paragraph", 2),
    ]
    assert "Summary of the year: it was good." in parsed.text


def test_outline_titles_without_text_on_the_page_still_head_what_follows(tmp_path: Path) -> None:
    parsed = read(tmp_path, text(72, 700, "Plain words."), outline=(Mark("Cover", 1, 0),))
    assert parsed.blocks[0].heading_path == ("Cover",)


def test_a_list_keeps_its_marks_and_its_nesting(tmp_path: Path) -> None:
    items = text(72, 700, "1. Prepare the form") + text(72, 684, "2. Sign the form") + text(100, 668, "a) on paper")
    (block,) = read(tmp_path, items).blocks
    assert block.kind == "list"
    assert block.text == "1. Prepare the form\n2. Sign the form\n    a) on paper"


def test_repeated_heads_and_page_numbers_go_but_the_first_head_stays(tmp_path: Path) -> None:
    pages = [
        text(72, 810, "Annual report") + text(72, 600, f"Body text number {i} of this report.") + text(290, 30, str(i))
        for i in range(1, 5)
    ]
    parsed = read(tmp_path, *pages)
    assert parsed.text.count("Annual report") == 1
    assert [block.text for block in parsed.blocks[1:]] == [f"Body text number {i} of this report." for i in range(1, 5)]
    assert parsed.warnings == ("repeated_lines_dropped: 7 repeated headers, footers or page numbers were left out.",)


def test_a_line_that_only_names_its_page_within_a_sentence_stays(tmp_path: Path) -> None:
    parsed = read(tmp_path, *(text(72, 800, f"Page {i:04} of 9, marker QX-{i:04}") for i in range(1, 5)))
    assert [block.text for block in parsed.blocks] == [f"Page {i:04} of 9, marker QX-{i:04}" for i in range(1, 5)]


def test_a_word_broken_by_a_hyphen_at_the_end_of_a_line_is_joined(tmp_path: Path) -> None:
    (block,) = read(tmp_path, lines(72, 700, ["The yearly main-", "tenance is done in May"])).blocks
    assert block.text == "The yearly maintenance is done in May"


def test_a_paragraph_that_goes_on_over_the_page_break_is_one_block_on_its_first_page(tmp_path: Path) -> None:
    first = lines(
        72,
        100,
        ["This paragraph begins near the end of the page", "and it has not come to its end when the page is"],
    )
    parsed = read(tmp_path, first, lines(72, 780, ["full, so that it goes on here. And ends."]))
    assert len(parsed.blocks) == 1
    assert parsed.blocks[0].page == 1
    assert "page is full, so that" in parsed.text


def test_a_listing_keeps_its_lines_and_its_indentation(tmp_path: Path) -> None:
    listing = text(72, 600, "def f(x):", font="F4") + text(98.4, 586, "return x  # comment", font="F4")
    listing += text(72, 558, "f(1)", font="F4")
    parsed = read(tmp_path, lines(72, 700, LEFT) + listing)
    assert parsed.blocks[1].kind == "code"
    assert parsed.blocks[1].text == "```\ndef f(x):\n    return x  # comment\n\nf(1)\n```"


def test_a_table_that_goes_on_over_the_page_break_repeats_its_head(tmp_path: Path) -> None:
    def rows(top: float, *cells: tuple[str, str]) -> str:
        drawn = grid([70, 200, 300], [top - 20 * i for i in range(len(cells) + 1)])
        return drawn + "".join(
            text(76, top - 14 - 20 * i, a) + text(206, top - 14 - 20 * i, b) for i, (a, b) in enumerate(cells)
        )

    parsed = read(tmp_path, rows(100, ("Part", "Price"), ("A", "1")), rows(800, ("B", "2"), ("C", "3")))
    assert [block.page for block in parsed.blocks] == [1, 2]
    assert parsed.blocks[1].text.split("\n") == ["| Part | Price |", "|---|---|", "| B | 2 |", "| C | 3 |"]


def test_three_columns_under_a_title_between_two_other_parts_are_read_in_order(tmp_path: Path) -> None:
    thirds = [[f"{name} column line {i} has some words" for i in range(1, 6)] for name in ("First", "Second", "Third")]
    page = text(60, 780, "Upper part", 16) + lines(60, 740, LEFT) + lines(320, 740, RIGHT)
    page += text(60, 620, "Lower part", 16) + "".join(
        lines(x, 590, third, size=9) for x, third in zip((60, 230, 400), thirds, strict=True)
    )
    parsed = read(tmp_path, page)
    wanted = ["Upper part", " ".join(LEFT), " ".join(RIGHT), "Lower part", *(" ".join(third) for third in thirds)]
    assert [block.text for block in parsed.blocks] == wanted


def test_text_turned_by_a_quarter_is_read_along_its_own_lines(tmp_path: Path) -> None:
    turned = "q 0 1 -1 0 60 300 cm " + text(0, 0, "Up the left margin") + "Q\n"
    parsed = read(tmp_path, lines(100, 700, LEFT) + turned)
    assert [block.text for block in parsed.blocks] == [" ".join(LEFT), "Up the left margin"]
    assert parsed.blocks[1].bbox is not None
    left, top, right, bottom = parsed.blocks[1].bbox
    assert right - left < 20 < bottom - top


def test_exponents_indexes_and_marks_of_notes_stay_in_their_line(tmp_path: Path) -> None:
    raised = text(72, 700, "E = mc") + text(113, 704, "2", 7) + text(118, 700, "and H") + text(149, 697, "2", 7)
    raised += text(154, 700, "O is water, with more text on the line.")
    assert read(tmp_path, raised).text == "E = mc 2 and H 2O is water, with more text on the line."
    noted = text(72, 700, "This is a sentence with a note") + text(229, 705, "1", 6) + text(234, 700, "that goes on")
    noted += text(72, 686, "and a second line of text here.")
    assert read(tmp_path, noted).text == "This is a sentence with a note 1 that goes on and a second line of text here."
