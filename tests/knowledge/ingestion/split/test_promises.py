"""The promises of every mode on documents that hypothesis makes; the smart mode with the built-in model's tokens."""

from __future__ import annotations

import re
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.ingestion.blocks import Block, ParsedDocument, assemble
from knowledge.ingestion.split import Passage, SplitSettings, TidyRules, removed_by, split, tidy
from knowledge.ingestion.split.handmade import blocks_of, halves, leaves_of, places_to_cut
from portal.gateway.local.tokens import E5TokenCounter
from tests.knowledge.ingestion.split.counting import CharacterCounter
from tests.knowledge.ingestion.split.documents import document
from tests.knowledge.ingestion.split.test_properties import assert_covered, assert_exact, assert_whole

EXAMPLES = 450
seeds = st.integers(0, 10**9)
sizes = st.tuples(st.sampled_from([50, 120, 400]), st.sampled_from([30, 110]), st.sampled_from([0, 15, 60]))


@cache
def e5() -> E5TokenCounter:
    return E5TokenCounter()


def asked(mode: str, chosen: tuple[int, int, int], **more: object) -> SplitSettings:
    passage, leaf, overlap = chosen
    return SplitSettings(mode=mode, passage_tokens=passage, leaf_tokens=leaf, overlap_tokens=overlap, **more)  # type: ignore[arg-type]


def assert_common_path(doc: ParsedDocument, passages: tuple[Passage, ...]) -> None:
    """The path of titles is that of all text in the passage, however often the titles recur."""
    for passage in passages:
        inside = [block for block in doc.blocks if block.start < passage.end and passage.start < block.end]
        body = [block for block in inside if block.kind != "heading"] or inside[-1:]
        paths = {block.heading_path for block in body}
        assert all(path[: len(passage.heading_path)] == passage.heading_path for path in paths)
        assert len({path[len(passage.heading_path) :][:1] for path in paths}) != 1 or passage.heading_path in paths


@given(seeds, sizes)
@settings(max_examples=EXAMPLES, deadline=None)
def test_smart_splitting_keeps_its_promises_in_tokens_of_the_model(seed: int, chosen: tuple[int, int, int]) -> None:
    doc = document(seed)
    passages = split(doc, e5(), asked("smart", chosen))
    assert_covered(doc, [(one.start, one.end) for one in passages])
    assert_covered(doc, [(leaf.start, leaf.end) for one in passages for leaf in one.leaves])
    texts = [leaf.text for one in passages for leaf in one.leaves]
    assert all(count <= e5().max_tokens for count in e5().count(texts))
    assert [leaf.token_count for one in passages for leaf in one.leaves] == e5().count(texts)
    assert_common_path(doc, passages)


@given(
    seeds,
    sizes,
    st.lists(st.sampled_from(["\n\n", "\n", "。", "; ", "###", "员工", "|", "```"]), max_size=3),
    st.sampled_from([(), (r"^\d+\.",), (r"(?m)^# ", r"行\d+")]),
    st.integers(0, 3),
)
@settings(max_examples=EXAMPLES, deadline=None)
def test_own_separators_break_no_row_and_no_fence(
    seed: int, chosen: tuple[int, int, int], separators: list[str], patterns: tuple[str, ...], level: int
) -> None:
    doc, counter = document(seed), CharacterCounter(512)
    wanted = asked("separators", chosen, separators=tuple(separators), patterns=patterns, heading_level=level)
    passages = split(doc, counter, wanted)
    assert_covered(doc, [(one.start, one.end) for one in passages])
    assert_exact(doc, passages, counter)
    assert_whole(doc, passages, counter)
    assert_common_path(doc, passages)
    for passage in passages:
        inside = [block for block in doc.blocks if block.start < passage.end and passage.start < block.end]
        if all(block.kind == "heading" for block in inside):
            # A title alone: another title, another slide or the end of the document follows.
            after = doc.blocks[doc.blocks.index(inside[-1]) + 1 :][:1]
            place = (passage.sheet, passage.slide)
            assert all(one.kind == "heading" or (one.sheet, one.slide) != place for one in after)


@given(seeds, sizes)
@settings(max_examples=EXAMPLES, deadline=None)
def test_each_table_row_is_a_passage_of_its_own_with_its_head(seed: int, chosen: tuple[int, int, int]) -> None:
    doc, counter = document(seed), CharacterCounter(512)
    passages = split(doc, counter, asked("rows", chosen))
    assert_covered(doc, [(one.start, one.end) for one in passages])
    assert_exact(doc, passages, counter)
    assert_whole(doc, passages, counter)
    for passage in passages:
        rows = [line for line in passage.text.split("\n") if re.match(r"\| 行\d+", line)]
        assert len(rows) <= 1
        assert not rows or "| 列0 |" in passage.text or counter.count([passage.text])[0] > 150


@given(seeds, sizes)
@settings(max_examples=EXAMPLES, deadline=None)
def test_one_question_is_one_chunk_and_the_rest_is_smart(seed: int, chosen: tuple[int, int, int]) -> None:
    doc, counter = document(seed), CharacterCounter(512)
    passages = split(doc, counter, asked("qa", chosen))
    for passage in passages:
        assert len(re.findall(r"^行\d+$", passage.text, re.MULTILINE)) <= 1
        if passage.questions:
            assert len(passage.leaves) == 1 and passage.leaves[0].text == passage.text
    other = [block for block in doc.blocks if block.kind != "table"]
    covered = [(one.start, one.end) for one in passages]
    for block in other:
        for place in range(block.start, block.end):
            if not doc.text[place].isspace():
                assert any(low <= place < high for low, high in covered)


