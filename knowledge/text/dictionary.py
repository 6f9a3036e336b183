"""Chinese words: the one dictionary of the process, and the likeliest way to cut a run of Han characters.

The words and their frequencies are those of the `jieba` package. Its dictionary file is read
without importing the package: it is folded by our own normaliser first, so that `著作`, `T恤` and
`AA制` are still words after folding, and needs neither jieba's cache file (a marshalled file in a
shared temporary folder) nor its logger. The path is jieba's: the sequence of words with the
greatest product of frequencies. Its guessing of unknown words is left out, because a guess depends
on the sentence, and query and document must agree; pairs of characters stand in for it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from importlib.util import find_spec
from math import log
from pathlib import Path

from knowledge.text.normal_form import simplified

_lock = threading.Lock()
_loaded: Dictionary | None = None


@dataclass(frozen=True, slots=True)
class Dictionary:
    """`weights` maps a word to the logarithm of its share of all words.

    `longest` gives, for the first two characters of words of three or more, the longest such word.
    """

    weights: dict[str, float]
    longest: dict[str, int]
    unknown: float

    def cut(self, run: str) -> list[int]:
        """The ends of the words of `run`, a string of Han characters. Linear in its length."""
        weights, longest, unknown = self.weights, self.longest, self.unknown
        size = len(run)
        best = [0.0] * (size + 1)
        ends = [0] * size
        for start in range(size - 1, -1, -1):
            score = weights.get(run[start], unknown) + best[start + 1]
            end = start + 1
            pair = run[start : start + 2]
            value = weights.get(pair)
            if value is not None and len(pair) == 2:
                value += best[start + 2]
                if value >= score:
                    score, end = value, start + 2
            limit = longest.get(pair)
            if limit:
                for stop in range(start + 3, min(start + limit, size) + 1):
                    value = weights.get(run[start:stop])
                    if value is not None:
                        value += best[stop]
                        if value >= score:
                            score, end = value, stop
            best[start] = score
            ends[start] = end
        cuts = []
        position = 0
        while position < size:
            position = ends[position]
            cuts.append(position)
        return cuts


def dictionary() -> Dictionary:
    """The shared dictionary: loaded at first use (0.4 s, about 70 MB), then the same object for every thread."""
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                _loaded = _load()
    return _loaded


def _load() -> Dictionary:
    spec = find_spec("jieba")
    assert spec is not None and spec.origin is not None
    raw = (Path(spec.origin).parent / "dict.txt").read_bytes().decode("utf-8")
    # Three columns: word, frequency, part of speech. No word holds a blank.
    columns = raw.lower().translate(simplified()).split()
    counts = columns[1::3]
    total = 0
    numbers = {count: int(count) for count in set(counts)}
    for count in counts:
        total += numbers[count]
    logarithms = {count: log(max(number, 1) / total) for count, number in numbers.items()}
    weights = dict(zip(columns[0::3], map(logarithms.__getitem__, counts), strict=True))
    longest: dict[str, int] = {}
    for word in weights:
        if len(word) > 2 and len(word) > longest.get(word[:2], 0):
            longest[word[:2]] = len(word)
    return Dictionary(weights, longest, log(1 / total))
