"""Runs the local model: multilingual-e5-small with 8-bit weights on ONNX Runtime.

One text a run, one core a run: on a processor that is as fast as a batch (the matrices stay in the
cache), needs no padding, and makes a vector independent of its neighbours. Several cores run several
texts. Vectors are the mean of the hidden states over all tokens, at length 1 (Wang et al. 2024,
arXiv:2402.05672).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from portal.gateway.local.graph import INPUT, OUTPUT, ensure_graph
from portal.gateway.local.tokens import PASSAGE, QUERY, shared_tokenizer
from portal.gateway.local.weights import DIMENSIONS, MAX_TOKENS, SPACE, Floats, open_weights, unpack
from portal.gateway.protocols import Vectors

# No piece is longer than 16 characters, so what stands behind these can not be among the first 512 tokens
# (but for long runs of white space or of unknown characters, which are one token each).
_LONGEST_TEXT = MAX_TOKENS * 16
_LONGEST_SPACED_TEXT = 8 * _LONGEST_TEXT


class E5:
    """The model in this process: 0.5 s to load, about 150 MB.

    Create it after any fork. Every method may be called from several threads. `folder` holds the
    graph, built at first use. `threads` is the number of texts worked on at once.
    """

    space = SPACE
    dimensions = DIMENSIONS
    max_tokens = MAX_TOKENS

    def __init__(self, folder: Path, *, threads: int = 1) -> None:
        self._tokenizer = shared_tokenizer()
        weights = open_weights()
        shape = weights.shape
        self._words = weights.blocks("emb.word", shape.hidden)
        positions = weights.floats("emb.pos").reshape(-1, shape.hidden)[: shape.positions]
        self._positions: Floats = positions + weights.floats("emb.type").reshape(-1, shape.hidden)[0]
        self._prefixes = {prefix: self._tokenizer.ids(prefix.rstrip()) for prefix in (PASSAGE, QUERY)}
        self._session = _session(ensure_graph(folder))
        self._pool = ThreadPoolExecutor(threads, "e5") if threads > 1 else None

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        return self._embed(texts, PASSAGE)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self._embed(texts, QUERY)

    def tokens(self, text: str, prefix: str) -> list[int]:
        """Ids of `prefix + text` with the special tokens, at most `max_tokens`; the end is cut off."""
        if len(text) > _LONGEST_TEXT:
            text = " ".join(text[:_LONGEST_SPACED_TEXT].split())[:_LONGEST_TEXT]
        ids = self._prefixes[prefix] + self._tokenizer.ids(text or " ")
        return [self._tokenizer.begin, *ids[: MAX_TOKENS - 2], self._tokenizer.end]

    def vector(self, tokens: Sequence[int]) -> Floats:
        """The unit vector of one text, float32 of shape (384,)."""
        embedded = unpack(self._words[np.asarray(tokens)]) + self._positions[: len(tokens)]
        hidden: Floats = self._session.run([OUTPUT], {INPUT: embedded[None]})[0][0]
        total = hidden.sum(axis=0)
        unit: Floats = total / np.linalg.norm(total)
        return unit

    def _embed(self, texts: Sequence[str], prefix: str) -> Vectors:
        vectors = np.empty((len(texts), DIMENSIONS), np.float32)

        def fill(index: int) -> None:
            vectors[index] = self.vector(self.tokens(texts[index], prefix))

        if self._pool is None or len(texts) == 1:
            for index in range(len(texts)):
                fill(index)
        else:
            # Long texts first, so that no core is left with the longest one at the end.
            by_length = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
            list(self._pool.map(fill, by_length))
        return vectors


def _session(graph: Path) -> Any:
    # Later versions of the runtime report usage over the network; the variable must stand before the import.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # Its memory arena never gives back what the longest text once needed.
    options.enable_cpu_mem_arena = False
    return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