@given(seeds, st.booleans(), st.booleans(), st.sampled_from([(), (r"API-\d+",), ("。", r"quick \w+")]))
@settings(max_examples=300, deadline=None)
def test_clean_up_takes_out_what_it_says_and_nothing_else(
    seed: int, spaces: bool, urls: bool, patterns: tuple[str, ...]
) -> None:
    doc = document(seed)
    rules = TidyRules(spaces=spaces, urls=urls, remove=patterns)
    cleaned = tidy(doc, rules)
    for pattern in patterns:
        assert not re.search(pattern, cleaned.text) or pattern != "。"
    told = {one.rule: one.count for one in removed_by(doc, rules)}
    assert told.get("。", 0) == (doc.text.count("。") if "。" in patterns else 0)
    if not rules:
        assert cleaned is doc and told == {}
    passages = split(cleaned, CharacterCounter(512), SplitSettings())
    assert_covered(cleaned, [(one.start, one.end) for one in passages])


# -- texts of people ---------------------------------------------------------------------------------


def texts_of(seed: int) -> list[str]:
    return [passage.text for passage in split(document(seed), CharacterCounter(512), SplitSettings())]


@given(seeds, sizes)
@settings(max_examples=EXAMPLES, deadline=None)
def test_a_passage_written_by_hand_is_cut_like_a_document(seed: int, chosen: tuple[int, int, int]) -> None:
    counter = CharacterCounter(512)
    for text in texts_of(seed)[:6]:
        blocks = blocks_of(text)
        doc = ParsedDocument("text/plain", text, tuple(blocks))
        assert_covered(doc, [(block.start, block.end) for block in blocks])
        leaves = leaves_of(text, counter, asked("smart", chosen))
        assert_covered(doc, [(leaf.start, leaf.end) for leaf in leaves])
        for leaf in leaves:
            assert leaf.text == leaf.prefix + text[leaf.start : leaf.end] + leaf.suffix
            assert leaf.token_count == counter.count([leaf.text])[0] <= counter.max_tokens
            assert len(re.findall(r"^(?:`{3,}|~{3,})", leaf.text, re.MULTILINE)) % 2 == 0 or "`" not in text


@given(seeds, st.integers(0, 5_000))
@settings(max_examples=EXAMPLES, deadline=None)
def test_a_cut_in_two_loses_nothing_and_tears_no_row_and_no_fence(seed: int, anywhere: int) -> None:
    for text in texts_of(seed)[:4]:
        found = halves(text, min(anywhere, len(text)))
        if found is None:
            continue
        (first, low, mid), (second, start, end) = found
        assert text[low:mid].strip() and text[start:end].strip()
        assert not text[mid:start].strip() and not text[end:].strip()
        assert first.startswith(text[low:mid]) and second.endswith(text[start:end])
        # Rows stay rows: neither half holds a line that was part of a table row and no longer is one.
        rows = {line for line in text.split("\n") if line.lstrip().startswith("|")}
        for line in (*first.split("\n"), *second.split("\n")):
            assert not line.rstrip().endswith("|") or line in rows or not line.lstrip().startswith("|")
        if len(re.findall(r"^(?:`{3,}|~{3,})", text, re.MULTILINE)) % 2 == 0:
            for half in (first, second):
                assert len(re.findall(r"^(?:`{3,}|~{3,})", half, re.MULTILINE)) % 2 == 0, (text, half)
    for text in texts_of(seed)[:2]:
        for place in places_to_cut(text, CharacterCounter(512), SplitSettings()):
            assert halves(text, place) is not None


@pytest.mark.parametrize(
    ("text", "position", "first", "second"),
    [
        ("One. Two.", 5, "One.", "Two."),
        ("| a |\n|---|\n| 1 |\n| 2 |", 19, "| a |\n|---|\n| 1 |", "| a |\n|---|\n| 2 |"),
        ("```py\na = 1\nb = 2\n```", 13, "```py\na = 1\n```", "```py\nb = 2\n```"),
        ("intro\n\n| a |\n|---|\n| 1 |", 10, "intro", "| a |\n|---|\n| 1 |"),
        ("- one\n- two", 6, "- one", "- two"),
    ],
)
def test_halves_stand_alone(text: str, position: int, first: str, second: str) -> None:
    found = halves(text, position)
    assert found is not None
    assert (found[0][0], found[1][0]) == (first, second)


def test_there_is_no_half_without_text() -> None:
    assert halves("One. Two.", 9) is None
    assert halves("| a |\n|---|\n| 1 |", 8) is None
    assert halves("   \n\nOne.", 3) is None


def test_a_separator_opens_no_passage_of_a_title_or_head_alone() -> None:
    doc = assemble(
        "text/markdown",
        [
            Block("heading", "Prices", level=1),
            Block("table", "| a |\n|---|\n| 1 |\n| 2 |", heading_path=("Prices",)),
            Block("paragraph", "one\ntwo", heading_path=("Prices",)),
        ],
    )
    passages = split(doc, CharacterCounter(512), SplitSettings(mode="separators", separators=("\n",)))
    assert [one.text for one in passages] == [
        "Prices\n\n| a |\n|---|\n| 1 |",
        "| a |\n|---|\n| 2 |",
        "one",
        "two",
    ]
