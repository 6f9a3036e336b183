"""A deterministic library of any size: words and vectors with the shape of real ones, no two runs different.

- Chinese words have the frequencies of the dictionary; English ones are made of syllables and follow
  Zipf and Mandelbrot. Every document has a topic, which lends a third of its words.
- Vectors lie as those of multilingual-e5-small do once mean and language are taken off (measured on 900
  texts): topic, document and leaf have such shares of their squared length, and the spectrum decays slowly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from knowledge.text import tokenise
from knowledge.text.dictionary import dictionary
from knowledge.text.postgres import quoted

Vector = NDArray[np.float32]

WORDS = 40_000
TOPICS = 400
TOPIC_WORDS = 300
TOPIC_SHARE = 0.35
CODE_SHARE = 0.15
# Squared lengths of what a vector is made of; together 1. QUESTION is that of what a question adds to its answer.
TOPIC, DOCUMENT, LEAF, QUESTION = 0.286, 0.171, 0.543, 0.857
DIMENSIONS = 384
LEAVES_OF_A_PASSAGE = 3

# Sizes of the bases as shares of the library, largest first; the rest are bases of the smallest size.
_BASES = (0.3, 0.2, 0.15, 0.1, 0.08, 0.05, 0.03, 0.02, 0.02, 0.01, 0.01, 0.005, 0.005, 0.003, 0.002, 0.001, 0.001)
SMALLEST_BASE = 100
_ONSETS = ["", *"bcdfghjklmnprstvwyz", "br", "ch", "cl", "dr", "fl", "gr", "pl", "pr", "sh", "sp", "st", "th", "tr"]
_RIMES = ["a", "e", "i", "o", "u", "al", "an", "ar", "en", "er", "ess", "ic", "in", "ion", "it", "on", "or", "ure"]


def base_sizes(chunks: int) -> list[int]:
    """How many leaves each base holds: from 30 % of all down to 100, together `chunks`."""
    sizes = [int(chunks * share) for share in _BASES if chunks * share >= SMALLEST_BASE]
    while sum(sizes) < chunks:
        sizes.append(min(SMALLEST_BASE, chunks - sum(sizes)))
    return sizes


@dataclass(frozen=True, slots=True)
class Word:
    """A word as written, and its lexemes in the quoting of a tsvector literal."""

    text: str
    lexemes: tuple[str, ...]
    plain: tuple[str, ...]


@dataclass(slots=True)
class Leaf:
    """Text, tsvector literal, number of tokens; `words` are its places in the vocabulary of its language."""

    text: str
    lexemes: str
    tokens: int
    words: NDArray[np.int64]
    code: Word | None = None


@dataclass(slots=True)
class SyntheticDocument:
    """One document: its number, language (0 Chinese, 1 English), topic, leaves and one unit vector a leaf."""

    number: int
    language: int
    topic: int
    leaves: list[Leaf]
    vectors: Vector


@dataclass(slots=True)
class Vocabulary:
    """The words of one language, commonest first, with their probabilities as a running sum."""

    words: list[Word]
    running: NDArray[np.float64]
    topics: list[NDArray[np.int64]] = field(default_factory=list)


class Synthesis:
    """Makes documents; the same `seed` makes the same ones, whatever was asked for before."""

    def __init__(self, seed: int = 20260101) -> None:
        self.seed = seed
        dice = np.random.default_rng([seed, 0])
        self.vocabularies = (_vocabulary(*_chinese(), dice), _vocabulary(*_english(dice), dice))
        self._topic_running = np.cumsum(_zipf(TOPIC_WORDS))
        spectrum = (np.arange(DIMENSIONS) + 2.0) ** -0.35
        rotation = np.linalg.qr(dice.normal(size=(DIMENSIONS, DIMENSIONS)))[0]
        self._basis = (spectrum / np.sqrt((spectrum**2).sum()))[:, None] * rotation
        self._topics = self._points(dice, TOPICS, TOPIC)

    def _points(self, dice: np.random.Generator, count: int, square: float) -> NDArray[np.float64]:
        return np.asarray(dice.normal(size=(count, DIMENSIONS)) @ self._basis * np.sqrt(square))

    def document(self, number: int, leaves: int) -> SyntheticDocument:
        """Document `number` with so many leaves."""
        dice = np.random.default_rng([self.seed, 1, number])
        language, topic = number % 2, int(dice.integers(TOPICS))
        around = self._topics[topic] + self._points(dice, 1, DOCUMENT)
        vectors = _unit(around + self._points(dice, leaves, LEAF)).astype(np.float32)
        rows = self._word_numbers(dice, language, topic, leaves)
        codes = dice.random(leaves) < CODE_SHARE
        return SyntheticDocument(
            number,
            language,
            topic,
            [self._leaf(language, row, f"TH-{number:05d}-{n}" if codes[n] else "") for n, row in enumerate(rows)],
            vectors,
        )

    def question_vector(self, vector: Vector, dice: np.random.Generator) -> Vector:
        """A unit vector near a leaf's: cosine about 0.73, as that of a question to its answer."""
        return np.asarray(_unit(vector + self._points(dice, 1, QUESTION)[0]), dtype=np.float32)

    def _word_numbers(
        self, dice: np.random.Generator, language: int, topic: int, leaves: int
    ) -> list[NDArray[np.int64]]:
        vocabulary = self.vocabularies[language]
        lengths = np.clip(dice.lognormal(4.2, 0.35, leaves), 20, 160).astype(int)
        total = int(lengths.sum())
        numbers = np.searchsorted(vocabulary.running, dice.random(total))
        of_topic = np.flatnonzero(dice.random(total) < TOPIC_SHARE)
        chosen = np.searchsorted(self._topic_running, dice.random(len(of_topic)))
        numbers[of_topic] = vocabulary.topics[topic][chosen]
        return np.split(numbers, np.cumsum(lengths)[:-1])

    def _leaf(self, language: int, numbers: NDArray[np.int64], code: str) -> Leaf:
        words = self.vocabularies[language].words
        row = [words[number] for number in numbers.tolist()]
        coded = _word(code) if code else None
        if coded:
            row.append(coded)
        places: dict[str, str] = {}
        tokens = 0
        for position, word in enumerate(row, 1):
            for lexeme in word.lexemes:
                known = places.get(lexeme)
                places[lexeme] = f"{known},{position}" if known else f"{lexeme}:{position}"
            tokens += len(word.lexemes)
        return Leaf(" ".join(word.text for word in row), " ".join(places.values()), tokens, numbers, coded)


