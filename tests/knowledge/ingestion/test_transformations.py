"""The stages of ingestion in LlamaIndex's frame."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from knowledge.ingestion.blocks import Block, ParsedDocument, Source, assemble
from knowledge.ingestion.split import SplitSettings, split
from knowledge.ingestion.transformations import embed_texts, run, split_document
from portal.gateway.protocols import Vectors
from portal.kernel.errors import Unavailable
from tests.knowledge.ingestion.split.counting import CharacterCounter
from tests.knowledge.ingestion.split.documents import document


class LengthEmbedder:
    """Tells texts apart by their length; away once it has answered `patience` requests."""

    space = "length"
    dimensions = 2

    def __init__(self, patience: int = 100) -> None:
        self.sizes: list[int] = []
        self.patience = patience

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        if len(self.sizes) == self.patience:
            raise Unavailable("The embedding model is away.")
        self.sizes.append(len(texts))
        angles = np.array([len(text) for text in texts], dtype=np.float32)
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self.embed_passages(texts)


def test_passages_pass_through_the_frame_unchanged() -> None:
    counter = CharacterCounter(128)
    for seed in range(40):
        doc = document(seed)
        assert split_document(doc, SplitSettings(), counter, title="a.md") == split(doc, counter)


def test_repeated_text_keeps_its_own_offsets() -> None:
    doc = assemble("text/plain", [Block("paragraph", "同样的一句话。" * 5) for _ in range(50)])
    passages = split_document(doc, SplitSettings(leaf_tokens=10), CharacterCounter(), title="x")
    starts = [leaf.start for passage in passages for leaf in passage.leaves]
    assert len(set(starts)) == len(starts) >= 250


def test_a_file_goes_through_parse_and_split_in_one_run() -> None:
    from knowledge.ingestion.components import ParseTransformation, SplitTransformation, passages_of, source_node

    def parse(source: Source) -> ParsedDocument:
        return assemble(source.mime, [Block("paragraph", source.name)])

    source = Source(path=Path("unused"), name="制度.txt", mime="text/plain")
    stages = [ParseTransformation(parse=parse), SplitTransformation(counter=CharacterCounter())]
    nodes = run(stages, [source_node(source)])
    assert [passage.text for passage in passages_of(nodes)] == ["制度.txt"]
    parent = nodes[1].parent_node
    assert parent is not None
    assert parent.node_id == nodes[0].node_id


def test_texts_are_embedded_in_batches_and_progress_is_told() -> None:
    embedder = LengthEmbedder()
    told: list[tuple[int, int]] = []
    vectors = embed_texts(["a" * n for n in range(1, 101)], embedder, batch=32, on_progress=lambda *at: told.append(at))
    assert embedder.sizes == [32, 32, 32, 4]
    assert told == [(32, 100), (64, 100), (96, 100), (100, 100)]
    assert vectors.shape == (100, 2)
    assert vectors.dtype == np.float32
    assert vectors[6] == pytest.approx([np.cos(7), np.sin(7)])


def test_no_texts_ask_nothing_of_the_model() -> None:
    embedder = LengthEmbedder()
    assert embed_texts([], embedder).shape == (0, 2)
    assert embed_texts(["", " "], embedder).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert embedder.sizes == []


def test_a_model_that_is_away_says_so() -> None:
    with pytest.raises(Unavailable):
        embed_texts(["a", "b", "c"], LengthEmbedder(patience=1), batch=1)


def test_importing_the_stages_does_not_import_the_frame() -> None:
    code = "import sys, knowledge.ingestion.transformations; sys.exit('llama_index.core' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).resolve().parents[3], check=False)
    assert done.returncode == 0


def test_splitting_says_how_many_characters_it_has_been_through() -> None:
    doc = document(7)
    told: list[tuple[int, int]] = []
    passages = split(doc, CharacterCounter(512), SplitSettings(), lambda done, total: told.append((done, total)))
    assert {total for _, total in told} == {len(doc.text)}
    assert {passage.end for passage in passages} <= {done for done, _ in told}
