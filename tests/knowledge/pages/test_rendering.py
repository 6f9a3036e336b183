"""Blocks as HTML: marks exactly on the passage, nothing of the document's own markup acts."""

from __future__ import annotations

import re

from knowledge.ingestion.blocks import Block, ParsedDocument, assemble
from knowledge.pages.passage_place import Span
from knowledge.pages.rendering import Marks, outline, part_at, part_html, parts, sanitised

TABLE = "| Part | Price |\n|---|---|\n| A-1 | 10 |\n| B\\|2 | 20 |\n| C-3 | 30 |"


def document(*blocks: Block) -> ParsedDocument:
    return assemble("text/markdown", blocks)


def html(parsed: ParsedDocument, marks: Marks | None = None) -> str:
    return "".join(part_html(part, marks or Marks(), lambda key: f"/bases/b/{key}/") for part in parts(parsed))


def marked(page: str) -> list[str]:
    return [re.sub(r"<[^>]+>", "", inner) for inner in re.findall(r"<mark[^>]*>(.*?)</mark>", page, re.S)]


def test_the_mark_covers_the_passage_and_nothing_else() -> None:
    parsed = document(Block("paragraph", "Before it. The valve opens at 4 bar. After it."))
    start = parsed.text.index("The valve")
    page = html(parsed, Marks([Span(start, start + len("The valve opens at 4 bar."))], "c_81"))
    assert marked(page) == ["The valve opens at 4 bar."]
    assert page.count('id="c_81"') == 1


def test_a_passage_over_several_blocks_is_marked_in_every_one_and_bears_one_anchor() -> None:
    parsed = document(
        Block("heading", "Leave", level=1),
        Block("paragraph", "Five days in the first year."),
        Block("list", "- one\n- two"),
        Block("paragraph", "Not this."),
    )
    end = parsed.text.index("\n\nNot this")
    page = html(parsed, Marks([Span(0, end)], "c_7"))
    assert marked(page) == ["Leave", "Five days in the first year.", "one", "two"]
    assert page.count('id="c_7"') == 1


def test_rows_of_a_table_are_marked_cell_by_cell() -> None:
    parsed = document(Block("table", TABLE))
    start = parsed.text.index("| B")
    page = html(parsed, Marks([Span(start, parsed.text.index("\n| C"))], "c_1"))
    assert marked(page) == ["B|2", "20"]
    assert page.count("<th ") == 2 and page.count("<tr>") == 4


def test_text_with_markup_of_its_own_stays_text() -> None:
    hostile = "<script>alert(1)</script> <img src=x onerror=alert(1)> [a](javascript:alert(1))"
    for kind in ("paragraph", "heading", "list", "code", "quote", "note", "qa"):
        page = html(document(Block(kind, hostile)))
        assert "<script" not in page and "<img" not in page and "<a " not in page, kind
        assert "&lt;script&gt;" in page, kind


def test_a_cell_with_markup_stays_text() -> None:
    page = html(document(Block("table", "| a |\n|---|\n| <img src=x onerror=alert(1)> |")))
    assert "<img" not in page and "&lt;img" in page


def test_marks_do_not_open_a_way_for_markup() -> None:
    parsed = document(Block("paragraph", 'x <b onclick="1">y</b> z'))
    page = html(parsed, Marks([Span(3, 12)], '"><script>'))
    assert "<script" not in page and "<b" not in page


def test_pictures_come_from_the_revision_only() -> None:
    page = html(document(Block("image", "A pump", image="ab12")))
    assert 'src="/bases/b/ab12/?size=small"' in page and 'alt="A pump"' in page
    assert '<a href="/bases/b/ab12/"' in page
    assert "href=" not in sanitised('<a href="https://tracker.example/">x</a><a href="//tracker.example/">y</a>')
    assert "src=" not in sanitised('<img src="https://tracker.example/p.png">')
    assert "src=" not in sanitised('<img src="//tracker.example/p.png">')
    assert "onerror" not in sanitised('<img src="/bases/b/k/" onerror="alert(1)">')


def test_lists_keep_numbers_and_nesting() -> None:
    page = html(document(Block("list", "3. three\n4. four\n   - inner\n5. five")))
    assert '<li value="3">three</li>' in page
    assert re.search(r'<li value="4">four<ul><li>inner</li></ul></li>', page)


def test_code_loses_its_fences_and_keeps_its_spaces() -> None:
    page = html(document(Block("code", "```py\nif x:\n    y = 1\n```")))
    assert "<code>if x:\n    y = 1</code>" in page and "```" not in page


def test_a_long_table_is_cut_between_rows_and_repeats_its_head() -> None:
    rows = "\n".join(f"| row {number} | {'x' * 60} |" for number in range(1_000))
    parsed = document(Block("table", f"| Name | Text |\n|---|---|\n{rows}"))
    found = parts(parsed)
    assert len(found) > 2
    pages = [part_html(part, Marks(), str) for part in found]
    assert all("<th" in page and "Name" in page for page in pages)
    assert sum(len(re.findall(r"<td>row \d+</td>", page)) for page in pages) == 1_000


def test_parts_cover_the_text_once_and_offsets_lead_to_them() -> None:
    parsed = document(*[Block("paragraph", f"Paragraph {number}. " * 40, page=number) for number in range(1, 200)])
    found = parts(parsed)
    assert len(found) > 3
    assert [part.number for part in found] == list(range(1, len(found) + 1))
    for offset in (0, len(parsed.text) // 2, len(parsed.text) - 1):
        part = found[part_at(found, offset) - 1]
        assert part.start <= offset < part.end + 2


def test_an_endless_line_is_cut_and_marked_across_the_cut() -> None:
    parsed = document(Block("paragraph", "x" * 20_000))
    page = html(parsed, Marks([Span(5_990, 6_010)], "c_2"))
    assert "".join(marked(page)) == "x" * 20 and page.count('id="c_2"') == 1


def test_the_outline_leads_to_parts_and_stays_short() -> None:
    blocks = [Block("heading", f"Title {number}", level=1 + number % 4) for number in range(2_000)]
    rows = outline(parts(document(*blocks)))
    assert 0 < len(rows) <= 400
    assert rows[0].title == "Title 0" and rows[0].part == 1
