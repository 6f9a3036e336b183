"""HTML pages."""

from __future__ import annotations

import time

import pytest

from tests.knowledge.ingestion.parsing import codes, parse, shapes


def test_text_before_and_between_blocks_is_kept() -> None:
    document = parse("loose words<p>first</p>between<div>second</div>tail", "html")
    assert [text for _, text in shapes(document)] == ["loose words", "first", "between", "second", "tail"]


def test_gbk_page_that_declares_gb2312_keeps_characters_beyond_gb2312() -> None:
    page = '<html><head><meta charset="gb2312"></head><body><p>陶喆与镕基，发票报销流程</p></body></html>'
    assert parse(page.encode("gbk"), "html").text == "陶喆与镕基，发票报销流程"


def test_declaration_that_lies_is_ignored() -> None:
    page = '<meta charset="utf-8"><p>员工请假须提前三个工作日在系统中提交申请</p>'
    assert parse(page.encode("gbk"), "html").text == "员工请假须提前三个工作日在系统中提交申请"


def test_spans_stand_once_and_the_grid_stays_straight() -> None:
    page = (
        "<table><tr><th>h1<th colspan=2>h2</tr><tr><td rowspan=2>a<td>b<td>c</tr>"
        "<tr><td colspan=2>d</tr><tr><td>e<td>f<td>g</tr></table>"
    )
    assert shapes(parse(page, "html")) == [
        ("table", "| h1 | h2 |  |\n|---|---|---|\n| a | b | c |\n|  | d |  |\n| e | f | g |")
    ]


def test_absurd_spans_are_bounded() -> None:
    page = "<table><tr><th>a</th></tr><tr><td colspan=1000000000 rowspan=1000000000>b</td></tr></table>"
    assert "b" in parse(page, "html").text


def test_layout_table_is_read_as_a_page() -> None:
    inner = "<table><tr><th>k</th><th>v</th></tr><tr><td>1</td><td>2</td></tr></table>"
    page = f"<table><tr><td><h1>News</h1><p>one</p>{inner}</td></tr></table>"
    assert shapes(parse(page, "html")) == [
        ("heading", "News"),
        ("paragraph", "one"),
        ("table", "| k | v |\n|---|---|\n| 1 | 2 |"),
    ]


def test_lists_and_nested_table_inside_a_cell_are_text_of_that_cell() -> None:
    cell = "<ul><li>x</li><li>y</li></ul><table><tr><td>n</td></tr></table>"
    page = f"<table><tr><th>k</th><th>v</th></tr><tr><td>a</td><td>{cell}</td></tr></table>"
    assert shapes(parse(page, "html")) == [("table", "| k | v |\n|---|---|\n| a | x y n |")]


def test_scripts_styles_and_comments_are_dropped() -> None:
    page = "<style>b{}</style><script>x()</script><!-- c --><template><p>t</p></template><p>kept</p>"
    assert parse(page, "html").text == "kept"


def test_noscript_is_dropped_only_when_it_begs() -> None:
    assert parse("<body><noscript>Please enable JavaScript to run this app.</noscript>", "html").blocks == ()
    assert parse("<noscript><p>the page itself</p></noscript>", "html").text == "the page itself"


def test_preformatted_text_keeps_its_lines_and_language() -> None:
    page = '<pre><code class="language-python">def f():\n    return 1\n</code></pre>'
    assert shapes(parse(page, "html")) == [("code", "```python\ndef f():\n    return 1\n```")]


def test_title_is_the_first_heading_only_without_h1() -> None:
    assert shapes(parse("<title>T</title><h2>x</h2>", "html")) == [("heading", "T"), ("heading", "x")]
    assert shapes(parse("<title>T</title><h1>x</h1>", "html")) == [("heading", "x")]
    assert parse("<title>T</title><h1>x</h1>", "html").title == "T"


def test_list_numbers_start_where_the_author_said() -> None:
    assert shapes(parse("<ol start=4><li>a<li value=9>b<li>c</ol>", "html")) == [("list", "4. a\n9. b\n10. c")]


def test_alt_text_is_searchable_and_line_breaks_stay() -> None:
    assert parse('<p>a<br>b <img src="http://x/y.png" alt="架构图"> c</p>', "html").text == "a\nb 架构图 c"


def test_line_break_inside_a_chinese_sentence_is_no_space() -> None:
    assert parse("<p>员工\n  手册 and\nwords</p>", "html").text == "员工手册 and words"


def test_list_goes_on_after_code_inside_an_item() -> None:
    page = "<ol><li>a<pre>code</pre>more</li><li>b</li></ol>"
    assert shapes(parse(page, "html")) == [("list", "1. a"), ("code", "```\ncode\n```"), ("list", "  more\n2. b")]


