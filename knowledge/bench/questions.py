"""Questions to a synthetic library: words that stand together somewhere in it, and a vector near the same leaf."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from django.db import connection

from knowledge.bench.synthetic import Synthesis, Vector
from knowledge.text import query_lexemes

# A word that stands in more than this share of all leaves is common; what asks for nothing else is reported apart.
COMMON = 0.1


@dataclass(frozen=True, slots=True)
class Question:
    """Text and unit vector. `kind`: natural, short, code, word, common."""

    kind: str
    text: str
    vector: Vector


def questions(
    count: int, *, kinds: tuple[str, ...] = ("natural", "short", "code", "word"), seed: int = 7
) -> list[Question]:
    """`count` questions of the kinds in turn, the same ones whenever the library is the same."""
    chance, dice = random.Random(seed), np.random.default_rng(seed)  # noqa: S311 (a measurement, no secret)
    synthesis = Synthesis()
    frequencies = _frequencies()
    total = max(_leaves(), 1)
    made: list[Question] = []
    while len(made) < count:
        kind = kinds[len(made) % len(kinds)]
        text, vector = _leaf(chance)
        words = _words(kind, text.split(), chance, frequencies, total)
        common = all(frequencies.get(lexeme, 0) > COMMON * total for lexeme in query_lexemes(" ".join(words)))
        if not words or common != (kind == "common"):
            continue
        made.append(Question(kind, " ".join(words), synthesis.question_vector(vector, dice)))
    return made


def _words(kind: str, words: list[str], chance: random.Random, frequencies: dict[str, int], total: int) -> list[str]:
    if kind == "natural":
        length = chance.randint(5, 9)
        start = chance.randrange(max(len(words) - length, 1))
        return words[start : start + length]
    if kind == "short":
        return chance.sample(words, min(3, len(words)))
    if kind == "code":
        return [word for word in words if word.startswith("TH-")][:1] + chance.sample(words, 1)
    if kind == "word":
        middling = [word for word in words if 0.01 * total < frequencies.get(word, 0) <= COMMON * total]
        return chance.sample(middling, min(len(middling), chance.randint(1, 2)))
    everywhere = list(dict.fromkeys(word for word in words if frequencies.get(word, 0) > COMMON * total))
    return chance.sample(everywhere, min(len(everywhere), chance.randint(1, 4)))


def _frequencies() -> dict[str, int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT lexeme, sum(chunks)::bigint FROM knowledge_baseterm WHERE lexeme <> '' GROUP BY 1")
        return dict(cursor.fetchall())


def _leaves() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT coalesce(sum(chunks), 0)::bigint FROM knowledge_baseterm WHERE lexeme = ''")
        return int(cursor.fetchone()[0])


def _leaf(chance: random.Random) -> tuple[str, Vector]:
    """Text and vector of some leaf."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT min(chunk_id), max(chunk_id) FROM knowledge_chunkvector")
        low, high = cursor.fetchone()
        cursor.execute(
            "SELECT c.text, v.halfvec::real[] FROM knowledge_chunkvector v JOIN knowledge_chunk c ON c.id = v.chunk_id "
            "WHERE v.chunk_id >= %s ORDER BY v.chunk_id LIMIT 1",
            [chance.randint(low, high)],
        )
        text, vector = cursor.fetchone()
    return text, np.asarray(vector, dtype=np.float32)
