"""Tiny cross-encoders in the files that an operator would supply: they like texts with certain words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace


def write(folder: Path, liked: dict[str, float], *, labels: int = 1) -> Path:
    """A model whose logit is the sum of what each token is worth; the query counts as well."""
    folder.mkdir(parents=True, exist_ok=True)
    words = ["[UNK]", *liked]
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    worth = np.array([[0.0], *([value] for value in liked.values())], np.float32)
    if labels == 2:
        worth = np.concatenate([np.zeros_like(worth), worth], axis=1)
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "tokens"])
    mask = helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", "tokens"])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", labels])
    nodes = [
        helper.make_node("Gather", ["worth", "input_ids"], ["each"]),
        helper.make_node("ReduceSum", ["each", "axes"], ["logits"], keepdims=0),
    ]
    held = [numpy_helper.from_array(worth, "worth"), numpy_helper.from_array(np.array([1], np.int64), "axes")]
    graph = helper.make_graph(nodes, "cross-encoder", [ids, mask], [logits], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(folder / "model.onnx"))
    return folder
