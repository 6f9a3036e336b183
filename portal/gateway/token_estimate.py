"""Token counts for models whose tokenizer we do not have."""

from __future__ import annotations

import re
from collections.abc import Sequence

_PART = re.compile(r"[A-Za-z]+|[0-9]+|[^\x00-\x7f]+|\S|\n")
_LETTERS, _DIGITS, _BYTES = 3, 2, 2  # of each that make a token, on the safe side
_ENDS = 2


class EstimatedTokenCounter:
    """Counts more tokens than nearly every tokenizer in use, so that nothing is cut off unseen.

    A third of a run of letters, half of a run of digits, half of the UTF-8 bytes of other scripts
    (1.5 a Chinese character), one for each sign.
    """

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens

    def count(self, texts: Sequence[str]) -> list[int]:
        return [_ENDS + sum(_tokens(part) for part in _PART.findall(text)) for text in texts]


def _tokens(part: str) -> int:
    first = part[0]
    if not first.isascii():
        return -(-len(part.encode("utf-8", "replace")) // _BYTES)
    if first.isalpha():
        return -(-len(part) // _LETTERS)
    return -(-len(part) // _DIGITS)
