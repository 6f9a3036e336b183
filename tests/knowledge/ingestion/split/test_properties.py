"""What holds for every document: nothing lost, nothing too long, nothing torn apart, nothing misplaced."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.ingestion.blocks import Block, ParsedDocument, assemble
from knowledge.ingestion.split import Leaf, Passage, SplitSettings, embedding_texts, split
from tests.knowledge.ingestion.split.counting import CharacterCounter
from tests.knowledge.ingestion.split.documents import document

BATCHES = 10
PER_BATCH = 220


def parts_of(passages: tuple[Passage, ...]) -> list[Passage | Leaf]:
    return [*passages, *(leaf for passage in passages for leaf in passage.leaves)]


def assert_covered(doc: ParsedDocument, ranges: list[tuple[int, int]]) -> None:
    covered = bytearray(len(doc.text))
    for start, end in ranges:
        covered[start:end] = b"\x01" * (end - start)
    lost = [index for index, char in enumerate(doc.text) if not char.isspace() and not covered[index]]
    assert not lost, doc.text[lost[0] : lost[0] + 40]


def assert_exact(doc: ParsedDocument, passages: tuple[Passage, ...], counter: CharacterCounter) -> None:
    for part in parts_of(passages):
        assert part.text == part.prefix + doc.text[part.start : part.end] + part.suffix
        assert part.text.strip()
        assert part.token_count <= counter.max_tokens
        assert counter.count([part.text])[0] <= counter.max_tokens
        assert isinstance(part, Passage) or part.token_count == counter.count([part.text])[0]
    for passage in passages:
        assert passage.leaves
        assert (passage.leaves[0].start, passage.leaves[-1].end) == (passage.start, passage.end)
    assert [passage.ordinal for passage in passages] == list(range(len(passages)))


def assert_whole(doc: ParsedDocument, passages: tuple[Passage, ...], counter: CharacterCounter) -> None:
    """No table row that fits, and no code block that fits, is cut; every part of a table has its head."""
    bounds = {bound for part in parts_of(passages) for bound in (part.start, part.end)}
    for block in doc.blocks:
        if block.kind == "code" and counter.count([block.text])[0] <= counter.max_tokens:
            assert not any(block.start < bound < block.end for bound in bounds)
        if block.kind != "table":
            continue
        lines = block.text.split("\n")
        head = "\n".join(lines[:2]) + "\n"
        position = block.start + len(head)
        for line in lines[2:]:
            if counter.count([head + line])[0] <= counter.max_tokens:
                assert not any(position < bound < position + len(line) for bound in bounds)
                assert all(part.prefix == head for part in parts_of(passages) if part.start == position)
            position += len(line) + 1
    for part in parts_of(passages):
        if any(block.kind == "code" and block.start < part.end and part.start < block.end for block in doc.blocks):
            fences = re.findall(r"^(?:`{3,}|~{3,})", part.text, re.MULTILINE)
            assert len(fences) % 2 == 0, part.text


def assert_placed(doc: ParsedDocument, passages: tuple[Passage, ...]) -> None:
    """The path is what all text of the passage stands below; sheets and slides are not mixed."""
    for passage in passages:
        inside = [block for block in doc.blocks if block.start < passage.end and passage.start < block.end]
        assert len({(block.sheet, block.slide) for block in inside}) == 1
        body = [block for block in inside if block.kind != "heading"]
        paths = [block.heading_path for block in body] or [inside[-1].heading_path]
        length = min(len(path) for path in paths)
        while any(path[:length] != paths[0][:length] for path in paths):
            length -= 1
        assert passage.heading_path == paths[0][:length]
        if not body:
            following = [block for block in doc.blocks if block.start >= passage.end][:1]
            assert all((one.sheet, one.slide) != (passage.sheet, passage.slide) for one in following)
        else:
            assert inside[-1].kind != "heading"
            # Past the headings that open it, a passage meets only headings below or beside its first.
            opening = next(index for index, block in enumerate(inside) if block.kind != "heading")
            depth = len(inside[0].heading_path) if opening else len(inside[0].heading_path) - 1
            later = [block for block in inside[opening:] if block.kind == "heading"]
            assert all(len(block.heading_path) >= depth for block in later)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_smart_splitting_of_generated_documents_keeps_every_promise(batch: int) -> None:
    for seed in range(batch * PER_BATCH, (batch + 1) * PER_BATCH):
        rng = random.Random(seed)
        doc = document(seed)
        counter = CharacterCounter(rng.choice([60, 128, 512]))
        asked = SplitSettings(passage_tokens=rng.choice([40, 200, 400]), leaf_tokens=rng.choice([20, 80, 110]))
        passages = split(doc, counter, asked)
        assert_covered(doc, [(one.start, one.end) for one in passages])
        assert_covered(doc, [(leaf.start, leaf.end) for one in passages for leaf in one.leaves])
        assert_exact(doc, passages, counter)
        assert_whole(doc, passages, counter)
        assert_placed(doc, passages)
        starts = [one.start for one in passages]
        assert starts == sorted(starts)


@pytest.mark.parametrize("mode", ["separators", "rows"])
def test_the_other_modes_lose_nothing_and_stay_below_the_cap(mode: str) -> None:
    for seed in range(300):
        rng = random.Random(seed)
        doc = document(seed)
        counter = CharacterCounter(rng.choice([60, 512]))
        asked = SplitSettings(
            mode=mode,  # type: ignore[arg-type]
            separators=tuple(rng.sample(["\n\n", "。", "###", "\n", "员工"], 2)),
            patterns=(r"^\d+\.",),
            heading_level=rng.choice([0, 1, 2]),
            overlap_tokens=rng.choice([0, 15]),
        )
        passages = split(doc, counter, asked)
        assert_covered(doc, [(one.start, one.end) for one in passages])
        assert_exact(doc, passages, counter)


def test_question_mode_loses_no_cell_below_a_head() -> None:
    for seed in range(200):
        doc = document(seed)
        counter = CharacterCounter(256)
        passages = split(doc, counter, SplitSettings(mode="qa"))
        written = "".join(one.text for one in passages)
        for block in doc.blocks:
            if block.kind == "table":
                for cell in re.findall(r"行\d+", block.text):
                    assert cell in written
        assert all(one.token_count <= counter.max_tokens for one in parts_of(passages))


def test_embedding_texts_stay_below_the_cap_whatever_the_titles() -> None:
    for seed in range(200):
        counter = CharacterCounter(60)
        passages = split(document(seed), counter)
        pairs = [(leaf, one) for one in passages for leaf in one.leaves]
        texts = embedding_texts(pairs, "员工手册 " * (seed % 9), counter)
        assert all(count <= counter.max_tokens for count in counter.count(texts))
        assert all(text.endswith(leaf.text) for text, (leaf, _) in zip(texts, pairs, strict=True))


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=120), max_size=4),
    st.sampled_from([12, 40, 512]),
)
@settings(max_examples=300, deadline=None)
def test_any_text_is_covered_below_the_cap(texts: list[str], cap: int) -> None:
    doc = assemble("text/plain", [Block("paragraph", text) for text in texts])
    counter = CharacterCounter(cap)
    passages = split(doc, counter)
    assert_covered(doc, [(leaf.start, leaf.end) for one in passages for leaf in one.leaves])
    assert_exact(doc, passages, counter)
