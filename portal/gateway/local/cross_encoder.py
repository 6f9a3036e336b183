"""A cross-encoder that the operator supplies: a folder with `model.onnx` and `tokenizer.json`, as exporters write it.

Reads query and text together and says how well the text answers, 0 to 1: the sigmoid of the only logit, or the
share of the last of several (BGE, Jina and MiniLM rerankers export one of the two).
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from portal.kernel.errors import Invalid

MODEL_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"
MAX_TOKENS = 512


class CrossEncoder:
    """A loaded model. Raises `Invalid` (rerank_model_unusable) for a folder that holds none."""

    def __init__(self, folder: Path, *, threads: int = 1) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.enable_cpu_mem_arena = False  # texts differ in length: the arena would keep the longest for good
        try:
            self._tokenizer: Any = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
            self._session: Any = onnxruntime.InferenceSession(
                str(folder / MODEL_FILE), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            # Both libraries raise anything at a file they do not like.
            raise Invalid(
                "ARCHWAY_RERANK_MODEL must be a folder with a model.onnx and a tokenizer.json that can be read.",
                code="rerank_model_unusable",
            ) from error
        self._tokenizer.enable_truncation(MAX_TOKENS, strategy="only_second")
        self._inputs = {node.name for node in self._session.get_inputs()}

    def score(self, query: str, text: str) -> float:
        """How well `text` answers `query`, 0 to 1."""
        encoded = self._tokenizer.encode(query[:1_000], text or " ")
        given = {
            "input_ids": encoded.ids,
            "attention_mask": encoded.attention_mask,
            "token_type_ids": encoded.type_ids,
        }
        feed = {name: np.array([values], np.int64) for name, values in given.items() if name in self._inputs}
        logits = np.asarray(self._session.run(None, feed)[0], np.float64).reshape(-1)
        if len(logits) == 1:
            value = float(logits[0])
        else:
            others = float(np.logaddexp.reduce(logits[:-1]))
            value = float(logits[-1]) - others
        return 1 / (1 + math.exp(-max(min(value, 60.0), -60.0)))


@cache
def loaded(folder: str, threads: int = 1) -> CrossEncoder:
    """The model of a folder, once a process."""
    return CrossEncoder(Path(folder), threads=threads)
