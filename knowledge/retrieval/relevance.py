"""What a score is worth: `relevance`, 0 to 1, comparable between queries, modes and bases.

A logistic of two absolute measures: the centred cosine, and BM25 as a share of the query's best
possible. Its constants say how likely a passage with these two answers its question; they are fitted
per embedding space by `tests/bench/calibrate.py` on questions with an answer in the corpus and
on questions asked of another set's corpus, which have none.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

from knowledge.retrieval.candidates import Candidate
from knowledge.retrieval.contract import Mode


@dataclass(frozen=True, slots=True)
class Logistic:
    """1 / (1 + exp(-(bias + cosine · centred cosine + words · BM25 share)))"""

    bias: float
    cosine: float
    words: float

    def __call__(self, cosine: float, words: float) -> float:
        return 1 / (1 + exp(-(self.bias + self.cosine * cosine + self.words * words)))


@dataclass(frozen=True, slots=True)
class Calibration:
    """The logistic of each mode: both measures, or the one that the mode has."""

    blend: Logistic
    keywords: Logistic
    embedding: Logistic


# Made by `tests/bench/calibrate.py FOLDER --questions 60` on twelve sets, for the built-in model; docs/quality.md has
# the AUC and the rates of false answers. At 0.5 about one question in a hundred that has no answer still gets one.
_DEFAULT = Calibration(
    blend=Logistic(-4.95, 9.15, 1.31), keywords=Logistic(-2.85, 0.0, 10.37), embedding=Logistic(-5.32, 9.49, 0.0)
)
# By the beginning of a space's key.
_BY_SPACE: dict[str, Calibration] = {}


def calibration(space_key: str | None) -> Calibration:
    """The constants of a space; those of the built-in model where a space has none of its own."""
    for beginning, found in _BY_SPACE.items():
        if space_key is not None and space_key.startswith(beginning):
            return found
    return _DEFAULT


def relevance(candidate: Candidate, mode: Mode, space_key: str | None) -> float:
    """How likely the candidate answers, by what is known of it: without a cosine, by its words alone."""
    known = calibration(space_key)
    words = candidate.words_share or 0.0
    if mode == "embedding":
        return known.embedding(candidate.centred or 0.0, 0.0)
    if mode == "keywords" or candidate.centred is None:
        return known.keywords(0.0, words)
    return known.blend(candidate.centred, words)
