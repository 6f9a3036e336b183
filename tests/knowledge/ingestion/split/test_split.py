"""Splitting by example: the faults people report, each with a tiny document."""

from __future__ import annotations

import itertools
import re
import time

import pytest

from knowledge.ingestion.blocks import Block, ParsedDocument, assemble
from knowledge.ingestion.split import (
    Leaf,
    Passage,
    SplitSettings,
    TidyRules,
    embedding_text,
    embedding_texts,
    split,
    tidy,
)
from knowledge.ingestion.split.sentences import sentences
from portal.kernel.errors import Invalid
from tests.knowledge.ingestion.split.counting import CharacterCounter

COUNTER = CharacterCounter()


def made(*blocks: Block) -> ParsedDocument:
    return assemble("text/plain", blocks)


def parts_of(passages: tuple[Passage, ...]) -> list[Passage | Leaf]:
    return [*passages, *(leaf for one in passages for leaf in one.leaves)]


def texts(passages: tuple[Passage, ...]) -> list[str]:
    return [passage.text for passage in passages]


def test_a_document_without_text_has_no_passages() -> None:
    assert split(made(Block("paragraph", " \n\t"), Block("image", "")), COUNTER) == ()


def test_sixty_kilobytes_on_one_line_stay_below_the_cap_and_lose_nothing() -> None:
    line = "这一行没有任何标点符号而且非常长" * 4_000
    passages = split(made(Block("paragraph", line)), COUNTER)
    leaves = [leaf for passage in passages for leaf in passage.leaves]
    assert "".join(leaf.text for leaf in leaves) == line
    assert max(leaf.token_count for leaf in leaves) <= COUNTER.max_tokens


def test_a_long_line_is_cut_between_chinese_words() -> None:
    line = "人工智能改变世界" * 40
    passages = split(made(Block("paragraph", line)), CharacterCounter(60))
    ends = {passage.text[-2:] for passage in passages}
    assert ends <= {"智能", "改变", "世界"}


def test_a_character_of_several_code_points_is_not_torn_apart() -> None:
    family = "👨‍👩‍👧‍👦"
    passages = split(made(Block("paragraph", family * 200)), CharacterCounter(60))
    assert len(passages) > 1
    assert all(passage.text.count("👨") * family == passage.text for passage in passages)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("今天下雨。明天晴！后天呢？", ["今天下雨。", "明天晴！", "后天呢？"]),
        ("他说：“好。”然后走了。", ["他说：“好。”", "然后走了。"]),
        ("Dr. Li arrived. He left at 3.15 p.m. on Monday.", ["Dr. Li arrived.", "He left at 3.15 p.m. on Monday."]),
        ("See e.g. section 4. It helps.", ["See e.g. section 4.", "It helps."]),
        ("版本 1.2.3 已发布。见 a.example。", ["版本 1.2.3 已发布。", "见 a.example。"]),
    ],
)
def test_sentences_end_where_readers_end_them(text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in sentences(text, 0, len(text))] == expected


def test_text_without_punctuation_keeps_to_the_chosen_size_too() -> None:
    doc = made(Block("paragraph", "word " * 3_000), Block("paragraph", "字" * 3_000))
    passages = split(doc, COUNTER, SplitSettings(passage_tokens=50, leaf_tokens=30))
    assert max(passage.token_count for passage in passages) <= 50 + COUNTER.base


def test_a_heading_whose_text_recurs_in_the_body_is_found_by_its_place() -> None:
    doc = made(
        Block("heading", "A", level=1),
        Block("paragraph", "foo 。" * 300, heading_path=("A",)),
        Block("heading", "foo", level=2, heading_path=("A",)),
        Block("paragraph", "bar A foo。", heading_path=("A", "foo")),
    )
    last = split(doc, COUNTER)[-1]
    assert last.text == "foo\n\nbar A foo。"
    assert last.heading_path == ("A", "foo")


def test_headings_alone_make_no_passage_but_stay_in_the_path() -> None:
    doc = made(
        Block("heading", "A", level=1),
        Block("heading", "B", level=2, heading_path=("A",)),
        Block("paragraph", "text", heading_path=("A", "B")),
    )
    assert [(one.text, one.heading_path) for one in split(doc, COUNTER)] == [("A\n\nB\n\ntext", ("A", "B"))]


def test_a_last_heading_with_nothing_below_is_not_lost() -> None:
    doc = made(Block("paragraph", "text"), Block("heading", "End", level=1))
    assert texts(split(doc, COUNTER)) == ["text", "End"]


def section(title: str, tokens: int, level: int = 2) -> list[Block]:
    return [
        Block("heading", title, level=level, heading_path=("手册",)),
        Block("paragraph", "字" * (tokens - 1) + "。", heading_path=("手册", title)),
    ]


def test_large_neighbouring_sections_do_not_share_a_passage_and_tiny_ones_do() -> None:
    apart = split(made(*section("一", 150), *section("二", 150)), COUNTER)
    assert [one.heading_path for one in apart] == [("手册", "一"), ("手册", "二")]
    together = split(made(*section("一", 20), *section("二", 20)), COUNTER)
    assert [one.heading_path for one in together] == [("手册",)]
    assert [leaf.text.split("\n")[0] for leaf in together[0].leaves] == ["一", "二"]