def test_menu_of_many_links_has_no_addresses() -> None:
    links = "".join(f'<a href="https://example.com/{number}">{number}</a> ' for number in range(9))
    assert "https" not in parse(f"<p>{links}</p>", "html").text
    assert parse('<p><a href="https://example.com/a">a</a></p>', "html").text == "a <https://example.com/a>"


def test_hundred_thousand_nested_elements_end_soon() -> None:
    started = time.monotonic()
    document = parse("<div>" * 100_000 + "innermost", "html")
    assert document.text == "innermost"
    assert time.monotonic() - started < 10


def test_hundred_thousand_attributes_end_soon() -> None:
    started = time.monotonic()
    attributes = " ".join(f"a{number}=1" for number in range(100_000))
    assert parse(f"<p {attributes}>kept</p>", "html").text == "kept"
    assert time.monotonic() - started < 10


def test_unclosed_paragraphs_of_a_long_page_are_not_nesting() -> None:
    assert len(parse("<p>x<li>y" * 4000, "html").blocks) >= 4000


@pytest.mark.parametrize("page", ["", "<", "<html>", "<!-- never closed", "<table><tr>"])
def test_broken_pages_give_nothing_and_no_error(page: str) -> None:
    assert codes(parse(page, "html")) == []


def test_an_element_that_is_closed_at_once_in_xhtml_swallows_nothing() -> None:
    page = '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><script src="a.js"/><title/></head>'
    assert shapes(parse(page + "<body><p>after</p></body></html>", "xhtml")) == [("paragraph", "after")]


def test_raised_and_lowered_figures_are_no_part_of_the_number_beside_them() -> None:
    page = "<p>5×10<sup>6</sup> m<sup>2</sup>, H<sub>2</sub>O, the 4<sup>th</sup></p>"
    page += "<table><tr><th>x<sup>-1</sup></th><th>b</th></tr></table>"
    assert parse(page, "html").text == "5×10⁶ m², H₂O, the 4th\n\n| x⁻¹ | b |\n|---|---|"


def test_cells_of_a_nested_table_stay_apart() -> None:
    inner = "<table><tr><td>x</td><td>y</td></tr><tr><td>z</td><td>w</td></tr></table>"
    page = f"<table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>see {inner}</td></tr></table>"
    assert parse(page, "html").text.split("\n")[-1] == "| 1 | see x, y; z, w |"
    deep = "<table><tr><th>h</th><td>" * 300 + "core"
    assert "core" in parse(deep, "html").text


def test_terms_and_their_definitions_stay_together() -> None:
    page = "<dl><dt>Term</dt><dd>One</dd><dd>Two</dd><dt>T2</dt><dd>D2</dd></dl><dl><dd>only indented</dd></dl>"
    assert shapes(parse(page, "html")) == [
        ("list", "- Term\n  One\n  Two\n- T2\n  D2"),
        ("paragraph", "only indented"),
    ]


def test_list_numbers_are_written_as_the_list_shows_them() -> None:
    page = '<ol type="a"><li>x<li>y</ol><ol type="I" start=3><li>z</ol><ol reversed><li>p<li>q</ol>'
    assert parse(page, "html").text == "a. x\nb. y\n\nIII. z\n\n2. p\n1. q"


def test_formulas_keep_their_fractions_and_powers() -> None:
    page = "<p>y = <math><mfrac><mi>a</mi><mrow><mi>b</mi><mo>+</mo><mn>1</mn></mrow></mfrac>"
    page += "<msup><mi>x</mi><mn>2</mn></msup></math></p>"
    assert parse(page, "html").text == "y = a/(b+1)x^2"
    assert parse('<math alttext="x_1"><mi>x</mi></math>', "html").text == "x_1"


def test_relative_links_follow_the_base_of_the_page() -> None:
    page = '<base href="https://ex.org/dir/"><p>See <a href="page.html">here</a></p>'
    assert parse(page, "html").text == "See here <https://ex.org/dir/page.html>"


def test_foot_of_a_table_stands_last_and_a_title_inside_a_drawing_is_not_the_pages() -> None:
    page = (
        "<svg><title>icon</title></svg><table><tfoot><tr><td>Sum</td><td>3</td></tr></tfoot>"
        "<thead><tr><th>k</th><th>v</th></tr></thead><tbody><tr><td>a</td><td>1</td></tr></tbody></table>"
    )
    found = parse(page, "html")
    assert found.title == ""
    assert found.text.endswith("| k | v |\n|---|---|\n| a | 1 |\n| Sum | 3 |")


def test_what_stands_for_frames_is_read_without_its_markup() -> None:
    page = "<html><frameset><frame src=a><noframes><body><p>No frames</p></body></noframes></frameset></html>"
    assert parse(page, "html").text == "No frames"
