"""In which lexemes a query is searched in one base: its own, those of the base's terms, those that were meant.

Only bases with terms, and queries with a corrected word, have a wording; all others search the query's lexemes
as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from knowledge.text import Terms, normalise, tokenise

# What another word for the same counts, of what the word that was asked for counts.
SYNONYM_SHARE = 0.8
# What a word that was put in for a mistyped one counts.
CORRECTED_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class Wording:
    """`weights` multiply each lexeme's idf. `beside` are other words for something that is asked for already: they
    score and do not count for the best possible score. `terms` are those of the base that the query names.
    """

    weights: Mapping[str, float]
    beside: frozenset[str] = frozenset()
    terms: tuple[str, ...] = field(default=())

    def ideal(self, idf: Callable[[str], float]) -> float:
        """The sum that BM25 can not exceed, but for `beside`."""
        return sum(weight * idf(lexeme) for lexeme, weight in self.weights.items() if lexeme not in self.beside)

    def put_right(self, corrections: Mapping[str, Sequence[str]]) -> Wording:
        """The same with the lexemes that were meant for each lexeme that was mistyped."""
        weights: dict[str, float] = {}
        for lexeme, weight in self.weights.items():
            if lexeme not in corrections:
                weights[lexeme] = max(weight, weights.get(lexeme, 0.0))
                continue
            for meant in corrections[lexeme]:
                weights[meant] = max(CORRECTED_SHARE * weight, weights.get(meant, 0.0))
        return Wording(weights, self.beside - set(corrections), self.terms)


def plain(lexemes: Sequence[str]) -> Wording:
    """The lexemes as they are."""
    return Wording(dict.fromkeys(lexemes, 1.0))


def with_terms(query: str, lexemes: Sequence[str], terms: Terms) -> Wording | None:
    """The query in a base's terms; None when it names none of them.

    A term that is named by another word for it counts as much as the words of that stretch together, less
    a fifth, so that who says the same differently is found nearly as well, and below.
    """
    weights = dict.fromkeys(lexemes, 1.0)
    beside: set[str] = set()
    named: dict[str, None] = {}
    own: list[tuple[int, int, str]] | None = None
    normal = normalise(query).text
    for start, end, lexeme in terms.matches(normal):
        named[lexeme] = None
        if lexeme in weights and lexeme not in beside:
            weights[lexeme] = terms.weights[lexeme]
            continue
        if own is None:
            own = [(token.start, token.end, token.lexeme) for token in tokenise(normal)]
        within = {one for low, high, one in own if start <= low and high <= end and one in weights}
        if terms.is_head(normal[start:end], lexeme):
            weights[lexeme] = terms.weights[lexeme]
        else:
            weights[lexeme] = SYNONYM_SHARE * terms.weights[lexeme] * max(len(within), 1)
            beside.add(lexeme)
    return Wording(weights, frozenset(beside), tuple(named)) if named else None