def test_slides_do_not_share_a_passage() -> None:
    doc = made(Block("paragraph", "one", slide=1), Block("paragraph", "two", slide=2))
    assert [(one.text, one.slide) for one in split(doc, COUNTER)] == [("one", 1), ("two", 2)]


def big_table(rows: int, cell: str = "值") -> str:
    return "\n".join(["| 名称 | 值 |", "|---|---|", *(f"| 项{number} | {cell} |" for number in range(rows))])


def test_each_part_of_a_large_table_begins_with_its_head_and_ends_with_a_row() -> None:
    doc = made(Block("table", big_table(300)))
    passages = split(doc, COUNTER)
    assert len(passages) > 3
    for part in parts_of(passages):
        assert part.text.startswith("| 名称 | 值 |\n|---|---|\n| 项")
        assert part.text.endswith("|")
        assert doc.text[part.start : part.end] == part.text.removeprefix(part.prefix)
    found = re.findall(r"项(\d+) ", "".join(texts(passages)))
    assert found == [str(number) for number in range(300)]


def test_rows_of_a_sheet_are_named_by_their_numbers() -> None:
    doc = made(Block("table", big_table(100), sheet="价格", rows=(1, 101)))
    passages = split(doc, COUNTER, SplitSettings(mode="rows"))
    assert len(passages) == 100
    assert passages[0].rows == (1, 2)
    assert passages[41].rows == (43, 43)
    assert passages[41].text == "| 名称 | 值 |\n|---|---|\n| 项41 | 值 |"
    assert {one.sheet for one in passages} == {"价格"}


def test_one_row_is_one_passage_also_when_it_is_long() -> None:
    rows = ["| 名称 | 值 |", "|---|---|", "| 短 | 一 |", f"| 长 | {'字' * 300} |", "| 末 | 三 |"]
    passages = split(made(Block("table", "\n".join(rows))), COUNTER, SplitSettings(mode="rows", passage_tokens=100))
    assert [one.text.split("\n")[2][:3] for one in passages] == ["| 短", "| 长", "| 末"]


def test_a_comment_in_a_fence_is_no_heading_and_the_fence_stays_whole() -> None:
    fence = "```bash\n# x\nls\n\n# y\n```"
    doc = made(Block("paragraph", "字" * 380 + "。"), Block("code", fence), Block("paragraph", "后文。"))
    assert any(fence in text for text in texts(split(doc, COUNTER)))


def test_a_fence_above_the_cap_is_closed_and_opened_again() -> None:
    fence = "```python\n" + "\n".join(f"value_{number} = {number}" for number in range(200)) + "\n```"
    passages = split(made(Block("code", fence)), CharacterCounter(100))
    assert len(passages) > 5
    assert all(text.startswith("```python\n") and text.endswith("\n```") for text in texts(passages))


def test_two_texts_between_separators_are_two_passages() -> None:
    doc = made(Block("paragraph", "a"), Block("paragraph", "b"))
    assert texts(split(doc, COUNTER, SplitSettings(mode="separators", separators=("\n\n",)))) == ["a", "b"]


def test_a_separator_that_starts_a_line_opens_the_next_part_and_another_closes_its_own() -> None:
    doc = made(Block("paragraph", "第一条 甲。\n第二条 乙；丙"))
    asked = SplitSettings(mode="separators", patterns=("^第.条",), separators=("；",))
    assert texts(split(doc, COUNTER, asked)) == ["第一条 甲。", "第二条 乙；", "丙"]


def test_headings_of_a_chosen_level_separate() -> None:
    doc = made(*section("一", 5), *section("二", 5))
    passages = split(doc, COUNTER, SplitSettings(mode="separators", heading_level=2))
    assert [one.heading_path for one in passages] == [("手册", "一"), ("手册", "二")]


def test_an_overlap_repeats_whole_sentences() -> None:
    doc = made(Block("paragraph", "".join(f"这是第{number:03}句话。" for number in range(60))))
    passages = split(doc, COUNTER, SplitSettings(passage_tokens=100, overlap_tokens=25))
    for one, following in itertools.pairwise(passages):
        shared = doc.text[following.start : one.end]
        assert shared.startswith("这是第")
        assert shared.endswith("。")


@pytest.mark.parametrize("pattern", ["(", "a{99999999999}", "x" * 600])
def test_a_wrong_pattern_is_named(pattern: str) -> None:
    with pytest.raises(Invalid) as caught:
        split(made(Block("paragraph", "a")), COUNTER, SplitSettings(mode="separators", patterns=(pattern,)))
    assert caught.value.code == "bad_pattern"
    assert pattern[:80] in str(caught.value)


