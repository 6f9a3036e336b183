"""What a score is worth: `relevance`, 0 to 1, comparable between queries, modes and bases.

A logistic of each absolute measure: of the cosine, and of BM25 as a share of the query's best
possible. It says how likely a passage with that measure answers its question; in a blend a passage is
worth what the better of both says: a code that stands in it word for word is found however its vector
lies. The constants are fitted per embedding space by `tests/bench/calibrate.py` on questions with an
answer in the corpus and on questions asked of another set's corpus, which have none.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

from knowledge.retrieval.candidates import Candidate
from knowledge.retrieval.contract import Mode


@dataclass(frozen=True, slots=True)
class Logistic:
    """1 / (1 + exp(-(bias + slope · measure)))"""

    bias: float
    slope: float

    def __call__(self, measure: float) -> float:
        return 1 / (1 + exp(-(self.bias + self.slope * measure)))


@dataclass(frozen=True, slots=True)
class Calibration:
    """`words` judges the BM25 share, `meaning` the cosine."""

    words: Logistic
    meaning: Logistic


# Made by `tests/bench/calibrate.py FOLDER --questions 60` on twelve sets, for the built-in model; docs/quality.md has
# the AUC and the rates of false answers.
_DEFAULT = Calibration(words=Logistic(-2.85, 10.38), meaning=Logistic(-6.08, 11.25))
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
    by_words = known.words(candidate.words_share or 0.0)
    by_meaning = known.meaning(candidate.cosine or 0.0)
    if mode == "embedding":
        return by_meaning
    if mode == "keywords" or candidate.cosine is None:
        return by_words
    return max(by_words, by_meaning)