def documents_of(
    synthesis: Synthesis, base: int, leaves: int, first: int, *, cutoff: int = 2_000
) -> Iterator[SyntheticDocument]:
    """Documents of together `leaves` leaves, numbered from `first`: some 30 leaves each, few very large."""
    dice = np.random.default_rng([synthesis.seed, 2, base])
    left, number = leaves, first
    while left > 0:
        size = min(left, int(np.clip(dice.lognormal(2.9, 1.0), 1, cutoff)))
        yield synthesis.document(number, size)
        left -= size
        number += 1


def _word(text: str) -> Word:
    plain = tuple(dict.fromkeys(token.lexeme for token in tokenise(text)))
    return Word(text, tuple(quoted(lexeme) for lexeme in plain), plain)


def _chinese() -> tuple[list[str], NDArray[np.float64]]:
    weights = dictionary().weights
    han = [word for word in weights if 1 <= len(word) <= 4 and all("\u4e00" <= char <= "\u9fff" for char in word)]
    chosen = sorted(han, key=lambda word: (-weights[word], word))[:WORDS]
    return chosen, np.exp([weights[word] for word in chosen])


def _english(dice: np.random.Generator) -> tuple[list[str], NDArray[np.float64]]:
    words: dict[str, None] = {}
    while len(words) < WORDS:
        syllables = 1 + len(words) // 300 if len(words) < 600 else int(dice.integers(2, 5))
        parts = (str(dice.choice(_ONSETS)) + str(dice.choice(_RIMES)) for _ in range(syllables))
        words["".join(parts)] = None
    return list(words), _zipf(WORDS)


def _zipf(count: int) -> NDArray[np.float64]:
    shares = 1 / (np.arange(count) + 2.7) ** 1.05
    return np.asarray(shares / shares.sum())


def _vocabulary(words: list[str], shares: NDArray[np.float64], dice: np.random.Generator) -> Vocabulary:
    topics = [dice.choice(np.arange(150, len(words)), TOPIC_WORDS, replace=False) for _ in range(TOPICS)]
    running = np.cumsum(shares / shares.sum())
    running[-1] = 1.0
    return Vocabulary([_word(word) for word in words], running, topics)


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))
