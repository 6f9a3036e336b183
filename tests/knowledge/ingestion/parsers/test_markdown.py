"""Markdown."""

from __future__ import annotations

import pytest

from tests.knowledge.ingestion.parsing import parse, shapes


def test_comment_inside_a_fence_is_no_heading_and_the_fence_stays_whole() -> None:
    document = parse("# Title\n\n```bash\n# not a heading\n\nls -l\n```\n\nafter", "md")
    assert shapes(document) == [
        ("heading", "Title"),
        ("code", "```bash\n# not a heading\n\nls -l\n```"),
        ("paragraph", "after"),
    ]


def test_table_inside_a_markdown_fence_is_code() -> None:
    document = parse("````markdown\n```\n| a |\n|---|\n```\n````", "md")
    assert shapes(document) == [("code", "````markdown\n```\n| a |\n|---|\n```\n````")]


def test_heading_text_that_recurs_keeps_each_path() -> None:
    document = parse("# A\nfoo\n## foo\nbar\n# A\nfoo again\n## foo\nlast", "md")
    paths = [(block.text, block.heading_path) for block in document.blocks if block.kind == "paragraph"]
    assert paths == [("foo", ("A",)), ("bar", ("A", "foo")), ("foo again", ("A",)), ("last", ("A", "foo"))]


def test_heading_levels_close_each_other() -> None:
    document = parse("# A\n### C\n## B\ntext\n# D\nmore", "md")
    assert [block.heading_path for block in document.blocks] == [(), ("A",), ("A",), ("A", "B"), (), ("D",)]


def test_table_of_three_hundred_rows_is_one_block_with_every_row() -> None:
    rows = "\n".join(f"| 项目{number} | {number} |" for number in range(300))
    document = parse(f"| 名称 | 数量 |\n|---|---:|\n{rows}", "md")
    (table,) = document.blocks
    assert table.kind == "table"
    assert table.text.splitlines()[0] == "| 名称 | 数量 |"
    assert len(table.text.splitlines()) == 302
    assert "| 项目299 | 299 |" in table.text


def test_escaped_pipe_stays_one_cell() -> None:
    assert shapes(parse("| a | b |\n|---|---|\n| x \\| y | z |", "md"))[0][1].splitlines()[2] == "| x \\| y | z |"


def test_front_matter_is_metadata_and_not_text() -> None:
    document = parse('---\ntitle: "部署手册"\ntags: [a, b]\n---\n# 正文\ntext', "md")
    assert document.title == "部署手册"
    assert document.metadata["tags"] == "[a, b]"
    assert "tags" not in document.text


def test_rule_at_the_start_is_no_front_matter() -> None:
    document = parse("---\n# First\nSome text here.\n---\n# Second\nmore", "md")
    assert "Some text here." in document.text
    assert "First" in document.text


def test_footnotes_are_kept_as_notes_with_their_numbers() -> None:
    document = parse("脚注[^1]。\n\n[^1]: 内容在此。", "md")
    assert shapes(document) == [("paragraph", "脚注[1]。"), ("note", "1. 内容在此。")]


def test_nested_and_numbered_lists_keep_numbers_and_indentation() -> None:
    document = parse("3. three\n4. four\n   - inner\n     more\n5. five", "md")
    assert shapes(document) == [("list", "3. three\n4. four\n  - inner\n    more\n5. five")]


def test_one_fact_a_line_stays_one_fact_a_line() -> None:
    assert parse("姓名：张三\n年龄：30", "md").text == "姓名：张三\n年龄：30"


def test_raw_html_is_read_and_scripts_are_not() -> None:
    document = parse("<script>alert(1)</script>\n\n<ul><li>raw</li></ul>\n\n[x](javascript:alert(2)) ok", "md")
    assert shapes(document) == [("list", "- raw"), ("paragraph", "x ok")]


def test_address_of_a_link_follows_its_paragraph() -> None:
    document = parse("请登录[报销系统](https://oa.example.com/x)提交。", "md")
    assert document.text == "请登录报销系统提交。 <https://oa.example.com/x>"


def test_star_between_letters_or_digits_is_a_sign() -> None:
    assert (
        parse("{{7*7}} and 2*3*4 but *this* and 中**重点**文", "md").text == "{{7*7}} and 2*3*4 but this and 中重点文"
    )


def test_remote_image_leaves_its_alt_text_and_inline_image_is_kept() -> None:
    pixel = (
        "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAIAAACQkWg2AAAAFklEQVR4nGNgGAWjYBSMglEwCoYHAAAEEAABTTgBhQAAAABJRU5ErkJggg=="
    )
    document = parse(f"![流程图](http://example.com/a.png)\n\n![章](data:image/png;base64,{pixel})", "md")
    assert shapes(document) == [("paragraph", "流程图"), ("image", "章")]
    assert document.blocks[1].image == document.images[0].key


def test_quote_is_marked() -> None:
    assert shapes(parse("> said\n\nplain", "md")) == [("quote", "said"), ("paragraph", "plain")]


def test_deep_quotes_and_brackets_end() -> None:
    assert parse(">" * 3000 + " deep\n\n" + "[" * 3000 + "a", "md") is not None


def test_names_of_python_keep_their_underscores_and_bold_words_lose_them() -> None:
    document = parse("Call __init__ or a.__len__(), __Note well__ and __both words__.", "md")
    assert document.text == "Call __init__ or a.__len__(), Note well and both words."


def test_toml_front_matter_is_metadata_too() -> None:
    found = parse('+++\ntitle = "Hi"\n[tags]\na = ["x"]\n+++\n\n# H\ntext', "md")
    assert (found.text, found.title, found.metadata["title"]) == ("H\n\ntext", "Hi", "Hi")


@pytest.mark.parametrize(
    "text",
    [
        "Inline $a_1*b_2*c_3$ and \\(x_1 * y_1\\) end",
        "$$\nx = \\frac{a}{b} \\\\\ny_1 * z_1\n$$",
        "\\[ a_{1} \\{ b_{2} \\} \\]",
    ],
)
def test_formulas_stay_as_they_are_written(text: str) -> None:
    assert parse(text, "md").text == text


def test_prices_are_no_formulas() -> None:
    assert parse("It costs $5 and *more* than $10.", "md").text == "It costs $5 and more than $10."
