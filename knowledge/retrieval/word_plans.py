"""Which leaves are worth scoring for a query in words, when there are too many to score all that match.

Two families of leaves, both answered by an index and both small:

- *conjunctions*: the leaves that hold a set of the query's lexemes worth at least some sum of idf. A rare
  lexeme is worth it alone, common ones only together. The sum is chosen so that about as many leaves
  match as there is time for; the sets above it are a monotone function, written as an OR of ANDs.
- *strong*: the leaves in which a lexeme fills much of the leaf (the index `chunk_strong` keeps, for each
  leaf, the lexemes with a high saturation f / (f + n) and its tier). Among leaves that hold one common
  word only, these are the best by BM25.

What is in neither family has a bound (as in block-max WAND, Ding and Suel, "Faster Top-k Document
Retrieval Using Block-Max Indexes", 2011): the best k found are certain when none of them is below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from knowledge.text import tsquery_literal

# Sets are formed of so many of the rarest lexemes; all the others only score.
MAX_LEXEMES = 8
# Words of one topic stand together: this much more often than chance, for each further word (measured).
TOGETHER = 2.2
# Saturations f / (f + n) from which a lexeme is strong in its leaf, with n = 0.3 + 0.9 · length / 75, as the function
# `knowledge_strong` has them.
TIERS = (0.55, 0.65, 0.75, 0.83, 0.9)
TIER_LENGTH = 75.0
TIER_MARK = "\x01"
# Of the leaves that hold a lexeme, the share that hold it so many times (measured; between them by logarithms).
_TIMES = (1.0, 1.5, 2.2, 3.6, 5.9, 10.8)
_SHARES = (0.6, 0.07, 0.012, 0.003, 0.001, 0.0003)

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Family:
    """The leaves that hold one of some sets of lexemes. `tsquery` is None when there is no such set.

    `sets` are the smallest of them; `worth` is the least idf of a set that is in, `expected` how many leaves match.
    `missing` are the largest sets that are not in, as one row of 0 and 1 for each, a column a lexeme.
    """

    tsquery: str | None
    sets: tuple[tuple[str, ...], ...]
    worth: float
    expected: int
    missing: Numbers


def conjunctions(
    lexemes: Sequence[str], frequencies: Sequence[int], idfs: Sequence[float], leaves: int, budget: int
) -> Family:
    """The family whose members have the most idf, about `budget` of them. Lexemes come rarest first."""
    used = min(len(lexemes), MAX_LEXEMES)
    members = _subsets(used)
    values = members @ np.asarray(idfs[:used])
    counts = _expected(members, np.asarray(frequencies[:used], dtype=float), leaves)
    order = np.argsort(-values, kind="stable")
    taken = int(np.searchsorted(np.cumsum(counts[order]), budget, side="right"))
    chosen = np.zeros(len(members), dtype=bool)
    chosen[order[:taken]] = True
    chosen[0] = False
    smallest = [row for row in map(int, np.flatnonzero(chosen)) if not _any_neighbour(chosen, row, used, without=True)]
    largest = [row for row in map(int, np.flatnonzero(~chosen)) if _none_above(chosen, row, used)]
    sets = tuple(tuple(lexemes[place] for place in range(used) if row >> place & 1) for row in smallest)
    missing = np.ones((len(largest), len(lexemes)))
    missing[:, :used] = members[largest]
    return Family(
        tsquery=" | ".join(f"({tsquery_literal(one, '&')})" for one in sets) or None,
        sets=sets,
        worth=float(values[chosen].min()) if chosen.any() else float("inf"),
        expected=int(counts[chosen].sum()),
        missing=missing,
    )


def together(lexemes: Sequence[str]) -> Family:
    """The leaves that hold all of some lexemes, however many there are."""
    return Family(f"({tsquery_literal(lexemes, '&')})", (tuple(lexemes),), 0.0, 0, np.ones((1, len(lexemes))))


@dataclass(frozen=True, slots=True)
class Strong:
    """The leaves in which a lexeme is strong: the elements to look for, and what each lexeme is below elsewhere."""

    elements: tuple[str, ...]
    below: Numbers


def tier_shares(average_length: float) -> Numbers:
    """Of the leaves that hold a lexeme, the share in which it is at least so strong, where leaves are so long."""
    saturations = np.asarray(TIERS)
    times = saturations / (1 - saturations) * (0.3 + 0.9 * average_length / TIER_LENGTH)
    return np.asarray(np.exp(np.interp(np.log(times), np.log(_TIMES), np.log(_SHARES))))


def strong(
    lexemes: Sequence[str],
    frequencies: Sequence[int],
    shares: Sequence[float],
    average_length: float,
    budget: int,
    family: Family,
) -> Strong:
    """For each lexeme the lowest tier that at most about `budget` leaves reach; `family` brings some lexemes whole.

    `shares` are of all leaves: the words of which every text is full are more often strong (measured).
    """
    parts = tier_shares(average_length)
    elements: list[str] = []
    below = np.ones(len(lexemes))
    whole = {one[0] for one in family.sets if len(one) == 1}
    for place, (lexeme, frequency) in enumerate(zip(lexemes, frequencies, strict=True)):
        fullness = (1 - min(shares[place], 1.0)) ** 3
        fitting = [tier for tier, part in enumerate(parts) if part**fullness * frequency <= budget]
        if place >= MAX_LEXEMES or lexeme in whole or not fitting:
            continue
        below[place] = TIERS[fitting[0]]
        elements += [f"{lexeme}{TIER_MARK}{tier + 1}" for tier in range(fitting[0], len(TIERS))]
    return Strong(tuple(elements), below)


def saturation_bound(below: Numbers, average_length: float) -> Numbers:
    """The same bound for leaves of a base with another average length than the tiers were made with.

    From f / (f + n) < b follows f / (f + n') < b / (b + (1 - b) · n' / n), and n' / n is at least 75 / average
    when leaves are longer than that on average, else at least 1.
    """
    ratio = min(1.0, TIER_LENGTH / average_length)
    return np.asarray(below / (below + (1 - below) * ratio))


def _subsets(count: int) -> Numbers:
    """Every subset of `count` things as a row of 0 and 1; row number i holds the binary digits of i."""
    return (np.arange(2**count)[:, None] >> np.arange(count) & 1).astype(float)


def _expected(members: Numbers, frequencies: Numbers, leaves: int) -> Numbers:
    """How many leaves hold each set and nothing else; words of one topic stand together more often than chance."""
    shares = np.clip(frequencies / max(leaves, 1), 1e-9, 1.0)
    sizes = members.sum(axis=1)
    chance = np.prod(np.where(members > 0, shares, 1 - shares), axis=1) * TOGETHER ** np.maximum(sizes - 1, 0)
    rarest = np.where(members > 0, shares, 1.0).min(axis=1)
    return np.asarray(np.minimum(chance, rarest) * leaves * (sizes > 0))


def _any_neighbour(chosen: NDArray[np.bool_], row: int, used: int, *, without: bool) -> bool:
    """Whether a set with one lexeme less (`without`) or more is chosen."""
    changed = (row ^ 1 << place for place in range(used) if bool(row >> place & 1) == without)
    return any(bool(chosen[other]) for other in changed)


def _none_above(chosen: NDArray[np.bool_], row: int, used: int) -> bool:
    """Whether every set with one lexeme more is chosen: then this one is as large as a missing set gets."""
    return all(bool(chosen[row | 1 << place]) for place in range(used) if not row >> place & 1)