@pytest.mark.parametrize(
    "pattern",
    [
        "(?:" * 99 + "a" + ")+" * 99,
        "(?>" * 80 + "a" + ")++" * 80,
        "(?:" * 20 + "a" + "){2}" * 20,
        "(?:" * 20 + "a" + "){2,3}" * 20,
        "(?x)" + "(" * 60 + "a" + ") +" * 60,
        "(?ix:" + "(" * 60 + "a" + ")\n+" * 60 + ")",
        "(?R)?a",
        "(?(DEFINE)(?P<q>(?&q)a))(?&q)",
        "(a(?1)?)",
        "(?P<q>a(?P>q)*)",
    ],
)
def test_a_pattern_that_would_fill_the_memory_is_refused_unread(pattern: str) -> None:
    began = time.monotonic()
    test_a_wrong_pattern_is_named(pattern)
    assert time.monotonic() - began < 1


@pytest.mark.parametrize(
    "pattern", [r"(?:\d+\.)+ ", r"^第[一二三四]{1,9}条", r"(?i)^(?:part|section) \d+", r"(\d{4}-){2}\d\d"]
)
def test_patterns_as_people_write_them_are_taken(pattern: str) -> None:
    assert split(made(Block("paragraph", "a")), COUNTER, SplitSettings(mode="separators", patterns=(pattern,)))


def test_a_pattern_that_never_ends_is_stopped() -> None:
    doc = made(Block("paragraph", "a" * 40 + "!"))
    began = time.monotonic()
    with pytest.raises(Invalid) as caught:
        split(doc, COUNTER, SplitSettings(mode="separators", patterns=("(a|a|aa)+$",), pattern_seconds=0.2))
    assert caught.value.code == "pattern_too_slow"
    assert time.monotonic() - began < 3


def test_a_question_row_is_one_passage_with_its_question_as_a_further_route() -> None:
    rows = [
        "| 分类 | 问题 | 答案 |",
        "|---|---|---|",
        "| 假期 | 年假几天？ | 十天 \\| 起 |",
        "| 假期 |  | 见手册 |",
        "|  |  |  |",
    ]
    doc = made(Block("heading", "问答", level=1), Block("table", "\n".join(rows), heading_path=("问答",), rows=(1, 4)))
    passages = split(doc, COUNTER, SplitSettings(mode="qa"))
    assert texts(passages)[-2:] == ["年假几天？\n十天 | 起\n分类: 假期", "见手册\n分类: 假期"]
    assert [one.questions for one in passages[-2:]] == [("年假几天？",), ()]
    assert passages[-2].rows == (2, 2)
    assert doc.text[passages[-2].start : passages[-2].end] == rows[2]


def test_question_and_answer_columns_can_be_named() -> None:
    rows = ["| Antwort | Frage |", "|---|---|", "| zehn | wie viele |"]
    asked = SplitSettings(mode="qa", question_column="Frage", answer_column="Antwort")
    assert texts(split(made(Block("table", "\n".join(rows))), COUNTER, asked)) == ["wie viele\nzehn"]


def test_the_text_to_embed_names_document_and_titles_once() -> None:
    doc = made(*section("休假", 300))
    passage = split(doc, COUNTER)[0]
    first, *others = embedding_texts([(leaf, passage) for leaf in passage.leaves], "员工手册.docx", COUNTER)
    assert first.startswith("员工手册.docx > 手册 > 休假\n")
    assert all(text.startswith("员工手册.docx > 手册 > 休假\n字") for text in others)
    assert embedding_text(passage.leaves[0], passage, "x", COUNTER, heading_in_text=False) == passage.leaves[0].text


def test_clean_up_takes_out_what_was_asked_for_and_leaves_code_alone() -> None:
    doc = made(
        Block("paragraph", "见 https://a.example/x 。\n\n\n联系  li@a.example  机密"),
        Block("code", "```\na  b\n```"),
        Block("paragraph", "机密"),
    )
    rules = TidyRules(spaces=True, blank_lines=True, urls=True, emails=True, remove=("机密",))
    assert tidy(doc, rules).text == "见 。\n联系 \n\n```\na  b\n```"
    assert tidy(doc, TidyRules()) is doc


def test_the_real_counter_of_the_local_model_is_kept_to() -> None:
    tokens = pytest.importorskip("portal.gateway.local.tokens")
    counter = tokens.E5TokenCounter()
    doc = made(
        Block("paragraph", "员工应当在月底前提交报销单据，逾期不予受理。" * 120),
        Block("table", big_table(200, "长内容")),
        Block("code", "```\n" + "x = compute(a, b)\n" * 300 + "```"),
        Block("paragraph", "The quick brown fox jumps over the lazy dog. " * 200),
        Block("paragraph", "ﷺ" * 500 + "x" * 3_000 + "👨‍👩‍👧‍👦" * 200),
    )
    passages = split(doc, counter)
    leaves = [leaf for one in passages for leaf in one.leaves]
    assert max(counter.count([part.text for part in parts_of(passages)])) <= counter.max_tokens
    assert "".join(char for leaf in leaves for char in leaf.text if char == "ﷺ") == "ﷺ" * 500
    embedded = embedding_texts([(leaf, one) for one in passages for leaf in one.leaves], "标题 " * 100, counter)
    assert max(counter.count(embedded)) <= counter.max_tokens
